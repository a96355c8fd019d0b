"""Builds Starlette-style middlewares around an application, and the `router` that they get."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from inspect import Parameter, signature
from types import SimpleNamespace
from typing import Any

from fastapi import FastAPI
from starlette.middleware.base import BaseHTTPMiddleware

from radixway.api.asgi_middlewares.dispatch import DispatchAdapter
from radixway.api.error_handlers import error_response
from radixway.core.config import Config, ConfigError, WorkerSettings, check_worker_url
from radixway.core.http import App, HttpError, Message, Receive, Scope, Send, limit_body
from radixway.core.pipeline import import_class, is_asgi_middleware
from radixway.routing import API, FleetMembership, WorkerRegistry

log = logging.getLogger(__name__)


class SlimeRouter:
    """The gateway's workers, its configuration by Slime's names, and any attributes that middlewares set.

    A middleware may set any attribute for others to read. `radix_tree` is one with a meaning: what its
    `get_stats()` returns is the `cache` of `GET /metrics`.
    """

    radix_tree: Any

    def __init__(
        self, config: Config, registry: WorkerRegistry, membership: FleetMembership, app: FastAPI
    ) -> None:
        self._registry = registry
        self._membership = membership
        self.app = app
        """The application, to which a middleware may add routes."""
        self.args = _slime_arguments(config)
        self.verbose = config.telemetry.logs.level == "debug"
        self.worker_urls: Mapping[str, int] = _InFlightRequestCounts(registry)
        """Requests in flight by worker, always the present ones; read only."""

    def list_workers(self) -> list[str]:
        """The workers' URLs, in the order in which they were added."""
        return list(self.worker_urls)

    def add_worker(self, url: str) -> None:
        """Add a worker. Raises ValueError if `url` is no worker's URL."""
        self._membership.join_worker(API, WorkerSettings(url=url))

    def remove_worker(self, url: str) -> bool:
        """Forget a worker; its answers go on to their end. Returns whether it was known."""
        return self._registry.remove_worker(check_worker_url(url)) is not None

    def cache_stats(self) -> Mapping[str, Any] | None:
        """Return the statistics of the attached radix tree; None while none is attached."""
        tree = getattr(self, "radix_tree", None)
        return None if tree is None else tree.get_stats()


class _InFlightRequestCounts(Mapping[str, int]):
    """A live view of the registry's request counts."""

    def __init__(self, registry: WorkerRegistry) -> None:
        self._registry = registry

    def __getitem__(self, url: str) -> int:
        worker = self._registry.get_worker(url)
        if worker is None:
            raise KeyError(url)
        return worker.load.requests

    def __iter__(self) -> Iterator[str]:
        return (worker.url for worker in self._registry)

    def __len__(self) -> int:
        return len(self._registry)


def _slime_arguments(config: Config) -> SimpleNamespace:
    health = config.routing.health
    return SimpleNamespace(
        hf_checkpoint=config.trajectories.tokenizer,
        sglang_router_ip=config.gateway.host,
        sglang_router_port=config.gateway.port,
        use_slime_router=True,
        slime_router_middleware_paths=list(reversed(config.pipeline.middlewares)),
        rollout_health_check_interval=health.interval_s,
        slime_router_health_check_failure_threshold=health.failure_threshold,
        slime_router_timeout=config.gateway.request_timeout_s,
        slime_router_max_connections=None,
        sglang_server_concurrency=config.routing.max_in_flight_per_worker,
    )


def wrap_application(app: App, paths: Sequence[str], router: SlimeRouter, max_body_bytes: int) -> App:
    """Wrap `app` in the ASGI middlewares among `paths`, outermost first. Raises ConfigError."""
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
    """Return whether `middleware` accepts the `router` argument; Starlette's own do not."""
    parameters = signature(middleware).parameters
    return "router" in parameters or any(item.kind is Parameter.VAR_KEYWORD for item in parameters.values())


class _ErrorBoundary:
    """Outermost: an exception that escapes a middleware becomes an error reply if none has begun."""

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
            if not isinstance(error, HttpError):
                log.error("a middleware failed unexpectedly", exc_info=error)
                error = HttpError(f"internal error ({type(error).__name__}) in a middleware")
            await error_response(error)(scope, receive, send)
