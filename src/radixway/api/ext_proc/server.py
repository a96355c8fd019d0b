"""The gRPC server for Envoy: ext_proc, health, reflection, TLS; in the gateway's process and event loop."""

import asyncio
import logging
from collections.abc import Collection, Iterable
from ipaddress import ip_address
from typing import Any

import grpc
from envoy.service.ext_proc.v3 import external_processor_pb2, external_processor_pb2_grpc
from envoy.service.ext_proc.v3.external_processor_pb2 import ProcessingResponse
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from radixway.api.ext_proc.forwarder import DestinationResolver
from radixway.api.ext_proc.stream import ProcessingStream, StreamSettings
from radixway.core.component import Component
from radixway.core.config import Config, ConfigError, ExtProcConfig, ExtProcTlsConfig
from radixway.core.http import App, CannotListenError, ClientDisconnectedError, HttpError, bind_tcp
from radixway.core.telemetry.tracing import parse_caller_span

log = logging.getLogger(__name__)

SERVICE: str = external_processor_pb2.DESCRIPTOR.services_by_name["ExternalProcessor"].full_name


class ExtProcServer(Component):
    """The service. One conversation per HTTP request of Envoy's."""

    name = "ext_proc"

    def __init__(self, config: ExtProcConfig, settings: StreamSettings, drain_s: float) -> None:
        """`drain_s`: how long conversations may go on once it is to stop."""
        self._config = config
        self._settings = settings
        self._drain_s = drain_s
        self._health = health.aio.HealthServicer()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: Any = None
        self._stopping: asyncio.Task[None] | None = None
        self.port = 0
        """The port, once listening."""

    @property
    def address(self) -> str:
        """`host:port`."""
        return _format_address(self._config.host, self.port)

    async def start(self) -> None:
        """Listen. Raises CannotListenError, ConfigError: a file of TLS cannot be read."""
        credentials = None if self._config.tls is None else _tls_credentials(self._config.tls)
        bind_tcp(self._config.host, self._config.port).close()  # which says better than gRPC why it cannot
        _warn_if_exposed(self._config)
        self._server = self._build_server()
        try:
            self.port = self._bind_port(credentials)
            await self._server.start()
            for name in ("", SERVICE):
                await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        except BaseException:
            await self.stop()
            raise

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
        await self._health.enter_graceful_shutdown()
        await self._server.stop(self._drain_s)
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def Process(self, _: Any, context: Any) -> None:  # noqa: N802 - gRPC's name for it
        """Serve one request of Envoy's."""

        async def write(response: ProcessingResponse) -> None:
            try:
                await context.write(response)
            except (grpc.RpcError, grpc.aio.UsageError, asyncio.InvalidStateError) as error:
                raise ClientDisconnectedError from error

        caller = parse_caller_span(_metadata_headers(context.invocation_metadata()))
        stream = ProcessingStream(self._settings, write, caller)
        try:
            while (message := await context.read()) is not grpc.aio.EOF:
                try:
                    await stream.handle_message(message)
                except ClientDisconnectedError:
                    return
                except Exception as error:  # Envoy must get a reply whatever happens
                    log.exception("ext_proc failed unexpectedly")
                    await stream.send_error(HttpError(f"internal error ({type(error).__name__})"))
                self._track_task(stream.task)
        finally:
            stream.mark_disconnected()
            await stream.wait_until_idle()

    def _track_task(self, task: asyncio.Task[None] | None) -> None:
        if task is not None and not task.done() and task not in self._tasks:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _build_server(self) -> Any:
        max_bytes = self._config.max_message_bytes
        options = [
            ("grpc.max_receive_message_length", max_bytes),
            ("grpc.max_send_message_length", max_bytes),
            ("grpc.so_reuseport", 0),  # a port that is taken is an error
        ]
        server = grpc.aio.server(options=options)
        external_processor_pb2_grpc.add_ExternalProcessorServicer_to_server(self, server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        if self._config.reflection:
            services = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
            reflection.enable_server_reflection(services, server)
        return server

    def _bind_port(self, credentials: Any) -> int:
        address = _format_address(self._config.host, self._config.port)
        try:
            if credentials is None:
                return int(self._server.add_insecure_port(address))
            return int(self._server.add_secure_port(address, credentials))
        except RuntimeError as error:
            raise CannotListenError(f"cannot listen on {address} for Envoy: {error}") from None


def _metadata_headers(metadata: Iterable[tuple[str, str | bytes]] | None) -> list[tuple[bytes, bytes]]:
    return [
        (name.encode(), value.encode("latin-1", "replace") if isinstance(value, str) else value)
        for name, value in metadata or ()
    ]


def _tls_credentials(tls: ExtProcTlsConfig) -> Any:
    try:
        ca = None if tls.client_ca is None else tls.client_ca.read_bytes()
        pair = (tls.key.read_bytes(), tls.cert.read_bytes())
    except OSError as error:
        raise ConfigError(f"ext_proc.tls: {error.filename}: {error.strerror}") from None
    return grpc.ssl_server_credentials([pair], root_certificates=ca, require_client_auth=ca is not None)


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


def create_ext_proc_server(config: Config, app: App, paths: Collection[str], via: bytes) -> ExtProcServer:
    """Build the server in front of `app` for `paths` and `/v1/models`; `via` is the gateway's mark."""
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
        is_ours=is_ours,
        destinations=DestinationResolver(section.destinations),
        via=via,
        section=section,
        max_answer_bytes=config.limits.workers.max_answer_bytes,
    )
    return ExtProcServer(section, settings, config.gateway.drain_s)
