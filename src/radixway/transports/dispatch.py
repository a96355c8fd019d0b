"""The end of the road: choose a worker, take a place in the ledger, carry the request there."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET

from radixway.pipeline import ModelNotFound, NoWorkers, Reply, Request, WorkerFailed
from radixway.routing import Doubts, HealthMonitor, PromptReader, Registry, Selector, Worker
from radixway.transports.http import HttpTransport

ANY_MODEL = "auto"
"""The model name with which a client leaves the choice to the gateway."""


class Dispatch:
    """The pipeline's innermost step."""

    def __init__(
        self,
        registry: Registry,
        selector: Selector,
        prompts: PromptReader,
        transport: HttpTransport,
        health: HealthMonitor,
    ) -> None:
        self._doubts = Doubts()
        registry.on_remove.append(self._doubts.clear)
        self._registry = registry
        self._selector = selector
        self._prompts = prompts
        self._transport = transport
        self._health = health

    async def __call__(self, request: Request) -> Reply:
        """Answer from one worker.

        Raises:
            ModelNotFound: no worker that we know serves the model.
            NoWorkers: none of those that do can answer now.
            WorkerFailed: the chosen one broke off before the first byte.
        """
        candidates = self._candidates(request)
        prompt = self._prompts.read(request, self._selector.policy(request.model))
        choice = self._selector.pick(prompt, candidates)
        worker = choice.worker
        request.journal.add("select", choice)
        if request.model == ANY_MODEL:
            request.edit(model=worker.models[0] if worker.models else UNSET)
        lease = self._selector.reserve(choice)
        try:
            reply = await self._transport.send(request, worker, lease)
        except WorkerFailed as failure:
            if failure.said is None:
                self._health.suspect(worker, gone=failure.reason == "unreachable")
                self._doubts.raise_about(worker)
            raise
        self._doubts.clear(worker)
        request.journal.add("answer", worker=worker.name, status=reply.status)
        return reply

    def _candidates(self, request: Request) -> Sequence[Worker]:
        model = None if request.model == ANY_MODEL else request.model
        ready = self._registry.candidates(model)
        if not ready:
            if model is not None and self._registry.surely_lacks(model):
                raise ModelNotFound(model)
            raise NoWorkers(_nobody(self._registry, model))
        request.known_model = request.model or "default"
        if request.tried:
            ready = tuple(worker for worker in ready if worker.name not in request.tried) or ready
        return self._doubts.trusted(ready)


def _nobody(registry: Registry, model: str | None) -> str:
    """Why there is no candidate, as far as is known: an unknown model may be a silent worker's."""
    message = "no worker can answer now" + (f" for the model {model!r}" if model else "")
    if model is None or model in registry.models():
        return message
    silent = [worker.name for worker in registry if not worker.models]
    return message + (f"; not yet heard from: {', '.join(silent)}" if silent else "")
