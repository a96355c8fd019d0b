"""One HTTP request and its answer, over plain ASGI: body in, JSON or server-sent events out."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from radixway.engine.server.errors import ApiError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

JSON = b"application/json"
_DRAINED_AT_MOST = (
    8  # times the limit: how much of a body too large is read to let its client read our answer
)


class ClientGone(Exception):
    """The client left before its request was complete."""


class Exchange:
    """What an endpoint sees of its request, and how it answers."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, *, max_body_bytes: int) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.request_id = self._read_request_id()
        """The client's `x-request-id`, or one of ours."""
        self.started = False
        self.ended = False
        self.client_left = False
        self.status = 499
        """What was answered; 499 (client closed request) while nothing was."""
        self._receive = receive
        self._send = send
        self._max_body_bytes = max_body_bytes

    def _read_request_id(self) -> str:
        given = self.headers.get(b"x-request-id", b"").decode("latin-1")
        if 0 < len(given) <= 256 and given.isascii() and given.isprintable():
            return given
        return uuid.uuid4().hex

    async def body(self) -> bytes:
        """The whole body. Raises ApiError (413) when it is larger than allowed, ClientGone."""
        limit = self._max_body_bytes
        declared = self.headers.get(b"content-length", b"0")
        size = int(declared) if declared.isdigit() else 0
        if size > limit and b"expect" in self.headers:
            raise _too_large(size, limit)
        parts: list[bytes] = []
        size = 0
        more = True
        while more and size <= limit * _DRAINED_AT_MOST:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            part = message.get("body", b"")
            size += len(part)
            if size <= limit:
                parts.append(part)
            more = message.get("more_body", False)
        if size > limit:
            raise _too_large(size, limit)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def send_json(self, body: bytes, *, status: int = 200, retry_after_s: int | None = None) -> None:
        """Answer with a whole JSON document."""
        headers = [(b"retry-after", b"%d" % retry_after_s)] if retry_after_s is not None else []
        await self.send_whole(body, content_type=JSON, status=status, headers=headers)

    async def send_whole(
        self,
        body: bytes,
        *,
        content_type: bytes,
        status: int = 200,
        headers: list[tuple[bytes, bytes]] | None = None,
    ) -> None:
        """Answer with a whole document of any type."""
        length = (b"content-length", b"%d" % len(body))
        await self._start(status, content_type, [length, *(headers or [])])
        await self._end(body)

    async def send_events(self, events: bytes) -> None:
        """Write server-sent events, the first of which start the answer."""
        await self._start_events()
        await self._send({"type": "http.response.body", "body": events, "more_body": True})

    async def end_events(self, events: bytes) -> None:
        """Write the last events of the answer."""
        await self._start_events()
        await self._end(events)

    async def send_error(self, error: ApiError) -> None:
        """Answer with an error; a stream that has begun ends with it as its last event."""
        if self.started:
            await self.end_events(b"data: " + error.body() + b"\n\n")
        else:
            await self.send_json(error.body(), status=error.status, retry_after_s=error.retry_after_s)

    async def _start_events(self) -> None:
        if not self.started:
            await self._start(200, b"text/event-stream; charset=utf-8", [(b"cache-control", b"no-cache")])

    async def _end(self, body: bytes) -> None:
        self.ended = True
        await self._send({"type": "http.response.body", "body": body})

    async def _start(self, status: int, content_type: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        self.started = True
        self.status = status
        request_id = (b"x-request-id", self.request_id.encode())
        headers = [(b"content-type", content_type), request_id, *headers]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    @contextmanager
    def cancelled_when_client_leaves(self) -> Iterator[None]:
        """Cancel the current task when the client leaves before the answer's end; `client_left` then says so.

        To be entered once the body has been read.
        """
        task = asyncio.current_task()

        def left(_: object) -> None:
            if not self.ended and task is not None:
                self.client_left = True
                task.cancel()

        waiting = asyncio.ensure_future(self._receive())
        waiting.add_done_callback(left)
        try:
            yield
        finally:
            waiting.remove_done_callback(left)
            waiting.cancel()


def _too_large(size: int, limit: int) -> ApiError:
    message = f"the body has {size} bytes or more; at most {limit} are allowed"
    return ApiError(message, status=413, code="body_too_large")
