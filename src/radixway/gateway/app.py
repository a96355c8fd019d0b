"""The composition root: a gateway's parts as one ASGI application, and the order of their start and stop."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from fastapi import Depends, FastAPI
from fastapi import Request as HttpRequest
from starlette.middleware.cors import CORSMiddleware

from radixway._version import __version__
from radixway.api import describe_raw_paths
from radixway.api.admin_audit import AdminAuditMiddleware
from radixway.api.asgi_middlewares import SlimeRouter, wrap_application
from radixway.api.authorization import whoami_routes
from radixway.api.chats import is_chat_path
from radixway.api.console import ConsoleProxy
from radixway.api.error_handlers import add_error_handlers
from radixway.cluster import DiscoverySource, LoadTransport, build_owner_proxy, is_signed_hop
from radixway.core.component import Component, running
from radixway.core.config import Config, ConfigError
from radixway.core.http import (
    App,
    AppServer,
    HttpError,
    Receive,
    Scope,
    Send,
    ServerCounts,
    ServerLimits,
    include_routes,
    limit_body,
    send_error,
)
from radixway.core.http.asgi import FORWARDER
from radixway.core.pipeline import ENDPOINTS
from radixway.gateway.components import GatewayParts
from radixway.gateway.routes import gateway_routes
from radixway.gateway.worker_metrics import publish_gateway

if TYPE_CHECKING:
    from radixway.api.ext_proc import ExtProcServer


_EXPOSED_HEADERS = ("retry-after", "x-radixway-worker", "x-request-id")
"""Of answers, for scripts of pages at `gateway.cors_origins`."""


class Gateway(GatewayParts):
    """The ASGI application. Building it opens nothing; it answers while `running()` holds, in one loop."""

    def __init__(
        self,
        config: Config,
        *,
        sources: Sequence[DiscoverySource] = (),
        load_transport: LoadTransport | None = None,
    ) -> None:
        """See `GatewayParts`. Raises ConfigError."""
        super().__init__(config, sources, load_transport)
        self._server_counts = ServerCounts()
        self._rest = FastAPI(
            title="Radixway",
            version=__version__,
            redirect_slashes=False,
            dependencies=[Depends(self._authenticate_request)],  # of routes that a middleware adds
        )
        add_error_handlers(self._rest)
        describe_raw_paths(self._rest)
        self._rim = AdminAuditMiddleware(self._handle_other, self.audit_log)
        self.router = SlimeRouter(config, self.registry, self.membership, self._rest)
        """What middlewares of Starlette's kind see of the gateway."""
        if self.tries is not None:
            self.router.radix_tree = self.tries
        app = wrap_application(
            self._handle_request, config.pipeline.middlewares, self.router, config.gateway.max_body_bytes
        )
        records = self.recorder is not None
        self._forwarding = build_owner_proxy(
            config, app, self.metrics, self.gate.has_valid_key, records=records
        )
        """While there are gateways to which requests may belong."""
        self._entry_app = self._with_cors(self._forwarding or app)
        self.envoy_door = self._build_envoy_door() if config.ext_proc.enabled else None
        self.console = self._build_console() if config.console.enabled else None
        self.components += self._in_order()
        publish_gateway(self.metrics, self.registry, self.journals, self.kv_event_counts, self._server_counts)
        admitted = gateway_routes(self, self.router)
        include_routes(
            self._rest.router, *admitted, guard=lambda scope: self._authenticate_request(HttpRequest(scope))
        )
        include_routes(self._rest.router, whoami_routes(self.gate))  # for everybody, as is the console
        if self.console is not None:
            include_routes(self._rest.router, self.console.routes())

    def _in_order(self) -> list[Component]:
        """Return the components in the order of their start: each after what it needs. They are stopped in
        reverse, and in reverse forget somebody: at last the journals, which tell whose other things are.
        """
        components: tuple[Component | None, ...] = (
            self.journals,
            self.road,
            self.road.weights,
            None if self.tries is None else self.tries.owners,
            self.sessions,
            self.classification,
            self.configured_workers,
            self.metrics,
            self.tracing,
            self.audit,
            self.load_sync,
            self._forwarding,
            self.planner,
            self.tenants,
            *self.reading.components(),
            self.discovery,
            self.simulations,
            self.erasure,
            self.envoy_door,
            self.console,
            None if self.chats is None else self.screening,
            self.chats,
        )
        return [each for each in components if each is not None]

    def running(self) -> AbstractAsyncContextManager[None]:
        """Start the components in order; at the end stop them in reverse."""
        return running(self.components)

    def warm_up(self) -> None:
        """Prepare in the background for first calls that would take seconds. Called once a server listens."""
        if self.chats is not None:
            self.chats.warm_up()

    def stopping(self) -> None:
        """The server has been asked to stop: end the answers that would go on for ever."""
        self.traffic.stop_followers()
        if self.envoy_door is not None:
            self.envoy_door.start_draining()

    def make_server(self, listener: socket.socket) -> AppServer:
        """The server that clients reach it by, with the limits of its configuration."""
        return AppServer(
            self,
            listener,
            drain_s=self.config.gateway.drain_s,
            on_stop=self.stopping,
            websockets=True,
            limits=ServerLimits(**self.config.limits.server.model_dump()),
            counts=self._server_counts,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Envoy has its own say in who asks it; what another gateway passes on was looked at there.
        if FORWARDER not in scope and not (self._forwarding is not None and is_signed_hop(scope)):
            try:
                self.gate.check_origin(scope)
            except HttpError as error:
                await send_error(scope, send, error)
                return
        await self._entry_app(scope, receive, send)

    async def _handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            exchange = self.hot.find_handler(scope)
            if exchange is not None:
                await exchange(scope, receive, send)
                return
            receive = limit_body(receive, self.config.gateway.max_body_bytes)
        await self._rim(scope, receive, send)

    async def _handle_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Everything but the hot paths."""
        if self.chats is not None and is_chat_path(scope["path"]):
            await self.chats(scope, receive, send)
            return
        await self._rest(scope, receive, send)

    def _with_cors(self, app: App) -> App:
        if not self.config.gateway.cors_origins:
            return app
        return CORSMiddleware(
            app,
            allow_origins=self.config.gateway.cors_origins,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=_EXPOSED_HEADERS,
        )

    def _build_console(self) -> ConsoleProxy:
        config = self.config.console.model_copy(update={"hosts": self.hosts})
        return ConsoleProxy(config, self, self.gate.access)

    def _build_envoy_door(self) -> ExtProcServer:
        """The same road by another door."""
        try:
            from radixway.api.ext_proc import create_ext_proc_server
        except ImportError as error:
            raise ConfigError(f"ext_proc needs radixway[envoy]: {error}") from None
        return create_ext_proc_server(self.config, self, ENDPOINTS.served_directly(), self.via.value)

    def _authenticate_request(self, request: HttpRequest) -> None:
        """A FastAPI dependency, too. Raises LoopDetected, Unauthorized, Forbidden."""
        self.via.check_loop(request.scope)
        self.gate(request)
