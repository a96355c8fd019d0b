"""The end of the road: choose a worker, take a place in the ledger, carry the request there."""

from __future__ import annotations

from msgspec import UNSET

from radixway.pipeline import ModelNotFound, NoWorkers, Reply, Request, WorkerFailed
from radixway.routing import HealthMonitor, Lease, Registry, Selector, Worker
from radixway.transports.http import HttpTransport

ANY_MODEL = "auto"
"""The model name with which a client leaves the choice to the gateway."""


class Dispatch:
    """The pipeline's innermost step."""

    def __init__(
        self, registry: Registry, selector: Selector, transport: HttpTransport, health: HealthMonitor
    ) -> None:
        self._registry = registry
        self._selector = selector
        self._transport = transport
        self._health = health

    async def __call__(self, request: Request) -> Reply:
        """Answer from one worker.

        Raises:
            ModelNotFound: no worker that we know serves the model.
            NoWorkers: none of those that do can answer now.
            WorkerFailed: the chosen one broke off before the first byte.
        """
        choice = self._selector.pick(request, self._candidates(request))
        worker = choice.worker
        request.journal.add("select", **choice.explain())
        if request.model == ANY_MODEL:
            request.edit(model=worker.models[0] if worker.models else UNSET)
        lease = Lease(worker, stream=request.stream)
        try:
            reply = await self._transport.send(request, worker, lease)
        except WorkerFailed as failure:
            self._health.suspect(worker, gone=failure.reason == "unreachable")
            raise
        request.journal.add("answer", worker=worker.name, status=reply.status)
        return reply

    def _candidates(self, request: Request) -> tuple[Worker, ...]:
        model = None if request.model == ANY_MODEL else request.model
        ready = self._registry.candidates(model)
        if not ready:
            if model is not None and self._registry.surely_lacks(model):
                raise ModelNotFound(model)
            raise NoWorkers("no worker can answer now" + (f" for the model {model!r}" if model else ""))
        request.known_model = request.model or "default"
        if not request.tried:
            return ready
        return tuple(worker for worker in ready if worker.name not in request.tried) or ready
