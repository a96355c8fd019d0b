"""The deployment of engines: each replica runs one server and publishes its address."""

from collections.abc import AsyncIterator
from typing import Any

import ray

from radixway.cluster.planner.ray_autoscaler import IN_HAND
from radixway.cluster.ray_serve.server_process import ServerProcess
from radixway.core.config import EngineConfig, RayEngineConfig


class EngineReplica:
    """A Serve replica around an engine's server, which requests reach at a port of its own.

    Ray starts it, asks how it is, counts its resources, and ends it; when it is killed, the server ends too.
    """

    async def __init__(self, section: RayEngineConfig, settings: EngineConfig) -> None:  # type: ignore[misc]
        host = ray.util.get_node_ip_address()
        self._server = await ServerProcess.start_server(section, settings, host)

    async def ask(self, body: dict[str, Any], path: str = "/v1/chat/completions") -> AsyncIterator[bytes]:
        """The server's answer, piece by piece as it comes, for others in the cluster who have a handle.

        Raises ServerRefusedError.
        """
        async for piece in self._server.stream_answer(path, body):
            yield piece

    def record_replica_metadata(self) -> dict[str, Any]:
        """Return the worker's settings, which Ray's controller hands to followers of the deployment."""
        worker = self._server.worker
        metadata = worker.model_dump(mode="json", exclude_unset=True)
        if worker.api_key is not None:
            metadata["api_key"] = worker.api_key.get_secret_value()
        return {WORKER: metadata}

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """Report requests in flight, which `by_requests_in_hand` adds up."""
        return {IN_HAND: await self._server.count_inflight()}

    def check_health(self) -> None:
        """Raise EngineServerError for Ray to replace this replica."""
        self._server.check_running()

    async def __del__(self) -> None:  # as Ray wants it
        if hasattr(self, "_server"):
            await self._server.stop_server()


WORKER = "radixway_worker"
"""Metadata key under which a replica stores its `workers` entry."""
