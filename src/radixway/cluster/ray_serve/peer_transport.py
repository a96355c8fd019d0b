"""Gateways that are replicas of one deployment tell each other their load over ZeroMQ; Ray finds peers."""

from __future__ import annotations

import asyncio
import logging

import ray
from ray.serve._private.common import DeploymentID

from radixway.cluster.discovery import DiscoverySourceError
from radixway.cluster.load_sync.transport import OnMessage
from radixway.cluster.load_sync.zmq_transport import ZmqTransport
from radixway.cluster.ray_serve.replica_source import follow_metadata
from radixway.core.net.task_cancellation import cancel_tasks

log = logging.getLogger(__name__)

GATEWAY = "radixway_gateway"
"""Where a gateway replica's metadata say at which endpoint it publishes its load."""
_AGAIN_S = 1.0


class RayPeerTransport(ZmqTransport):
    """Publishes at a free port of this node, and listens to every other replica of `deployment`."""

    name = "ray"

    def __init__(self, deployment: DeploymentID) -> None:
        super().__init__(f"tcp://{ray.util.get_node_ip_address()}:*", ())
        self._deployment = deployment
        self._connected: set[str] = set()
        self._following: list[asyncio.Task[None]] = []

    async def start_receiving(self, hear: OnMessage) -> None:
        """Implements `SyncTransport`."""
        await super().start_receiving(hear)
        task = asyncio.get_running_loop().create_task(self._follow_peers(), name="load sync finds its peers")
        self._following.append(task)

    async def close_transport(self) -> None:
        """Implements `SyncTransport`."""
        await cancel_tasks(self._following)
        await super().close_transport()

    async def _follow_peers(self) -> None:
        while True:
            try:
                async for metadata in follow_metadata([self._deployment]):
                    self._update_connections({each[GATEWAY] for each in metadata if GATEWAY in each})
            except DiscoverySourceError as failure:
                log.warning("load sync: %s", failure)
            await asyncio.sleep(_AGAIN_S)

    def _update_connections(self, endpoints: set[str]) -> None:
        others = endpoints - {self.endpoint}
        for endpoint in others - self._connected:
            self.connect_peer(endpoint)
        for endpoint in self._connected - others:
            self.disconnect_peer(endpoint)
        self._connected = others
