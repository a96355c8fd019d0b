"""Runs the `dispatch(request, call_next)` of Starlette's BaseHTTPMiddleware, and can call next again.

Starlette gives the body to the first call only and has one channel for all answers, so that a middleware
that retried never reached a worker.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import Response

from radixway.core.http import (
    App,
    BadBodyError,
    ClientDisconnectedError,
    ClientWatch,
    Message,
    Receive,
    Scope,
    Send,
    read_body,
)

log = logging.getLogger(__name__)


class InnerCall:
    """The application answering in a task of its own. At most one message is ahead of its reader."""

    def __init__(self, app: App, scope: Scope, body: bytes) -> None:
        self._unread_body: bytes | None = body
        self._left = asyncio.Event()
        self._is_outcome_read = False
        """The caller has read whether the application returned or raised."""
        self._messages: asyncio.Queue[Message | None] = asyncio.Queue(maxsize=1)
        self._task = asyncio.create_task(self._run_app(app, scope))

    async def start_response(self) -> Response:
        """Return the application's answer once it begins. Raises what the application raises, RuntimeError
        without an answer."""
        message = await self._messages.get()
        if message is None:
            await self._raise_app_error()
            raise RuntimeError("No response returned.")  # Starlette's words for it
        return _StreamingResponse(message["status"], list(message.get("headers", ())), self._body())

    async def disconnect(self) -> None:
        """Tell the application that the client left, and wait for its end."""
        self._left.set()
        while not self._messages.empty():
            self._messages.get_nowait()
        await asyncio.wait({self._task})
        if not self._is_outcome_read and not self._task.cancelled() and (error := self._task.exception()):
            log.error("the application failed unexpectedly after its last message", exc_info=error)

    def cancel(self) -> None:
        """End it at once: the server is stopping."""
        self._task.cancel()

    async def _run_app(self, app: App, scope: Scope) -> None:
        try:
            await app(scope, self._receive, self._send)
        finally:
            await self._queue_message(None)

    async def _receive(self) -> Message:
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
        self._is_outcome_read = True
        await self._task


class _StreamingResponse(Response):
    """A streamed response, named as middlewares written for Slime expect.

    `body_iterator` yields the body once; a replacement of it may change the length.
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


_UNREAD: Any = object()
_FRAMING = (b"content-length", b"transfer-encoding", b"expect")


class DispatchAdapter:
    """An ASGI application: `middleware`'s dispatch around `app`.

    Each `call_next` sends the body that the request has by then. Answers stream. When the client leaves, the
    dispatch is cancelled; every call that it made has ended before this returns.
    """

    def __init__(self, middleware: BaseHTTPMiddleware, app: App, max_body_bytes: int) -> None:
        self._dispatch: Callable[..., Awaitable[Response]] = middleware.dispatch_func
        self._app = app
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises BadBodyError, and whatever the dispatch raises."""
        try:
            body = await read_body(scope, receive, self._max_body_bytes)
        except ClientDisconnectedError:
            return
        request = ReplayableRequest(scope, body)
        watch = ClientWatch()
        calls: list[InnerCall] = []

        async def call_next(given: Request) -> Response:
            calls.append(call := InnerCall(self._app, *await _forwarded_request(given)))
            return await call.start_response()

        async def send_and_watch(message: Message) -> None:
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                watch.stop_watching()  # after this the server reports every end as a disconnect
            await send(message)

        watch.watch(receive)
        try:
            response = await self._dispatch(request, call_next)
            await response(scope, _receive_nothing, send_and_watch)
        except asyncio.CancelledError:
            if watch.ended_by is None:
                for call in calls:
                    call.cancel()
                raise
            watch.uncancel()
        except (ValueError, RecursionError) as error:
            if error is not request.unreadable:
                raise
            raise BadBodyError(f"the body is not valid JSON: {error}", code="invalid_json") from None
        finally:
            watch.stop_watching()
            for call in calls:
                await call.disconnect()


class ReplayableRequest(Request):
    """A request whose body is there, can be read any number of times, and can be replaced before `call_next`.

    Replacing is `replace_body`, or what middlewares of Slime's kind do: assign to `_json` or `_body`.
    """

    def __init__(self, scope: Scope, body: bytes) -> None:
        super().__init__(scope, _receive_nothing)
        self._body = body
        self._parsed: Any = _UNREAD
        self.unreadable: Exception | None = None
        """Why the body is not JSON, once it was read."""

    def replace_body(self, body: bytes) -> None:
        """Set the `body` that the next `call_next` sends."""
        self._body = body
        self._parsed = _UNREAD

    async def json(self) -> Any:
        """Return the decoded body. Raises ValueError, which becomes a 400 unless a middleware catches it."""
        if self._parsed is _UNREAD:
            try:
                self._parsed = json.loads(self._body)
            except (ValueError, RecursionError) as error:
                self.unreadable = error
                raise
        return self._parsed

    @property
    def _json(self) -> Any:
        if self._parsed is _UNREAD:
            raise AttributeError("_json")
        return self._parsed

    @_json.setter
    def _json(self, value: Any) -> None:
        self._parsed = value
        self._body = json.dumps(value).encode()


async def _forwarded_request(request: Request) -> tuple[Scope, bytes]:
    """Return a copy of the call's scope, because applications write into theirs."""
    body = await request.body()
    scope = dict(request.scope)
    scope["headers"] = [header for header in scope["headers"] if header[0] not in _FRAMING]
    scope["headers"].append((b"content-length", b"%d" % len(body)))
    return scope, body


async def _receive_nothing() -> Message:
    """Replace `receive`: when the client leaves, cancellation ends the task that would read it."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")
