"""An exchange without ASGI: a whole request in, head and body out in one write."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, Self

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from radixway.core.http.asgi import Scope
from radixway.core.http.exchange import SENT, ClientWatch, Headers, HttpExchange
from radixway.core.http.request_body import body_too_large_error
from radixway.core.http.write_batch import WriteBatch

_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_ONE_WRITE_BYTES = 64 * 2**10
"""A longer body is written after its head: joining them would copy it."""


class DirectHandler(Protocol):
    """Answers requests of one path."""

    def may_answer(self, scope: Scope) -> bool:
        """Return False for a request that ASGI's way has to look at."""

    async def answer(self, exchange: HttpExchange) -> None:
        """Answer the request of `exchange`."""


DirectHandlers = dict[bytes, DirectHandler]
"""By the target of the request line, byte for byte."""


class DirectExchange:
    """A request whose body came whole with its head; for its protocol it is one of uvicorn's cycles."""

    __slots__ = (
        "_batch",
        "_default_lines",
        "_flow",
        "_on_response",
        "_transport",
        "_watch",
        "body",
        "disconnected",
        "handler",
        "keep_alive",
        "more_body",
        "parts",
        "response_complete",
        "response_started",
        "scope",
        "task",
    )

    def __init__(
        self,
        handler: DirectHandler,
        scope: Scope,
        transport: asyncio.Transport,
        batch: WriteBatch,
        flow: FlowControl,
        default_lines: bytes,
        on_response: Callable[[int], None],
        *,
        keep_alive: bool,
    ) -> None:
        """`default_lines`: headers of every reply, as they are written.

        `on_response` is called with the length of the reply's last piece once that is written.
        """
        self.handler = handler
        self.scope = scope
        self._transport = transport
        self._batch = batch
        self._flow = flow
        self._default_lines = default_lines
        self._on_response = on_response
        self._watch: ClientWatch | None = None
        self.keep_alive = keep_alive
        self.task: asyncio.Task[Any] | None = None
        self.parts: list[bytes] = []
        """The body, as it comes."""
        # What follows is for the protocol, as uvicorn's cycles have it.
        self.body = b""
        self.more_body = False
        self.disconnected = False
        self.response_started = False
        self.response_complete = False

    @property
    def message_event(self) -> Self:
        """What the protocol sets when something has happened: itself, which as an attribute would be a
        cycle of references, and each request left to the garbage collector.
        """
        return self

    def set(self) -> None:
        """Something has happened: a client that has left is all that matters here."""
        if self.disconnected and self._watch is not None:
            self._watch.on_client_left()

    async def read_body(self, limit: int) -> bytes:
        parts, self.parts = self.parts, []
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        if len(body) > limit:
            raise body_too_large_error(limit)
        return body

    def watch_client(self, watch: ClientWatch) -> None:
        self._watch = watch
        if self.disconnected:
            watch.on_client_left()

    async def send_complete(self, status: int, headers: Headers, body: bytes) -> None:
        if self._flow.write_paused and not self.disconnected:
            await self._flow.drain()
        if self.disconnected:
            return
        head = self._render_head(status, headers)
        if len(body) < _ONE_WRITE_BYTES:
            self._batch.write(self._transport, head + body)
        else:
            self._batch.write(self._transport, head)
            self._batch.flush()
            self._transport.write(body)
        self._complete_response(len(body))

    async def send_start(self, status: int, headers: Headers) -> None:
        if self._flow.write_paused and not self.disconnected:
            await self._flow.drain()
        if not self.disconnected:
            head = self._render_head(status, [*headers, (b"transfer-encoding", b"chunked")])
            self._batch.write_at_once(self._transport, head)

    def send_chunk(self, chunk: bytes) -> Awaitable[None]:
        if self._flow.write_paused and not self.disconnected:
            return self._send_when_read(chunk)
        if chunk and not self._transport.is_closing():
            self._transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        return SENT

    async def send_end(self, chunk: bytes) -> None:
        if not (self.response_started or self.disconnected):
            raise RuntimeError("the reply has not begun")
        await self.send_chunk(chunk)
        if not self.disconnected:
            self._batch.write_at_once(self._transport, b"0\r\n\r\n")
            self._complete_response(len(chunk))

    async def _send_when_read(self, chunk: bytes) -> None:
        await self._flow.drain()
        await self.send_chunk(chunk)

    def _render_head(self, status: int, headers: Headers) -> bytes:
        lines = b"".join([b"%b: %b\r\n" % header for header in headers])
        if _CONTROL.search(lines) is not None or lines.count(b"\n") != len(headers):
            raise RuntimeError("a header of the reply has control characters")
        self.response_started = True
        end = b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n"
        head = b"%b%b%b%b" % (STATUS_LINE[status], self._default_lines, lines, end)
        self.response_started = True
        return head

    def _complete_response(self, size: int) -> None:
        self.response_complete = True
        self._watch = None
        if not self.keep_alive:
            self._batch.flush()
            self._transport.close()
        self._on_response(size)
