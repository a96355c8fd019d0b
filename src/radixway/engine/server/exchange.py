"""One HTTP request and its answer, over plain ASGI: body in, JSON or server-sent events out."""

import uuid

from radixway.engine.server.errors import ApiError
from radixway.web import ClientWatch, Receive, Scope, Send, read_body

JSON = b"application/json"


class Exchange:
    """What an endpoint sees of its request, and how it answers."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, *, max_body_bytes: int) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.request_id = _read_request_id(scope)
        """The client's `x-request-id`, or one of ours."""
        self.started = False
        self.status = 499
        """What was answered; 499 (client closed request) while nothing was."""
        self._scope = scope
        self._receive = receive
        self._send = send
        self._max_body_bytes = max_body_bytes
        self._watch: ClientWatch | None = None

    async def body(self) -> bytes:
        """The whole body. Raises BadBody (413) when it is larger than allowed, ClientGone."""
        return await read_body(self._scope, self._receive, self._max_body_bytes)

    def watch_client(self) -> ClientWatch:
        """Cancel this task if the client leaves before the end of its answer; once the body has been read."""
        self._watch = ClientWatch(self._receive)
        return self._watch

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
        if self._watch is not None:
            self._watch.close()  # from here on, that the connection ends is no news
        await self._send({"type": "http.response.body", "body": body})

    async def _start(self, status: int, content_type: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        self.started = True
        self.status = status
        request_id = (b"x-request-id", self.request_id.encode())
        headers = [(b"content-type", content_type), request_id, *headers]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})


def _read_request_id(scope: Scope) -> str:
    given: str = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
    if 0 < len(given) <= 256 and given.isascii() and given.isprintable():
        return given
    return uuid.uuid4().hex
