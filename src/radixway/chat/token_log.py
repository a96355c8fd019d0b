"""Token logs: the events of an answer so far, for any number of listeners, from any position.

Positions are the `id:` of server-sent events, and are unique over all processes and attempts:

    (0 … 10⁹)      the first attempt at the answer, from 1
    [10⁹ … 2·10⁹)  the second one; 10⁹ itself: earlier text is void
    …
    10¹⁵           the end of an answer that no attempt ended

So every process knows what a returning listener has received, and what of it is void.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from radixway.chat import published_shapes

ATTEMPT = 10**9
LAST = 10**15
"""Position of an end without an attempt; JavaScript represents it exactly."""


@dataclass(frozen=True, slots=True)
class TokenLogEntry:
    """An event of an answer."""

    position: int
    event: bytes
    """JSON, as listeners are sent it."""


async def without_restarts(
    entries: AsyncIterator[TokenLogEntry], restart: bytes
) -> AsyncIterator[TokenLogEntry]:
    """Yield `entries` for listeners that cannot handle a restart: after one they get only the end.

    `restart`: the event that says so. What they received before it is void.
    """
    last: TokenLogEntry | None = None
    void = False
    try:
        async for entry in entries:
            void = void or entry.event == restart
            if not void:
                yield entry
            last = entry
        if void and last is not None and last.event != restart:
            yield last
    finally:
        closing = getattr(entries, "aclose", None)
        if closing is not None:
            await closing()


@dataclass(slots=True)
class AnswerLog:
    """The log of one answer."""

    base: int = 0
    """Position before the first event of the current attempt."""
    events: list[bytes] = field(default_factory=list)
    end: TokenLogEntry | None = None
    is_gone: bool = False
    listeners: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def last_position(self) -> int:
        """The position of the last event before the end."""
        return self.base + len(self.events)

    def restart_at(self, base: int) -> None:
        """Void everything before position `base`."""
        if base > self.base and self.end is None:
            self.base = base
            self.events = []
            self.wake_listeners()

    def add_events(self, base: int, events: Sequence[bytes]) -> None:
        """Add `events` of the attempt that begins at `base`."""
        self.restart_at(base)
        if base == self.base and self.end is None:
            self.events += events
            self.wake_listeners()

    def close_log(self, entry: TokenLogEntry) -> None:
        """End the log with `entry`."""
        if self.end is None:
            self.end = entry
            self.wake_listeners()

    def wake_listeners(self) -> None:
        """Wake the listeners."""
        self.changed.set()
        self.changed = asyncio.Event()


def attempt_base(attempt: int) -> int:
    """Return the position at which the positions of `attempt` begin."""
    return (attempt - 1) * ATTEMPT


class TokenLog:
    """The logs of all answers in flight, and of those that ended less than `kept_s` ago, in memory.

    Belongs to one event loop. `ValkeyTokenLog` extends it to several processes.
    """

    is_shared = False
    """True where this process also receives what other processes append."""

    def __init__(self, *, kept_s: float = 60.0) -> None:
        """`kept_s`: how long a log can be followed after its end."""
        self.kept_s = kept_s
        self._logs: dict[str, AnswerLog] = {}

    def __len__(self) -> int:
        return len(self._logs)

    def append_events(self, message_id: str, attempt: int, events: Sequence[bytes]) -> None:
        """Add `events` of attempt number `attempt` (from 1), unless a later attempt has begun."""
        self._open_log(message_id).add_events(attempt_base(attempt), events)

    async def restart_attempt(self, message_id: str, attempt: int) -> None:
        """Void the text of `attempt` and those before; listeners that received any of it are notified."""
        self._open_log(message_id).restart_at(attempt_base(attempt + 1))

    async def end_log(self, message_id: str, event: bytes, attempt: int | None = None) -> None:
        """Append the last `event`, of `attempt` or (None) of no attempt, and keep the log for `kept_s`."""
        log = self._open_log(message_id)
        if log.end is not None:
            return
        position = LAST
        if attempt is not None:
            log.restart_at(attempt_base(attempt))
            position = log.last_position + 1
        log.close_log(TokenLogEntry(position, event))
        self._expire_later(message_id)

    def leave_log(self, message_id: str) -> None:
        """Stop writing this log here: another process may write what comes next."""

    def publish_stored(self, message_id: str, words: Sequence[bytes], event: bytes) -> None:
        """End the log of an answer that ended in another process, with all that is known of it here.

        `words`: its token events, for listeners that have received none; the others get `event` alone.
        """
        log = self._open_log(message_id)
        if log.end is not None:
            return
        if not log.last_position:
            log.add_events(0, words)
        log.close_log(TokenLogEntry(LAST, event))
        self._expire_later(message_id)

    async def has_log(self, message_id: str) -> bool:
        """Return whether there is a log of `message_id` to follow."""
        return message_id in self._logs

    async def attempt_text(self, message_id: str, attempt: int) -> str:
        """Return the text that `attempt` has produced, as far as it is known here."""
        log = self._logs.get(message_id)
        return (
            ""
            if log is None or log.base != attempt_base(attempt)
            else published_shapes.join_tokens(log.events)
        )

    async def drop_logs(self, message_ids: Collection[str]) -> None:
        """Delete the logs of `message_ids`; their listeners receive nothing more."""
        for message_id in message_ids:
            log = self._logs.pop(message_id, None)
            if log is not None:
                log.is_gone = True
                log.wake_listeners()

    def list_followed(self) -> list[str]:
        """Return the messages that have listeners here and whose end has not been received."""
        return [message_id for message_id, log in self._logs.items() if log.listeners and log.end is None]

    async def follow_log(self, message_id: str, after: int = 0) -> AsyncIterator[TokenLogEntry]:
        """Yield every event after position `after`, in order, until the log ends.

        A log that has not begun yet is waited for.
        """
        log = self._open_log(message_id)
        log.listeners += 1
        self._on_listener(message_id, log)
        position = after
        try:
            while not log.is_gone:
                changed, end = log.changed, log.end
                if 0 < position < log.base:
                    yield TokenLogEntry(log.base, published_shapes.encode_restarted())
                position = max(position, log.base)
                for event in log.events[position - log.base :]:
                    position += 1
                    yield TokenLogEntry(position, event)
                if end is not None:
                    if after != end.position:
                        yield end
                    return
                await changed.wait()
        finally:
            log.listeners -= 1
            if not log.listeners:
                self._on_no_listeners(message_id, log)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Hold whatever connections the log needs; it works inside this context only."""
        yield

    def _on_listener(self, message_id: str, log: AnswerLog) -> None:
        """Called when a listener begins to follow `message_id`."""

    def _on_no_listeners(self, message_id: str, log: AnswerLog) -> None:
        if log.end is None and not log.events and not log.base:
            self._logs.pop(message_id, None)

    def _expire_later(self, message_id: str) -> None:
        asyncio.get_running_loop().call_later(self.kept_s, self._drop_log, message_id)

    def _drop_log(self, message_id: str) -> None:
        self._logs.pop(message_id, None)

    def _open_log(self, message_id: str) -> AnswerLog:
        log = self._logs.get(message_id)
        if log is None:
            log = self._logs[message_id] = AnswerLog()
        return log
