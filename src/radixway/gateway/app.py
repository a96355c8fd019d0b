"""The composition root: a gateway's parts as one ASGI application, and the order of their start and stop."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from fastapi import Depends, FastAPI
from fastapi import Request as HttpRequest
from starlette.middleware.cors import CORSMiddleware

from radixway._version import __version__
from radixway.api import RequestHandler, describe_raw_paths
from radixway.api.admin_access import AdminAuditMiddleware
from radixway.api.asgi_middlewares import SlimeRouter, wrap_application
from radixway.api.authorization import PathAuthorization, whoami_routes
from radixway.api.chats import is_chat_path, is_response_path
from radixway.api.console import ConsoleProxy
from radixway.api.error_handlers import add_error_handlers
from radixway.api.gateway_index import index_routes
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
    is_loopback_host,
    limit_body,
    send_error,
)
from radixway.core.http.asgi import FORWARDER
from radixway.core.http.direct_exchange import DirectHandlers
from radixway.core.pipeline import ENDPOINTS
from radixway.gateway.components import GatewayParts
from radixway.gateway.routes import gateway_routes
from radixway.gateway.worker_metrics import publish_gateway

if TYPE_CHECKING:
    from radixway.api.ext_proc import ExtProcServer
    from radixway.core.tenants.account import LimitsBackend
    from radixway.gateway.processes.process_group import ProcessGroup
    from radixway.gateway.processes.sibling_proxy import SiblingProxy


_EXPOSED_HEADERS = ("retry-after", "x-radixway-worker", "x-request-id")
"""Response headers readable by pages at `gateway.cors_origins`."""


class CheckedHandler:
    """A handler of an endpoint behind the check of where a request comes from, and who should answer it."""

    __slots__ = ("_answers_here", "_authorization", "answer")

    def __init__(
        self,
        handler: RequestHandler,
        authorization: PathAuthorization,
        answers_here: Sequence[Callable[[Scope], bool]],
    ) -> None:
        """`answers_here`: whether a request is for this process, as each of them tells."""
        self.answer = handler.answer
        self._authorization = authorization
        self._answers_here = answers_here

    def may_answer(self, scope: Scope) -> bool:
        """Return False for a request of another site or for another process: ASGI's way deals with it."""
        try:
            self._authorization.check_origin(scope)
        except HttpError:
            return False
        return all(answers_here(scope) for answers_here in self._answers_here)


