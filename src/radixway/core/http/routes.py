"""Routers of FastAPI, joined without building their routes twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.routing import Route, WebSocketRoute

from radixway.core.http.asgi import App, Receive, Scope, Send
from radixway.core.http.connections import ServerStoppingError, uncancel_at_end

if TYPE_CHECKING:
    from fastapi import APIRouter


def include_routes(whole: APIRouter, *parts: APIRouter, guard: Callable[[Scope], None] | None = None) -> None:
    """`whole` answers on the routes of `parts`, too. Its own prefix and dependencies are not theirs.

    FastAPI's `include_router` makes each route anew for the application that includes it, when the first
    request looks for its own: half of what it took to open a gateway, and the first caller waited for it.

    `guard`: told of each of their requests first, before its body is read; it raises what `whole` answers. A
    request that is cancelled because the server ends raises ServerStopping, for `whole` to answer likewise.
    """
    for part in parts:
        for route in part.routes:
            if not isinstance(route, Route | WebSocketRoute):
                raise TypeError(f"{route!r} cannot be guarded")
            route.app = _guard_app(route.app, guard)
        whole.routes.extend(part.routes)


def _guard_app(app: App, guard: Callable[[Scope], None] | None) -> App:
    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if guard is not None:
            guard(scope)
        try:
            await app(scope, receive, send)
        except asyncio.CancelledError:
            if not uncancel_at_end(scope):
                raise
            raise ServerStoppingError from None

    return guarded
