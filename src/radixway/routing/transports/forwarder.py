"""Whoever brings a request to its worker where the gateway's own connections do not."""

from __future__ import annotations

from abc import ABC, abstractmethod

from radixway.core.pipeline import Reply, Request
from radixway.routing import Worker, WorkerLease


class RequestForwarder(ABC):
    """A data plane in front of the gateway that takes requests to workers itself (`Request.carrier`)."""

    @property
    @abstractmethod
    def is_free(self) -> bool:
        """It has not been given anything to carry. It takes one request once: what is asked again after that
        (the rest of an aborted answer) goes over the gateway's own connections."""

    @abstractmethod
    async def forward_request(self, request: Request, worker: Worker, lease: WorkerLease) -> Reply:
        """The answer of `worker`; `lease` is released when it has been read or closed, or nothing came of it.

        Trying again before the first byte is the data plane's business: what it brings back is the answer.
        """
