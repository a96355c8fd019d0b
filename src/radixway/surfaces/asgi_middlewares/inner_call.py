"""One run of the application within: its answer as it comes, and its end whatever becomes of the answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

from starlette.responses import Response

from radixway.web import App, Message, Receive, Scope, Send

log = logging.getLogger(__name__)


class InnerCall:
    """The application answering in a task of its own. At most one message is ahead of its reader."""

    def __init__(self, app: App, scope: Scope, body: bytes) -> None:
        self._unread_body: bytes | None = body
        self._left = asyncio.Event()
        self._heard = False
        """Somebody was told how it ended."""
        self._messages: asyncio.Queue[Message | None] = asyncio.Queue(maxsize=1)
        """None after the last."""
        self._task = asyncio.create_task(self._run_app(app, scope))

    async def start_response(self) -> Response:
        """Its answer, once it begins. Raises what the application raises, RuntimeError if it says nothing."""
        message = await self._messages.get()
        if message is None:
            await self._raise_app_error()
            raise RuntimeError("No response returned.")  # Starlette's words for it
        return _StreamingResponse(message["status"], list(message.get("headers", ())), self._body())

    async def disconnect(self) -> None:
        """Nobody reads any more: let the application know as if the client had left, and wait for its end."""
        self._left.set()
        while not self._messages.empty():
            self._messages.get_nowait()
        await asyncio.wait({self._task})
        if not self._heard and not self._task.cancelled() and (error := self._task.exception()):
            log.error("an answer ended in a defect after its last word", exc_info=error)

    def cancel(self) -> None:
        """End it at once: the server is stopping."""
        self._task.cancel()

    async def _run_app(self, app: App, scope: Scope) -> None:
        try:
            await app(scope, self._receive, self._send)
        finally:
            await self._queue_message(None)

    async def _receive(self) -> Message:
        """The whole body, then that the client left, when it has."""
        body, self._unread_body = self._unread_body, None
        if body is not None:
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] in ("http.response.start", "http.response.body"):
            await self._queue_message(message)

    async def _queue_message(self, message: Message | None) -> None:
        if not self._left.is_set():
            await self._messages.put(message)

    async def _body(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            message = await self._messages.get()
            if message is None:
                await self._raise_app_error()
                return
            more = message.get("more_body", False)
            if chunk := message.get("body", b""):
                yield chunk

    async def _raise_app_error(self) -> None:
        """Raises what the application raised, if it did."""
        self._heard = True
        await self._task


class _StreamingResponse(Response):
    """An answer on its way. Of this name, because middlewares ask for it as Slime's own does.

    `body_iterator` gives its bytes once. Whoever puts another in its place changes the length.
    """

    def __init__(
        self, status: int, headers: list[tuple[bytes, bytes]], body_iterator: AsyncIterator[bytes]
    ) -> None:
        self.status_code = status
        self.raw_headers = headers
        self.background = None
        self.body_iterator = self._as_it_came = body_iterator
        self.media_type = self.headers.get("content-type")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.body_iterator is not self._as_it_came and "content-length" in self.headers:
            del self.headers["content-length"]
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for chunk in self.body_iterator:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        if self.background is not None:
            await self.background()
