"""The end of the road: find a place at a worker, carry the request there, note what became of it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterator, Mapping
from typing import Any

from msgspec import UNSET
from yarl import URL

from radixway.config import RoutingSection
from radixway.pipeline import (
    ANY_MODEL,
    GatewayError,
    ModelNotFound,
    NoWorkers,
    Overloaded,
    Reply,
    Request,
    WorkerFailed,
    traced,
)
from radixway.routing import (
    Breakers,
    HealthMonitor,
    Hedging,
    Lease,
    PromptReader,
    Registry,
    Selector,
    WeightVersions,
    Worker,
)
from radixway.telemetry import Metrics
from radixway.transports.admission import Admission
from radixway.transports.carrier import Carrier
from radixway.transports.handover import Handover
from radixway.transports.hedge import Hedge
from radixway.transports.http import HttpTransport
from radixway.transports.measuring import Measuring, note_tokens
from radixway.transports.place import Place
from radixway.transports.reply_version import weight_version_in
from radixway.transports.transfer import without_transfer

log = logging.getLogger(__name__)

_UPSTREAM = "upstream"
"""The span within which a worker answers."""


class Dispatch:
    """The pipeline's innermost step."""

    def __init__(
        self,
        registry: Registry,
        selector: Selector,
        prompts: PromptReader,
        transport: HttpTransport,
        health: HealthMonitor,
        metrics: Metrics,
        config: RoutingSection,
        weights: WeightVersions,
    ) -> None:
        self._weights = weights
        self._breakers = Breakers(config.breaker)
        registry.on_remove.append(self._breakers.forget)
        registry.on_state.append(self._breakers.note_state)
        self._admission = Admission(registry, selector, prompts, self._breakers, metrics, config, weights)
        self._attempt = Measuring(metrics, self._send)
        self._hedge: Hedge | None = None
        if config.hedge is not None:
            self._hedge = Hedge(Hedging(config.hedge), self._admission, self._attempt, metrics)
        self._handover = Handover(self._carry)
        registry.on_remove.append(lambda worker: metrics.attempts.forget(worker.name))
        self._transport = transport
        transport.on_stream_end = self._note_stream_end
        self._health = health
        self._metrics = metrics
        self._fallbacks = config.fallbacks
        self._traced = traced("dispatch", self._answer)

    def __call__(self, request: Request) -> Awaitable[Reply]:
        """Answer from one worker. Raises as `_answer`."""
        return self._traced(request) if request.journal.is_traced else self._answer(request)

    async def _answer(self, request: Request) -> Reply:
        """The same.

        Raises:
            ModelNotFound, WorkerNotFound, NoWorkers, Overloaded: see `Admission.place`.
            WorkerFailed: the chosen one broke off before the first byte.
        """
        asked, refusal, began_s = request.model, None, request.journal.elapsed_s()
        if self._fallbacks:
            place, refusal = await self._place(request)
        else:
            place = await self._admission.place(request)
        if request.journal.is_traced:
            request.journal.timed("select", began_s, worker=place.worker.name, policy=place.choice.policy)
        try:
            if refusal is not None:
                self._note_fallback(request, str(asked), str(request.model), refusal)
            self._name_model(request, place.worker)
            reply = await (
                self._attempt(request, place) if self._hedge is None else self._hedge.send(request, place)
            )
        except BaseException:
            place.release()  # a body that cannot be edited is found out only here
            raise
        request.journal.add("answer", worker=reply.worker, status=reply.status)
        note_tokens(request, reply)
        if request.fallback is not None:
            reply.headers.append((b"x-radixway-fallback", request.fallback.encode()))
        return reply

    def _name_model(self, request: Request, worker: Worker) -> None:
        """Settle which of its models the worker is asked for: one that the tenant may use."""
        tenancy, models = request.tenancy, worker.models
        if tenancy is not None and tenancy.models is not None:
            models = tuple(model for model in models if tenancy.allows(model))
        first = models[0] if models else None
        if request.model == ANY_MODEL or (request.model is None and len(models) < len(worker.models)):
            request.edit(model=first or UNSET)
            request.answering = first
        else:
            request.answering = request.model or first

    async def _place(self, request: Request) -> tuple[Place, GatewayError | None]:
        """A place in the pool of the model asked for, or of the first fallback that has one.

        With a fallback's place comes what the model's own pool said; the request asks for the fallback then.

        Raises what the model's own pool said when there is none.
        """
        asked = request.model
        refusal: ModelNotFound | NoWorkers | Overloaded | None = None
        for model in _with_fallbacks(asked, self._fallbacks) if request.pinned is None else (asked,):
            if refusal is not None and not _may_fall_back(request, str(model)):
                continue
            request.model = model
            try:
                place = await self._admission.place(request)
            except (ModelNotFound, NoWorkers, Overloaded) as error:
                refusal = refusal or error
                continue
            return place, refusal
        request.model = asked
        assert refusal is not None
        raise refusal

    def _note_fallback(self, request: Request, asked: str, model: str, refusal: GatewayError) -> None:
        request.fallback = model
        request.edit(model=model)
        request.journal.add("fallback", model=asked, fallback=model, reason=refusal.code)
        self._metrics.fell_back(asked, model)

    async def _send(self, request: Request, place: Place) -> Reply:
        if place.prefill is not None:
            return await self._handover.send(request, place.prefill, place)
        if place.worker.dialect is not None:  # whatever its role: it may obey what it is told
            request = without_transfer(request)
        return await self._carry(request, place.worker, place.lease)

    async def _carry(
        self, request: Request, worker: Worker, lease: Lease, *, prefill_only: bool = False
    ) -> Reply:
        request.workers.append(worker.name)
        request.asked.append(worker.name)
        carrier = request.carrier
        journal = request.journal
        began_s, number = journal.elapsed_s(), len(request.asked)
        log.debug("request %s goes to %s", request.id, worker.name)
        try:
            if isinstance(carrier, Carrier) and carrier.free and not prefill_only:
                reply = await carrier.send(request, worker, lease)
                is_over = True  # as far as we hear of it
            else:
                reply = await self._transport.send(request, worker, lease, prefill_only=prefill_only)
                is_over = reply.chunks is None
        except BaseException as failure:
            request.workers.remove(worker.name)
            if journal.trace is not None and journal.trace.sampled:
                error = failure.reason if isinstance(failure, WorkerFailed) else type(failure).__name__
                journal.trace.add(
                    _UPSTREAM, began_s, journal.elapsed_s(), number=number, error=error, **_told(worker)
                )
            if isinstance(failure, WorkerFailed) and failure.said is None and failure.is_its_own:
                self._health.suspect(worker, gone=failure.reason == "unreachable")
                self._breakers.broke(worker)
            raise
        if journal.trace is not None and journal.trace.sampled:
            ended_s = journal.elapsed_s() if reply.chunks is None else None
            told = _told(worker) | {"status": reply.status}
            if prefill_only:
                told["prefill_only"] = True
            journal.trace.add(_UPSTREAM, began_s, ended_s, number=number, **told)
        if is_over:
            self._breakers.answered(worker, reply.status)
        if (version := weight_version_in(reply.body)) is not None:
            self._weights.passed(worker, version)
        return reply

    def _note_stream_end(self, worker: Worker, is_whole: bool) -> None:
        """A stream that begins well says little of its worker: it may be cut."""
        if is_whole:
            self._breakers.answered(worker, 200)
        else:
            self._breakers.broke(worker)


def _told(worker: Worker) -> dict[str, Any]:
    url = URL(worker.url)
    return {"worker": worker.name, "host": url.host, "port": url.port}


def _may_fall_back(request: Request, model: str) -> bool:
    tenancy, clearance = request.tenancy, request.clearance
    return (tenancy is None or tenancy.allows(model)) and (clearance is None or clearance.clears(model))


def _with_fallbacks(model: str | None, fallbacks: Mapping[str, str]) -> Iterator[str | None]:
    """A model, its fallback, that one's fallback …; the configuration has made sure that it ends."""
    yield model
    while model is not None and (model := fallbacks.get(model)) is not None:
        yield model
