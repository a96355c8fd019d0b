"""Runs the `dispatch(request, call_next)` of Starlette's BaseHTTPMiddleware, and can call next again.

Starlette's own way gives the body to the first call alone, and has one channel for the answers of all: a
middleware that tried a second time never reached a worker.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import Response

from radixway.surfaces.asgi_middlewares.inner_call import InnerCall
from radixway.web import (
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

        async def send_watched(message: Message) -> None:
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                watch.stop_watching()  # from here on the server calls every end a departure
            await send(message)

        watch.watch(receive)
        try:
            response = await self._dispatch(request, call_next)
            await response(scope, _receive_nothing, send_watched)
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
        """Why the body is not JSON, once somebody asked for it."""

    def replace_body(self, body: bytes) -> None:
        """What the next `call_next` sends."""
        self._body = body
        self._parsed = _UNREAD

    async def json(self) -> Any:
        """The decoded body. Raises ValueError; if nobody catches it, the client is told with 400."""
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
    """A scope of its own for the call, because applications write into theirs, and the body."""
    body = await request.body()
    scope = dict(request.scope)
    scope["headers"] = [header for header in scope["headers"] if header[0] not in _FRAMING]
    scope["headers"].append((b"content-length", b"%d" % len(body)))
    return scope, body


async def _receive_nothing() -> Message:
    """In place of `receive`: the departure of the client ends the task that would hear of it."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")
