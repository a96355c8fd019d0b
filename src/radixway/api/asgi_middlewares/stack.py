"""Builds Starlette-style middlewares and puts them around an application."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from inspect import Parameter, signature

from starlette.middleware.base import BaseHTTPMiddleware
from starlette.responses import Response

from radixway.api.asgi_middlewares.dispatch import DispatchAdapter
from radixway.api.asgi_middlewares.slime_router import SlimeRouter
from radixway.api.error_handlers import error_response
from radixway.core.config import ConfigError
from radixway.core.http import App, HttpError, Message, Receive, Scope, Send, limit_body
from radixway.core.pipeline import import_class, is_asgi_middleware

log = logging.getLogger(__name__)


def wrap_application(app: App, paths: Sequence[str], router: SlimeRouter, max_body_bytes: int) -> App:
    """`app` within those of the classes named by `paths`, outermost first, that wrap applications.

    Without any it is `app` itself. Bodies over `max_body_bytes` are refused before a middleware has them.

    Raises:
        ConfigError: a path that names nothing, or a class that cannot be built as `(app, *, router)`.
    """
    wrapped = app
    for path in reversed(paths):
        middleware = import_class(path)
        if is_asgi_middleware(middleware):
            wrapped = _build_layer(path, middleware, wrapped, router, max_body_bytes)
    return wrapped if wrapped is app else _ErrorBoundary(wrapped)


def _build_layer(path: str, middleware: type, app: App, router: SlimeRouter, max_body_bytes: int) -> App:
    try:
        built = middleware(app, router=router) if _takes_router(middleware) else middleware(app)
    except Exception as error:
        message = f"pipeline.middlewares: {path!r} cannot be built around the gateway"
        raise ConfigError(f"{message}: {type(error).__name__}: {error}") from error
    if isinstance(built, BaseHTTPMiddleware) and type(built).__call__ is BaseHTTPMiddleware.__call__:
        return DispatchAdapter(built, app, max_body_bytes)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await built(scope, limit_body(receive, max_body_bytes), send)

    return serve


def _takes_router(middleware: type) -> bool:
    """Starlette's own do not, and are welcome all the same."""
    parameters = signature(middleware).parameters
    return "router" in parameters or any(each.kind is Parameter.VAR_KEYWORD for each in parameters.values())


class _ErrorBoundary:
    """Around them all: what escapes a middleware becomes an error reply if none has begun."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def send_noting(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, send_noting)
        except Exception as error:
            if begun:
                raise
            await _error_response(error)(scope, receive, send)


def _error_response(error: Exception) -> Response:
    if not isinstance(error, HttpError):
        log.error("a middleware met a defect", exc_info=error)
        error = HttpError(f"internal error ({type(error).__name__}) in a middleware")
    return error_response(error)
