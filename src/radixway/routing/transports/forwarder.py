"""Contract of a data plane (Envoy) that carries requests to workers itself."""

from __future__ import annotations

from abc import abstractmethod

from radixway.core.pipeline import DataPlane, Reply, Request
from radixway.routing import Worker, WorkerLease


class RequestForwarder(DataPlane):
    """A data plane in front of the gateway that takes requests to workers itself."""

    @abstractmethod
    async def forward_request(self, request: Request, worker: Worker, lease: WorkerLease) -> Reply:
        """The answer of `worker`; `lease` is released when it has been read or closed, or nothing came of it.

        Trying again before the first byte is the data plane's business: what it brings back is the answer.
        """
