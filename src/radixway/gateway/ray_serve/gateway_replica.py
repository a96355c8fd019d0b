"""The deployment of gateways: each replica is a whole gateway, which Ray Serve's proxies pass requests to."""

from contextlib import AsyncExitStack
from typing import Any

from ray import serve
from ray.serve.handle import DeploymentHandle

from radixway.cluster.ray_serve.replica_source import GATEWAY, RayPeerTransport, RayReplicaSource
from radixway.core.config import Config
from radixway.core.http import Message, Receive, Scope, Send
from radixway.core.telemetry import configure_logging
from radixway.gateway.app import Gateway


class ServeGatewayApp:
    """A gateway as Serve runs applications: up and down by ASGI's lifespan protocol, under a prefix."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
            return
        if prefix := scope.get("root_path"):  # paths still have it
            scope = {**scope, "path": scope["path"].removeprefix(prefix) or "/", "root_path": ""}
        if scope["type"] == "http":
            send = _without_request_id(send)
        await self._gateway(scope, receive, send)

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self._gateway.running())
            except Exception as error:
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                raise
            await send({"type": "lifespan.startup.complete"})
            await receive()
            self._gateway.stopping()
        await send({"type": "lifespan.shutdown.complete"})


def _without_request_id(send: Send) -> Send:
    """Drop the request id, which Ray's proxy adds to the answer itself."""

    async def send_on(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [header for header in message["headers"] if header[0].lower() != b"x-request-id"]
            message = {**message, "headers": headers}
        await send(message)

    return send_on


@serve.ingress()
class GatewayReplica:
    """A Serve replica that is a gateway in front of its application's engines, and of those configured."""

    def __init__(self, config: Config, *engines: DeploymentHandle) -> None:
        configure_logging(config.telemetry.logs)
        self._config = config
        self._peers: RayPeerTransport | None = None
        self._engines = [engine.deployment_id for engine in engines]

    def __serve_build_asgi_app__(self) -> ServeGatewayApp:
        sync = self._config.scale.sync
        if sync is not None and sync.ray:
            self._peers = RayPeerTransport(serve.get_replica_context().replica_id.deployment_id)
        sources = [RayReplicaSource(self._engines)] if self._engines else []
        return ServeGatewayApp(Gateway(self._config, sources=sources, load_transport=self._peers))

    def record_replica_metadata(self) -> dict[str, Any]:
        """Return the metadata for the other replicas; called once the gateway runs."""
        return {} if self._peers is None else {GATEWAY: self._peers.endpoint}
