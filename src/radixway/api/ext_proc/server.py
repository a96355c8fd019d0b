"""The gRPC server for Envoy: ext_proc, health, reflection, TLS; in the gateway's process and event loop."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Collection
from ipaddress import ip_address

from envoy.service.ext_proc.v3 import external_processor_pb2

from radixway.api.ext_proc.forwarder import DestinationResolver
from radixway.api.ext_proc.grpc_server import GrpcCall, GrpcServer
from radixway.api.ext_proc.grpc_services import HEALTH, REFLECTION, HealthService, reflection_methods
from radixway.api.ext_proc.stream import FindHandler, ProcessingStream, StreamSettings
from radixway.core.component import Component
from radixway.core.config import Config, ConfigError, ExtProcConfig, ExtProcTlsConfig
from radixway.core.http import App, RequestDeadlines, bind_tcp
from radixway.core.http2 import Header
from radixway.core.telemetry.tracing import parse_caller_span

log = logging.getLogger(__name__)

SERVICE: str = external_processor_pb2.DESCRIPTOR.services_by_name["ExternalProcessor"].full_name

_MAX_STREAMS = 10_000
"""Requests that one connection of Envoy's may have under way."""


class ExtProcServer(Component):
    """The service. One conversation per HTTP request of Envoy's."""

    name = "ext_proc"

    def __init__(
        self, config: ExtProcConfig, settings: StreamSettings, drain_s: float, *, is_port_shared: bool = False
    ) -> None:
        """`drain_s`: how long conversations may go on once it is to stop.

        `is_port_shared`: other processes of this user listen at the port too; the kernel spreads connections.
        """
        self._is_port_shared = is_port_shared
        self._config = config
        self._settings = settings
        self._drain_s = drain_s
        self._health = HealthService([SERVICE])
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: GrpcServer | None = None
        self._stopping: asyncio.Task[None] | None = None
        self.port = 0
        """The port, once listening."""

    @property
    def address(self) -> str:
        """`host:port`."""
        return _format_address(self._config.host, self.port)

    async def start(self) -> None:
        """Listen. Raises CannotListenError, ConfigError: a file of TLS cannot be read."""
        tls = None if self._config.tls is None else _tls_context(self._config.tls)
        listener = bind_tcp(self._config.host, self._config.port, shared=self._is_port_shared)
        _warn_if_exposed(self._config)
        self.port = listener.getsockname()[1]
        self._server = self._build_server()
        await self._server.start(listener, tls)

    def start_draining(self) -> None:
        """Take no new requests; requests in flight get `drain_s` seconds to finish."""
        if self._server is not None and self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._drain())

    async def stop(self) -> None:
        """Drain, and return when all requests have ended."""
        self.start_draining()
        if self._stopping is not None:
            await self._stopping

    async def _drain(self) -> None:
        self._health.stop_serving()
        assert self._server is not None
        await self._server.drain(self._drain_s)
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def open_call(self, call: GrpcCall, metadata: list[Header]) -> ProcessingStream:
        """Serve one request of Envoy's."""
        return ProcessingStream(self._settings, call, parse_caller_span(metadata), self._tasks)

    def _build_server(self) -> GrpcServer:
        methods = {f"/{SERVICE}/Process".encode(): self.open_call, **self._health.methods()}
        if self._config.reflection:
            methods |= reflection_methods((SERVICE, HEALTH, REFLECTION))
        max_bytes = self._config.max_message_bytes
        return GrpcServer(methods, max_message_bytes=max_bytes, max_streams=_MAX_STREAMS)


def _tls_context(tls: ExtProcTlsConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["h2"])
    for path in (tls.cert, tls.key, tls.client_ca):
        try:
            if path is not None:
                path.open("rb").close()  # which says better than OpenSSL why it cannot
        except OSError as error:
            raise ConfigError(f"ext_proc.tls: {error.filename}: {error.strerror}") from None
    try:
        context.load_cert_chain(tls.cert, tls.key)
        if tls.client_ca is not None:
            context.load_verify_locations(tls.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except ssl.SSLError as error:
        raise ConfigError(f"ext_proc.tls: {error.reason or error}") from None
    return context


def _format_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _warn_if_exposed(config: ExtProcConfig) -> None:
    try:
        closed = ip_address(config.host).is_loopback
    except ValueError:
        closed = config.host == "localhost"
    if not closed and (config.tls is None or config.tls.client_ca is None):
        log.warning("any client of %s can act as Envoy: set ext_proc.tls.client_ca", config.host)


_MODELS = "/v1/models"
_HEADER_ALLOWANCE_BYTES = 2**20
"""Bytes that a message may have beside a request's body: headers, and what the protocol needs."""


def create_ext_proc_server(
    config: Config,
    app: App,
    find_handler: FindHandler,
    paths: Collection[str],
    via: bytes,
    *,
    is_port_shared: bool = False,
) -> ExtProcServer:
    """Build the server in front of `app` for `paths` and `/v1/models`; `via` is the gateway's mark.

    Requests that `find_handler` finds the handler of are answered without `app`. `is_port_shared`: see
    `ExtProcServer`. Raises ConfigError.
    """
    section = config.ext_proc
    if section.max_message_bytes < config.gateway.max_body_bytes + _HEADER_ALLOWANCE_BYTES:
        raise ConfigError(
            "ext_proc.max_message_bytes: a body of gateway.max_body_bytes must fit into a message, "
            f"so at least {config.gateway.max_body_bytes + _HEADER_ALLOWANCE_BYTES}"
        )

    def is_ours(method: str, path: str) -> bool:
        return path in paths or (method == "GET" and (path == _MODELS or path.startswith(_MODELS + "/")))

    settings = StreamSettings(
        app=app,
        find_handler=find_handler,
        is_ours=is_ours,
        destinations=DestinationResolver(section.destinations),
        via=via,
        section=section,
        max_answer_bytes=config.limits.workers.max_answer_bytes,
        deadlines=RequestDeadlines(section.answer_within_s),
    )
    return ExtProcServer(section, settings, config.gateway.drain_s, is_port_shared=is_port_shared)
