"""Engines' replicas as Serve's controller knows them: a source of workers.

`listen_for_change` answers when the set of running replicas differs from the last one received, so that
no call is wasted. Ray keeps it for its own handles and proxies: it is not public, but the same in
all versions that the extra `ray` admits.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Iterable
from typing import Any

import ray
from pydantic import ValidationError
from ray.serve._private.common import DeploymentID
from ray.serve._private.constants import SERVE_CONTROLLER_NAME, SERVE_NAMESPACE
from ray.serve._private.long_poll import LongPollNamespace, LongPollState

from radixway.cluster.discovery import DiscoverySourceError, ReportWorkers
from radixway.cluster.load_sync.transport import OnMessage
from radixway.cluster.load_sync.zmq_transport import ZmqTransport
from radixway.cluster.ray_serve.engine_replica import WORKER
from radixway.core.config import WorkerSettings
from radixway.core.net.task_cancellation import cancel_tasks
from radixway.routing import DiscoveredWorker

_NO_SNAPSHOT = -1


class RayReplicaSource:
    """The running replicas of some deployments, each by what its metadata say."""

    def __init__(self, deployments: Iterable[DeploymentID]) -> None:
        self._deployments = tuple(deployments)
        self.name = "ray " + " ".join(f"{each.app_name}/{each.name}" for each in self._deployments)

    async def follow_workers(self, tell: ReportWorkers) -> None:
        """Report replicas to `tell` (see `DiscoverySource`). One that Ray removes is left out and drains."""
        async for metadata in follow_metadata(self._deployments):
            try:
                workers = [WorkerSettings.model_validate(each[WORKER]) for each in metadata]
            except (KeyError, ValidationError) as error:
                raise DiscoverySourceError("a replica does not say where its server is") from error
            tell(map(DiscoveredWorker, workers))


async def follow_metadata(deployments: Collection[DeploymentID]) -> AsyncIterator[list[dict[str, Any]]]:
    """Yield the metadata of the running replicas of `deployments`, now and at each change.

    Raises DiscoverySourceError when the controller does not answer.
    """
    snapshot_ids = {(LongPollNamespace.DEPLOYMENT_TARGETS, each): _NO_SNAPSHOT for each in deployments}
    running: dict[Any, list[dict[str, Any]]] = {}
    while True:
        try:
            # In a thread: this calls Ray's directory, which blocks for a minute while it is unreachable.
            controller = await asyncio.to_thread(
                ray.get_actor, SERVE_CONTROLLER_NAME, namespace=SERVE_NAMESPACE
            )
            updates = await controller.listen_for_change.remote(snapshot_ids)
        except (ray.exceptions.RayError, ValueError) as error:
            raise DiscoverySourceError(
                f"Serve's controller does not answer: {type(error).__name__}"
            ) from error
        if updates is LongPollState.TIME_OUT:
            continue
        for key, update in updates.items():
            snapshot_ids[key] = update.snapshot_id
            running[key] = [each.replica_metadata for each in update.object_snapshot.running_replicas]
        yield [metadata for replicas in running.values() for metadata in replicas]


log = logging.getLogger(__name__)

GATEWAY = "radixway_gateway"
"""Metadata key under which a gateway replica stores its load endpoint."""
_RETRY_S = 1.0


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
            await asyncio.sleep(_RETRY_S)

    def _update_connections(self, endpoints: set[str]) -> None:
        others = endpoints - {self.endpoint}
        for endpoint in others - self._connected:
            self.connect_peer(endpoint)
        for endpoint in self._connected - others:
            self.disconnect_peer(endpoint)
        self._connected = others
