"""An answer as server-sent events, with signs of life while nothing is said."""

import asyncio
from collections.abc import AsyncIterator

from sqlalchemy.exc import SQLAlchemyError
from starlette.responses import Response

from radixway.api.client_requests import wait_for_disconnect
from radixway.chat import published_shapes
from radixway.chat.database_outages import is_outage
from radixway.chat.job_queue import JobPosition
from radixway.chat.records import Message
from radixway.chat.service import ChatService
from radixway.chat.token_log import TokenLogEntry, without_restarts
from radixway.core.http import Receive, Scope, Send, uncancel_at_end
from radixway.core.http.server_sent_events import write_comment, write_event

_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}
_LINE_END = b"\r\n"
_PENDING_S = 1.0
"""Pause between two reports of a queue position."""
_MAX_ENTRIES_AHEAD = 4096
"""Events that are read ahead for a slow client."""


class ChatEventStream(Response):
    """Yields every entry, and until the first one the queue position.

    Whatever is there at one time is one write: answers come in batches, and writes are what they cost.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        room: ChatService,
        message: Message,
        entries: AsyncIterator[TokenLogEntry],
        *,
        restarts: bool = True,
    ) -> None:
        """`restarts`: the client knows the event of answers that begin anew."""
        self.status_code = 200
        self.background = None
        self.init_headers(_HEADERS)
        self._entries = (
            entries if restarts else without_restarts(entries, published_shapes.encode_restarted())
        )
        self._signs = _Keepalive(room, message)
        self._heard: list[bytes] = []
        self._news = asyncio.Event()
        self._taken = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, to its end or till the client leaves."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        hearing, leaving = (
            asyncio.create_task(self._read_entries()),
            asyncio.create_task(wait_for_disconnect(receive)),
        )
        for task in (hearing, leaving):
            task.add_done_callback(lambda _: self._news.set())
        try:
            await self._send_entries(send, hearing, leaving)
        except asyncio.CancelledError:
            if not uncancel_at_end(scope):
                raise
            # Not an error: the answer is not lost, and whoever comes again hears the rest.
            await send({"type": "http.response.body", "body": b""})
        finally:
            if self._timer is not None:
                self._timer.cancel()
            for task in (hearing, leaving):
                task.cancel()
            await asyncio.gather(hearing, leaving, return_exceptions=True)
            closing = getattr(self._entries, "aclose", None)
            if closing is not None:
                await closing()

    async def _read_entries(self) -> None:
        async for entry in self._entries:
            self._heard.append(write_event(entry.event, event_id=entry.position, line_end=_LINE_END))
            self._news.set()
            if len(self._heard) >= _MAX_ENTRIES_AHEAD:
                self._taken.clear()
                await self._taken.wait()

    async def _send_entries(
        self, send: Send, hearing: asyncio.Task[None], leaving: asyncio.Task[None]
    ) -> None:
        now = asyncio.get_running_loop().time
        await asyncio.sleep(0)  # what there is already is heard in this turn
        while not leaving.done():
            self._news.clear()
            lines = b""
            if self._heard:
                lines, self._heard = b"".join(self._heard), []
                self._taken.set()
                self._signs.note_entry(now())
            elif hearing.done():
                hearing.result()
                await send({"type": "http.response.body", "body": b""})
                return
            elif now() >= self._signs.due_at:
                lines = await self._signs.next_event(now())
            if lines:
                await send({"type": "http.response.body", "body": lines, "more_body": True})
            if not self._heard and not hearing.done():
                self._wake_at(self._signs.due_at)
                await self._news.wait()

    def _wake_at(self, at: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(at, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._news.set()


class _Keepalive:
    """Signs of life for one listener: the queue position until the answer begins, and pings."""

    def __init__(self, room: ChatService, message: Message) -> None:
        self.due_at = 0.0
        self._room = room
        self._message = message
        self._queue: str | None = None
        self._knows_queue = False
        self._silent_since: float | None = None
        self._begun = message.state.is_final

    def note_entry(self, now: float) -> None:
        self._begun = True
        self._silent_since = now
        self.due_at = now + self._room.config.ping_s

    async def next_event(self, now: float) -> bytes:
        """Return the event to be sent at `now` (seconds): the queue position, a ping, or nothing."""
        if self._silent_since is None:  # the first time: one that has begun is rarely silent
            self._silent_since = now
        self.due_at = now + (self._room.config.ping_s if self._begun else _PENDING_S)
        stands = None if self._begun else await self._find_queue_position()
        if stands is not None:
            self._silent_since = now
            return write_event(
                published_shapes.encode_pending(stands.position, stands.size), line_end=_LINE_END
            )
        if now - self._silent_since < self._room.config.ping_s:
            return b""
        self._silent_since = now
        return write_comment(b"ping", line_end=_LINE_END)

    async def _find_queue_position(self) -> JobPosition | None:
        """None where it is in no queue, or where the database does not answer in time."""
        try:
            async with asyncio.timeout(_PENDING_S):
                if not self._knows_queue:
                    self._queue = await self._room.jobs.find_queue(self._message.id)
                    self._knows_queue = True
                if self._queue is None:
                    return None
                since = self._message.created_at
                return await self._room.queue_positions.find_position(self._message.id, self._queue, since)
        except TimeoutError:
            return None
        except SQLAlchemyError as error:
            if not is_outage(error):
                raise
            return None