class Gateway(GatewayParts):
    """The ASGI application. Building it opens nothing; it answers while `running()` holds, in one loop."""

    def __init__(
        self,
        config: Config,
        *,
        sources: Sequence[DiscoverySource] = (),
        load_transport: LoadTransport | None = None,
        processes: ProcessGroup | None = None,
        limits: LimitsBackend | None = None,
    ) -> None:
        """Build all parts of `config`; the other arguments: see `GatewayParts`.

        Raises ConfigError.
        """
        super().__init__(config, sources, load_transport, processes, limits)
        config = self.config
        self._server_counts = ServerCounts()
        self._fastapi = FastAPI(
            title="Radixway",
            version=__version__,
            docs_url=None,
            redoc_url=None,
            redirect_slashes=False,
            dependencies=[Depends(self._authenticate_request)],  # of routes that a middleware adds
        )
        add_error_handlers(self._fastapi)
        describe_raw_paths(self._fastapi)
        self._audited = AdminAuditMiddleware(self._handle_other, self.audit_log)
        self.router = SlimeRouter(config, self.registry, self.membership, self._fastapi)
        """The gateway as Starlette's kind of middlewares see it."""
        if self.tries is not None:
            self.router.radix_tree = self.tries
        app = wrap_application(
            self._handle_request, config.pipeline.middlewares, self.router, config.gateway.max_body_bytes
        )
        self._is_wrapped = app != self._handle_request
        """Users' middlewares stand around the handlers."""
        records = self.recorder is not None
        self.siblings = self._build_siblings(app)
        """Lets any of several processes answer for all; None: there is but one."""
        app = self.siblings or app
        self._forwarding = build_owner_proxy(
            config, app, self.metrics, self.authorization.has_valid_key, records=records
        )
        """Forwards requests that another gateway owns; None without peers."""
        self._entry_app = self._with_cors(self._forwarding or app)
        self.ext_proc_server = self._build_ext_proc_server() if config.ext_proc.enabled else None
        self.console = self._build_console() if config.console.enabled else None
        self.components += self._in_order()
        publish_gateway(self.metrics, self.registry, self.journals, self.kv_event_counts, self._server_counts)
        admitted = gateway_routes(self, self.router)
        include_routes(
            self._fastapi.router,
            *admitted,
            guard=lambda scope: self._authenticate_request(HttpRequest(scope)),
        )
        # Open to all, as is the console.
        include_routes(self._fastapi.router, whoami_routes(self.authorization))
        include_routes(self._fastapi.router, index_routes(has_console=self.has_console))
        if self.console is not None:
            include_routes(self._fastapi.router, self.console.routes())

    def _in_order(self) -> list[Component]:
        """Return the components in the order of their start: each after what it needs. They are stopped in
        reverse, and erase in reverse: the journals last, as they say whose the other data are.
        """
        components: tuple[Component | None, ...] = (
            self.journals,
            self.upstream,
            self.upstream.weights,
            None if self.tries is None else self.tries.owners,
            self.sessions,
            self.classification,
            self.configured_workers,
            self.metrics,
            self.event_loop_lag,
            self.tracing,
            self.audit,
            self.load_sync,
            self.siblings,
            self._forwarding,
            self.planner,
            self.tenants,
            self.access,
            self.files.owners,
            *self.semantics.components(),
            self.discovery,
            self.simulations,
            self.erasure,
            self.ext_proc_server,
            self.console,
            None if self.chats is None else self.screening,
            self.chats,
        )
        return [component for component in components if component is not None]

    def running(self) -> AbstractAsyncContextManager[None]:
        """Start the components in order; at the end stop them in reverse."""
        return running(self.components)

    def warm_up(self) -> None:
        """Prepare what would slow the first calls by seconds, in the background, once a server listens."""
        if self.chats is not None:
            self.chats.warm_up()

    def stopping(self) -> None:
        """End the answers that would never end; the server has been asked to stop."""
        self.traffic.stop_followers()
        if self.ext_proc_server is not None:
            self.ext_proc_server.start_draining()

    def make_server(self, listener: socket.socket) -> AppServer:
        """Return a server on `listener`, with the configured limits."""
        return AppServer(
            self,
            listener,
            drain_s=self.config.gateway.drain_s,
            on_stop=self.stopping,
            websockets=True,
            limits=ServerLimits(**self.config.limits.server.model_dump()),
            counts=self._server_counts,
            handlers=self._direct_handlers(),
        )

    def _direct_handlers(self) -> DirectHandlers:
        """Return the handlers of declared endpoints by path; none behind CORS or users' middlewares."""
        if self._is_wrapped or self.config.gateway.cors_origins:
            return {}
        checks = [proxy.answers_here for proxy in (self.siblings, self._forwarding) if proxy is not None]
        return {
            path.encode("ascii"): CheckedHandler(handler, self.authorization, checks)
            for path, handler in self.inference.by_path.items()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Envoy checks origins itself; the gateway that forwarded a request has checked it.
        if FORWARDER not in scope and not (self._forwarding is not None and is_signed_hop(scope)):
            try:
                self.authorization.check_origin(scope)
            except HttpError as error:
                await send_error(scope, send, error)
                return
        await self._entry_app(scope, receive, send)

    async def _handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            handler = self.inference.find_handler(scope)
            if handler is None and is_response_path(scope["path"]):
                try:
                    handler, receive = await self.response_router.find_handler(scope, receive)
                except HttpError as error:
                    await send_error(scope, send, error)
                    return
            if handler is not None:
                await handler(scope, receive, send)
                return
            receive = limit_body(receive, self.config.gateway.max_body_bytes)
        await self._audited(scope, receive, send)

    async def _handle_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer every path except declared endpoints."""
        if self.chats is not None and is_chat_path(scope["path"]):
            await self.chats(scope, receive, send)
            return
        await self._fastapi(scope, receive, send)

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

    def _build_siblings(self, app: App) -> SiblingProxy | None:
        if self.processes is None:
            return None
        from radixway.gateway.processes.sibling_proxy import SiblingProxy
        from radixway.gateway.processes.worker_state import WorkerStateCopy

        state = WorkerStateCopy(
            self.registry, self.membership, self.registrations, self.upstream.weights, self.upstream.health
        )
        records = self.recorder is not None
        return SiblingProxy(
            self.config,
            app,
            self.processes,
            self.metrics,
            self.authorization,
            self.erasure,
            state,
            records=records,
        )

    @property
    def has_console(self) -> bool:
        """Return whether pages are served at `/console`."""
        return self.console is not None and self.console.is_installed

    def preload_console(self, port: int) -> None:
        """Start the console's process now, if it is not to wait for a visit. `port`: the gateway's."""
        preload = self.config.console.preload
        if preload is None:
            preload = is_loopback_host(self.config.gateway.host)
        if preload and self.console is not None:
            self.console.preload(port)

    def _build_console(self) -> ConsoleProxy:
        config = self.config.console.model_copy(update={"hosts": self.hosts})
        return ConsoleProxy(config, self, self.authorization.access)

    def _build_ext_proc_server(self) -> ExtProcServer:
        """Build the server that Envoy asks; it runs the same pipeline. Raises ConfigError."""
        try:
            from radixway.api.ext_proc import create_ext_proc_server
        except ImportError as error:
            raise ConfigError(f"ext_proc needs radixway[envoy]: {error}") from None
        return create_ext_proc_server(
            self.config,
            self,
            self._find_envoy_handler,
            ENDPOINTS.served_directly(),
            self.via.value,
            is_port_shared=self.processes is not None,
        )

    def _find_envoy_handler(self, scope: Scope) -> RequestHandler | None:
        """Return the handler of Envoy's request; None where something stands around it."""
        if self._is_wrapped or self.config.gateway.cors_origins:
            return None
        return self.inference.find_handler(scope)

    def _authenticate_request(self, request: HttpRequest) -> None:
        """Authenticate; also a FastAPI dependency. Raises LoopDetectedError, UnauthorizedError,
        ForbiddenError."""
        self.via.check_loop(request.scope)
        self.authorization(request)
