"""Topics over Valkey's publish and subscribe, and token logs over one stream for each answer.

Text of this process is served from its memory; the stream is a copy for listeners in other processes,
written some milliseconds later. An entry of the stream holds some events, and its id is
`position-0` of the last of them:

    17-0            {b: 16 events}     positions 2 … 17
    18-0            {e: the end}
    1000000000-0    {r: ""}            earlier text is void

The server refuses ids that do not grow. So an entry sent twice is stored once, and an attempt that was taken
over, or has ended, can add nothing to a stream that went on without it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from redis.exceptions import ResponseError

from radixway.chat import published_shapes
from radixway.chat.coordination.shared_notifier import ReconnectingTasks
from radixway.chat.token_log import ATTEMPT, LAST, AnswerLog, TokenLog, TokenLogEntry, attempt_base
from radixway.core.net.task_cancellation import cancel_tasks
from radixway.core.net.valkey import ERRORS, connect_valkey

CHANNEL = b"radixway:chats"


class ValkeyTopicTransport:
    """A connection that publishes, and one that subscribes."""

    errors = ERRORS

    def __init__(self, url: str, process: str) -> None:
        """`process`: a name of this one alone."""
        self._redis = connect_valkey(url)
        self._url = url
        self._process = process.encode()

    async def publish_topics(self, topics: Collection[str]) -> None:
        """Send `topics` to every other process."""
        await self._redis.publish(CHANNEL, b"\n".join([self._process, *(topic.encode() for topic in topics)]))

    async def receive_topics(self, on_topic: Callable[[str], None], ready: Callable[[], None]) -> None:
        """Call `ready` once connected, then `on_topic` for each topic, until the connection breaks."""
        async with connect_valkey(self._url, answer_s=None) as redis, redis.pubsub() as pubsub:
            await pubsub.subscribe(CHANNEL)
            while True:
                message: dict[str, Any] | None = await pubsub.get_message(timeout=None)
                if message is None:
                    continue
                if message["type"] == "subscribe":
                    ready()
                elif message["type"] == "message":
                    process, *topics = message["data"].split(b"\n")
                    for topic in topics if process != self._process else ():
                        on_topic(topic.decode())

    async def aclose(self) -> None:
        """Close the connection; nothing is sent or received any more."""
        await self._redis.aclose()


_PACE_S = 0.012
"""Interval between two pipelines; tokens within it travel together."""
_READ_S = 15
"""An idle read is restarted after this, so that a dead connection is noticed."""
_STREAM_S = 3600
"""A stream whose process died without its end expires after this."""
_FLUSH_S = 0.5

_Command = tuple[Any, ...]


@dataclass(slots=True)
class _StreamCopy:
    position: int = 0
    """Position of the last event."""
    exists: bool = False
    ended: bool = False
    left: bool = False
    """Another process writes it from now on; text of this process is still to be sent."""
    renewed_at: float = 0.0


class ValkeyTokenLog(TokenLog):
    """A `TokenLog` for several processes; during an outage it still works within this one."""

    is_shared = True

    def __init__(self, url: str, process: str, tasks: ReconnectingTasks, *, kept_s: float = 60.0) -> None:
        """`process`: a name of this one alone. Raises ValueError: the URL."""
        super().__init__(kept_s=kept_s)
        self._redis = connect_valkey(url)
        self._reading = connect_valkey(url, answer_s=_READ_S + 5)
        self._reconnecting = tasks
        self._control = f"radixway:listening:{process}".encode()
        self._own: dict[str, _StreamCopy] = {}
        self._unsent: set[str] = set()
        self._marks: list[tuple[str, int, str, bytes]] = []
        """Restarts, and ends without an attempt: message, position, field, event; no field: delete."""
        self._followed: dict[str, int] = {}
        """Answers read from streams, with the position read so far."""
        self._more_followed = False
        self._has_unsent = asyncio.Event()
        self._unsure = True

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write to and read from the server until the context ends, reconnecting after outages."""
        run = self._reconnecting.run_reconnecting
        tasks = [
            asyncio.create_task(run("writing tokens", self._write_loop, ERRORS, self._mark_unsure)),
            asyncio.create_task(run("reading tokens", self._read_loop, ERRORS, self._mark_unsure)),
        ]
        try:
            yield
        finally:
            await cancel_tasks(tasks)
            with suppress(*ERRORS):
                async with asyncio.timeout(_FLUSH_S):
                    await self._send_pending()
                    await self._redis.delete(self._control)
            await self._redis.aclose()
            await self._reading.aclose()

    def append_events(self, message_id: str, attempt: int, events: Sequence[bytes]) -> None:
        """Append `events` here, and to the stream of `message_id` some milliseconds later."""
        super().append_events(message_id, attempt, events)
        self._own_stream(message_id, attempt)
        self._schedule_write(message_id)

    async def restart_attempt(self, message_id: str, attempt: int) -> None:
        """Void the text of `attempt`, here and in the stream."""
        if message_id in self._logs:
            self._logs[message_id].restart_at(attempt_base(attempt + 1))
        self._add_mark(message_id, attempt_base(attempt + 1), "r", b"")

    async def end_log(self, message_id: str, event: bytes, attempt: int | None = None) -> None:
        """End the log with `event`, here and in the stream; `attempt` None: of no attempt."""
        if attempt is not None:
            self._own_stream(message_id, attempt)
            await super().end_log(message_id, event, attempt)
            self._schedule_write(message_id)
            return
        self._add_mark(message_id, LAST, "e", event)
        if message_id not in self._followed or self._reconnecting.problem is not None:
            await super().end_log(message_id, event)  # otherwise it is read from the stream in order

    async def drop_logs(self, message_ids: Collection[str]) -> None:
        """Delete the logs of `message_ids`, and their streams."""
        await super().drop_logs(message_ids)
        for message_id in message_ids:
            self._own.pop(message_id, None)
            self._followed.pop(message_id, None)
            self._add_mark(message_id, 0, "", b"")

    def leave_log(self, message_id: str) -> None:
        """Send what is left, then follow the stream that another process writes."""
        copy = self._own.get(message_id)
        if copy is not None:
            copy.left = True
            self._schedule_write(message_id)
        log = self._logs.get(message_id)
        if log is not None and log.end is None and log.listeners:
            self._follow_stream(message_id, log)

    async def has_log(self, message_id: str) -> bool:
        """Return whether `message_id` has a log here or a stream; False during an outage."""
        if await super().has_log(message_id):
            return True
        if self._reconnecting.problem is not None:
            return False
        try:
            return bool(await self._redis.exists(_stream_key(message_id)))
        except ERRORS:
            return False

    async def attempt_text(self, message_id: str, attempt: int) -> str:
        """Return the text of `attempt` here or in the stream, the longer of the two."""
        here = await super().attempt_text(message_id, attempt)
        if self._reconnecting.problem is not None:
            return here
        first, last = attempt_base(attempt) + 1, attempt_base(attempt + 1) - 1
        try:
            found: Any = await self._redis.xrange(_stream_key(message_id), f"{first}-0", f"{last}-0")
        except ERRORS:
            return here
        events = [event for _, fields in found for event in fields.get(b"b", b"").split(b"\n") if event]
        return max(here, published_shapes.join_tokens(events), key=len)

    def _on_listener(self, message_id: str, log: AnswerLog) -> None:
        copy = self._own.get(message_id)
        if log.end is None and (copy is None or copy.left) and message_id not in self._followed:
            self._follow_stream(message_id, log)

    def _on_no_listeners(self, message_id: str, log: AnswerLog) -> None:
        self._followed.pop(message_id, None)
        if message_id not in self._own:
            self._logs.pop(message_id, None)

    def _drop_log(self, message_id: str) -> None:
        if message_id in self._unsent and self._reconnecting.problem is None:  # its end is still to be sent
            asyncio.get_running_loop().call_later(_PACE_S, self._drop_log, message_id)
            return
        super()._drop_log(message_id)
        self._own.pop(message_id, None)

    def _own_stream(self, message_id: str, attempt: int) -> None:
        copy = self._own.get(message_id)
        if copy is None or copy.left:
            self._own[message_id] = _StreamCopy(attempt_base(attempt))
            self._followed.pop(message_id, None)

    def _follow_stream(self, message_id: str, log: AnswerLog) -> None:
        self._followed[message_id] = log.last_position
        self._more_followed = True
        self._has_unsent.set()

    def _schedule_write(self, message_id: str) -> None:
        self._unsent.add(message_id)
        self._has_unsent.set()

    def _add_mark(self, message_id: str, position: int, field: str, event: bytes) -> None:
        self._marks.append((message_id, position, field, event))
        self._has_unsent.set()

    def _mark_unsure(self) -> None:
        self._unsure = True
        self._has_unsent.set()

    async def _write_loop(self) -> None:
        while True:
            if self._unsure:
                await self._inspect_streams()
                self._unsure = False
            await self._send_pending()
            self._reconnecting.mark_working("writing tokens")
            await asyncio.sleep(_PACE_S)
            await self._has_unsent.wait()
            self._has_unsent.clear()

    async def _inspect_streams(self) -> None:
        """Read what the streams hold after an outage: the server may have come back empty."""
        await self._redis.ping()
        own = [message_id for message_id, copy in self._own.items() if not copy.left]
        ends = self._redis.pipeline(transaction=False)
        for message_id in own:
            ends.execute_command("XREVRANGE", _stream_key(message_id), "+", "-", "COUNT", 1)
        for message_id, found in zip(own, await ends.execute() if own else (), strict=True):
            copy, log = self._own[message_id], self._logs[message_id]
            copy.exists = bool(found)
            top = _parse_position(found[0][0]) if found else 0
            copy.ended = log.end is not None and top >= log.end.position
            copy.position = max(log.base, min(top, log.last_position))
            self._schedule_write(message_id)
        self._more_followed = True

    async def _send_pending(self) -> None:
        unsent, self._unsent = self._unsent, set()
        marks, self._marks = self._marks, []
        more, self._more_followed = self._more_followed, False
        commands: list[_Command] = []
        expected: list[tuple[str, int] | None] = []
        for message_id in unsent:
            self._copy_commands(message_id, commands, expected)
        for message_id, position, field, event in marks:
            key = _stream_key(message_id)
            if not field:
                commands.append(("UNLINK", key))
                expected.append(None)
                continue
            commands.append(("XADD", key, f"{position}-0", field, event))
            commands.append(("XTRIM", key, "MINID", position) if field == "r" else self._expire_command(key))
            expected += [None, None]
        if more:
            commands.append(("XADD", self._control, "MAXLEN", 1, "*", "f", ""))
            commands.append(("EXPIRE", self._control, _STREAM_S))
            expected += [None, None]
        if not commands:
            return
        try:
            await self._execute_pipeline(commands, expected)
        except BaseException:
            self._unsent |= unsent
            self._marks = marks + self._marks
            self._more_followed |= more
            self._has_unsent.set()
            raise

    def _copy_commands(
        self, message_id: str, commands: list[_Command], expected: list[tuple[str, int] | None]
    ) -> None:
        """Add one stream's missing entries to `commands`; `expected` gets the position after each."""
        copy, log = self._own.get(message_id), self._logs.get(message_id)
        if copy is None or log is None:
            return
        key, now = _stream_key(message_id), asyncio.get_running_loop().time()
        last = log.last_position
        lacking = log.events[max(copy.position, log.base) - log.base :]
        if copy.left and not lacking:
            del self._own[message_id]
            return
        only_if_there = ("NOMKSTREAM",) if copy.exists else ()
        if lacking:
            commands.append(("XADD", key, *only_if_there, f"{last}-0", "b", b"\n".join(lacking)))
            expected.append((message_id, last))
            if now - copy.renewed_at > _STREAM_S / 2:
                copy.renewed_at = now
                commands.append(("EXPIRE", key, _STREAM_S))
                expected.append(None)
        if log.end is not None and not copy.ended:
            commands.append(("XADD", key, *only_if_there, f"{log.end.position}-0", "e", log.end.event))
            commands.append(self._expire_command(key))
            expected += [(message_id, log.end.position), None]

    def _expire_command(self, key: bytes) -> _Command:
        return "PEXPIRE", key, max(1, round(self.kept_s * 1000))

    async def _execute_pipeline(
        self, commands: list[_Command], expected: list[tuple[str, int] | None]
    ) -> None:
        pipeline = self._redis.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        answers = await pipeline.execute(raise_on_error=False)
        for answer, expects in zip(answers, expected, strict=True):
            if isinstance(answer, Exception) and not (
                isinstance(answer, ResponseError) and "equal or smaller" in str(answer)
            ):
                raise answer
            if expects is not None:
                self._on_sent(*expects, lost=answer is None)

    def _on_sent(self, message_id: str, position: int, *, lost: bool) -> None:
        """Note what was sent; `lost`: the stream no longer existed."""
        copy, log = self._own.get(message_id), self._logs.get(message_id)
        if copy is None or log is None:
            return
        if lost:
            copy.exists = copy.ended = False
            copy.position = log.base
            self._schedule_write(message_id)
            return
        copy.exists = True
        copy.ended = log.end is not None and position == log.end.position
        copy.position = min(position, log.last_position)
        if copy.left and copy.position == log.last_position:
            del self._own[message_id]
            if not log.listeners:
                self._logs.pop(message_id, None)

    async def _read_loop(self) -> None:
        """Read all followed answers with one command."""
        control_id = b"0-0"
        while True:
            ids = {_stream_key(message_id): message_id for message_id in self._followed}
            after: dict[Any, Any] = {
                key: b"%d-0" % self._followed[message_id] for key, message_id in ids.items()
            }
            found: Any = await self._reading.xread({self._control: control_id} | after, block=_READ_S * 1000)
            self._reconnecting.mark_working("reading tokens")
            for key, entries in found.items() if isinstance(found, dict) else found:
                if key == self._control:
                    control_id = entries[-1][0]
                    continue
                for entry_id, fields in entries:
                    self._apply_entry(ids[key], _parse_position(entry_id), fields)
            await asyncio.sleep(_PACE_S)

    def _apply_entry(self, message_id: str, position: int, fields: dict[bytes, bytes]) -> None:
        log = self._logs.get(message_id)
        if log is None or message_id not in self._followed:
            return
        self._followed[message_id] = position
        if b"e" in fields:
            log.close_log(TokenLogEntry(position, fields[b"e"]))
            self._followed.pop(message_id)
            return
        base = position // ATTEMPT * ATTEMPT
        log.restart_at(base)
        events = fields[b"b"].split(b"\n") if b"b" in fields else []
        first = position - len(events)
        if base == log.base and first <= log.last_position < position:
            log.add_events(base, events[log.last_position - first :])


def _stream_key(message_id: str) -> bytes:
    return b"radixway:answer:" + message_id.encode()


def _parse_position(entry_id: bytes) -> int:
    return int(entry_id.partition(b"-")[0])
