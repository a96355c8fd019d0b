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
        service: ChatService,
        message: Message,
        entries: AsyncIterator[TokenLogEntry],
        *,
        restarts: bool = True,
    ) -> None:
        """`restarts`: the client knows the event of a restarted answer."""
        self.status_code = 200
        self.background = None
        self.init_headers(_HEADERS)
        self._entries = (
            entries if restarts else without_restarts(entries, published_shapes.encode_restarted())
        )
        self._keepalive = _Keepalive(service, message)
        self._unsent: list[bytes] = []
        self._changed = asyncio.Event()
        self._drained = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until the answer ends or the client leaves."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        reading, disconnecting = (
            asyncio.create_task(self._read_entries()),
            asyncio.create_task(wait_for_disconnect(receive)),
        )
        for task in (reading, disconnecting):
            task.add_done_callback(lambda _: self._changed.set())
        try:
            await self._send_entries(send, reading, disconnecting)
        except asyncio.CancelledError:
            if not uncancel_at_end(scope):
                raise
            # Not an error: the answer is not lost, and a client that reconnects gets the rest.
            await send({"type": "http.response.body", "body": b""})
        finally:
            if self._timer is not None:
                self._timer.cancel()
            for task in (reading, disconnecting):
                task.cancel()
            await asyncio.gather(reading, disconnecting, return_exceptions=True)
            closing = getattr(self._entries, "aclose", None)
            if closing is not None:
                await closing()

    async def _read_entries(self) -> None:
        async for entry in self._entries:
            self._unsent.append(write_event(entry.event, event_id=entry.position, line_end=_LINE_END))
            self._changed.set()
            if len(self._unsent) >= _MAX_ENTRIES_AHEAD:
                self._drained.clear()
                await self._drained.wait()

    async def _send_entries(
        self, send: Send, reading: asyncio.Task[None], disconnecting: asyncio.Task[None]
    ) -> None:
        now = asyncio.get_running_loop().time
        await asyncio.sleep(0)  # entries that exist already are read first
        while not disconnecting.done():
            self._changed.clear()
            lines = b""
            if self._unsent:
                lines, self._unsent = b"".join(self._unsent), []
                self._drained.set()
                self._keepalive.note_entry(now())
            elif reading.done():
                reading.result()
                await send({"type": "http.response.body", "body": b""})
                return
            elif now() >= self._keepalive.due_at:
                lines = await self._keepalive.next_event(now())
            if lines:
                await send({"type": "http.response.body", "body": lines, "more_body": True})
            if not self._unsent and not reading.done():
                self._wake_at(self._keepalive.due_at)
                await self._changed.wait()

    def _wake_at(self, at: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(at, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._changed.set()


class _Keepalive:
    """Signs of life for one listener: the queue position until the answer begins, and pings."""

    def __init__(self, service: ChatService, message: Message) -> None:
        self.due_at = 0.0
        self._service = service
        self._message = message
        self._queue: str | None = None
        self._knows_queue = False
        self._last_sent_s: float | None = None
        self._has_started = message.state.is_final

    def note_entry(self, now: float) -> None:
        self._has_started = True
        self._last_sent_s = now
        self.due_at = now + self._service.config.ping_s

    async def next_event(self, now: float) -> bytes:
        """Return the event to be sent at `now` (seconds): the queue position, a ping, or nothing."""
        if self._last_sent_s is None:  # the first time: one that has begun is rarely silent
            self._last_sent_s = now
        self.due_at = now + (self._service.config.ping_s if self._has_started else _PENDING_S)
        position = None if self._has_started else await self._find_queue_position()
        if position is not None:
            self._last_sent_s = now
            return write_event(
                published_shapes.encode_pending(position.position, position.size), line_end=_LINE_END
            )
        if now - self._last_sent_s < self._service.config.ping_s:
            return b""
        self._last_sent_s = now
        return write_comment(b"ping", line_end=_LINE_END)

    async def _find_queue_position(self) -> JobPosition | None:
        """Return None if the answer is in no queue or the database does not answer in time."""
        try:
            async with asyncio.timeout(_PENDING_S):
                if not self._knows_queue:
                    self._queue = await self._service.jobs.find_queue(self._message.id)
                    self._knows_queue = True
                if self._queue is None:
                    return None
                since = self._message.created_at
                return await self._service.queue_positions.find_position(self._message.id, self._queue, since)
        except TimeoutError:
            return None
        except SQLAlchemyError as error:
            if not is_outage(error):
                raise
            return None
