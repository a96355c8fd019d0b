"""The pipeline's innermost step: find a place at a worker, carry the request there, note the outcome."""

import logging
from abc import abstractmethod
from collections.abc import Awaitable, Iterator, Mapping
from typing import Any, cast

from msgspec import UNSET
from yarl import URL

from radixway.core.config import RoutingConfig
from radixway.core.pipeline import (
    ANY_MODEL,
    DataPlane,
    GatewayError,
    ModelNotServedError,
    NoWorkersError,
    OverloadedError,
    Reply,
    Request,
    WorkerAnswer,
    WorkerFailedError,
    trace_step,
)
from radixway.core.telemetry import MetricsRegistry
from radixway.core.telemetry.trace_record import TraceRecord
from radixway.routing import (
    HealthMonitor,
    PromptReader,
    Selector,
    WeightVersionTracker,
    Worker,
    WorkerLease,
    WorkerRegistry,
)
from radixway.routing.fleet_breakers import FleetBreakers
from radixway.routing.transports.admission import AdmissionController
from radixway.routing.transports.assignment import WorkerAssignment
from radixway.routing.transports.attempt_metrics import MeasuredAttempt, journal_token_usage
from radixway.routing.transports.disaggregated_dispatch import DisaggregatedDispatch
from radixway.routing.transports.hedged_dispatch import HedgeBudget, HedgedDispatch
from radixway.routing.transports.hosted import HostedTransport
from radixway.routing.transports.http_transport import HttpTransport
from radixway.routing.transports.kv_transfer import strip_transfer_fields
from radixway.routing.transports.overflow import describe_hosted
from radixway.routing.transports.worker_responses import find_weight_version

log = logging.getLogger(__name__)


class RequestForwarder(DataPlane):
    """A data plane in front of the gateway that takes requests to workers itself."""

    @abstractmethod
    async def forward_request(self, request: Request, worker: Worker, lease: WorkerLease) -> Reply:
        """The answer of `worker`; `lease` is released when it has been read or closed, or nothing came of it.

        Trying again before the first byte is the data plane's business: what it brings back is the answer.
        """


class RequestDispatcher:
    """The pipeline's innermost step."""

    times_itself = True
    """It counts its own time, which is that of no middleware."""

    def __init__(
        self,
        registry: WorkerRegistry,
        selector: Selector,
        prompts: PromptReader,
        transport: HttpTransport,
        health: HealthMonitor,
        metrics: MetricsRegistry,
        config: RoutingConfig,
        weights: WeightVersionTracker,
    ) -> None:
        self._registry = registry
        self._weights = weights
        self._breakers = FleetBreakers(config.breaker)
        registry.on_remove.append(self._breakers.remove_worker)
        registry.on_state.append(self._breakers.on_state_change)
        self._admission = AdmissionController(
            registry, selector, prompts, self._breakers, metrics, config, weights
        )
        self._attempt = MeasuredAttempt(metrics, self._send_assigned)
        self._hedge: HedgedDispatch | None = None
        if config.hedge is not None:
            self._hedge = HedgedDispatch(HedgeBudget(config.hedge), self._admission, self._attempt, metrics)
        self._handover = DisaggregatedDispatch(self._send_attempt)
        registry.on_remove.append(lambda worker: metrics.attempts.forget_worker(worker.name))
        self._transport = transport
        self._hosted = HostedTransport(transport, registry)
        transport.on_stream_end = self._note_stream_end
        self._health = health
        self._metrics = metrics
        self._fallbacks = config.fallbacks
        self._overflow_model = None if config.overflow.to == "hosted" else config.overflow.to
        self._traced = trace_step("dispatch", self._dispatch_request)

    def __call__(self, request: Request) -> Awaitable[Reply]:
        """Answer `request` from one worker. Raises as `_dispatch_request`."""
        return self._traced(request) if request.journal.is_traced else self._dispatch_request(request)

    async def _dispatch_request(self, request: Request) -> Reply:
        """Assign a worker, send the request (hedged if configured), and journal the answer.

        Raises:
            GatewayError: see `AdmissionController.assign_worker`.
            WorkerFailedError: the chosen one broke off before the first byte.
        """
        requested, refusal, began_s = request.model, None, request.journal.elapsed_s()
        try:
            if self._fallbacks or self._overflow_model is not None:
                place, refusal = await self._assign_worker(request)
            else:
                place = await self._admission.assign_worker(request)
            if request.journal.is_traced:
                request.journal.record_timing(
                    "select", began_s, worker=place.worker.name, policy=place.choice.policy
                )
            try:
                if refusal is not None:
                    self._note_fallback(request, str(requested), str(request.model), refusal)
                self._settle_model(request, place.worker)
                if self._registry.has_hosted():
                    self._note_hosted(request, place.worker)
                reply = await (
                    self._attempt(request, place)
                    if self._hedge is None
                    else self._hedge.send_hedged(request, place)
                )
            except BaseException:
                place.release()  # a body that cannot be edited is found out only here
                raise
            request.journal.add("answer", WorkerAnswer(reply.worker, reply.status))
            journal_token_usage(request, reply)
            if request.routing.fallback_model is not None:
                reply.headers.append((b"x-radixway-fallback", request.routing.fallback_model.encode()))
            return reply
        finally:
            request.inner_steps_s += request.journal.elapsed_s() - began_s

    def _settle_model(self, request: Request, worker: Worker) -> None:
        """Set the model to request from the worker, among the tenant's."""
        if request.model and request.model != ANY_MODEL:
            request.routing.resolved_model = request.model
            return
        tenancy, models = request.caller.policy, worker.models
        if tenancy is not None and tenancy.models is not None:
            models = tuple(model for model in models if tenancy.allows_model(model))
        first = models[0] if models else None
        if request.model == ANY_MODEL or (request.model is None and len(models) < len(worker.models)):
            request.edit(model=first or UNSET)
        request.routing.resolved_model = first

    async def _assign_worker(self, request: Request) -> tuple[WorkerAssignment, GatewayError | None]:
        """Return a worker of the requested model's pool, or of the first fallback with a free one.

        With a fallback comes the error of the model's own pool; the request then names the fallback.

        Raises the error of the model's own pool if there is none.
        """
        requested = request.model
        refusal: ModelNotServedError | NoWorkersError | OverloadedError | None = None
        for model in self._iter_models(requested) if request.pinned is None else (requested,):
            if refusal is not None and not _may_fall_back(request, str(model)):
                continue
            if model == self._overflow_model and isinstance(refusal, ModelNotServedError):
                continue  # it stands in for models that there are
            request.model = model
            try:
                place = await self._admission.assign_worker(request)
            except (ModelNotServedError, NoWorkersError, OverloadedError) as error:
                refusal = refusal or error
                continue
            return place, refusal
        request.model = requested
        assert refusal is not None
        raise refusal

    def _iter_models(self, requested: str | None) -> Iterator[str | None]:
        """Yield the models that may answer: the one requested, its fallbacks, the one of the overflow."""
        seen = None
        for seen in iter_fallbacks(requested, self._fallbacks):
            yield seen
        if self._overflow_model is not None and self._overflow_model != seen:
            yield self._overflow_model

    def _note_fallback(self, request: Request, requested: str, model: str, refusal: GatewayError) -> None:
        request.routing.fallback_model = model
        request.edit(model=model)
        request.journal.add("fallback", model=requested, fallback=model, reason=refusal.code)
        self._metrics.fallbacks(requested, model).inc()

    def _send_assigned(self, request: Request, place: WorkerAssignment) -> Awaitable[Reply]:
        if place.prefill is not None:
            return self._handover.send_to_pair(request, place.prefill, place)
        if place.worker.dialect is not None:  # in any role: it may act on a client's transfer fields
            request = strip_transfer_fields(request)
        return self._send_attempt(request, place.worker, place.lease)

    async def _send_attempt(
        self, request: Request, worker: Worker, lease: WorkerLease, *, prefill_only: bool = False
    ) -> Reply:
        request.routing.active_workers.append(worker.name)
        request.routing.attempted_workers.append(worker.name)
        carrier = request.routing.data_plane
        journal = request.journal
        began_s, number = journal.elapsed_s(), len(request.routing.attempted_workers)
        log.debug("request %s goes to %s", request.id, worker.name)
        try:
            if (
                carrier is not None
                and worker.hosted is None
                and _may_forward(carrier, prefill_only=prefill_only)
            ):
                reply = await cast(RequestForwarder, carrier).forward_request(request, worker, lease)
                is_over = True  # as far as we hear of it
            elif worker.hosted is not None:
                reply = await self._hosted.send_request(request, worker, lease)
                is_over = reply.chunks is None
            else:
                reply = await self._transport.send_request(request, worker, lease, prefill_only=prefill_only)
                is_over = reply.chunks is None
        except BaseException as failure:
            request.routing.active_workers.remove(worker.name)
            if journal.trace is not None and journal.trace.sampled:
                error = failure.reason if isinstance(failure, WorkerFailedError) else type(failure).__name__
                _trace_attempt(
                    journal.trace, worker, began_s, journal.elapsed_s(), number=number, error=error
                )
            if worker.hosted is not None:
                self._note_hosted_failure(worker, failure)
            elif isinstance(failure, WorkerFailedError) and failure.reply is None and failure.is_worker_fault:
                self._health.report_failure(worker, gone=failure.reason == "unreachable")
                self._breakers.record_disconnect(worker)
            raise
        if journal.trace is not None and journal.trace.sampled:
            ended_s = journal.elapsed_s() if reply.chunks is None else None
            fields: dict[str, Any] = {"number": number, "status": reply.status}
            if prefill_only:
                fields["prefill_only"] = True
            _trace_attempt(journal.trace, worker, began_s, ended_s, **fields)
        if is_over:
            self._breakers.record_answer(worker, reply.status)
        if (version := find_weight_version(reply.body)) is not None:
            self._weights.record_reply(worker, version)
        return reply

    def _note_hosted_failure(self, worker: Worker, failure: BaseException) -> None:
        """Count a failure of a provider, which no health check is asked about."""
        if isinstance(failure, WorkerFailedError) and failure.is_worker_fault:
            if failure.reply is None:
                self._breakers.record_disconnect(worker)
            elif failure.reply.status >= 500:
                self._breakers.record_answer(worker, failure.reply.status)

    def _note_hosted(self, request: Request, worker: Worker) -> None:
        """Have the journal say that a provider answers, why, and what it costs."""
        request.routing.pricing = None
        if worker.hosted is not None:
            model = request.routing.resolved_model or ""
            request.routing.pricing = worker.hosted.pricing_of(model)
            request.journal.add("hosted", **describe_hosted(request, self._registry, worker.hosted, model))

    def _note_stream_end(self, worker: Worker, is_complete: bool) -> None:
        """Note how a stream ended: one that begins well may still be cut."""
        if is_complete:
            self._breakers.record_answer(worker, 200)
        else:
            self._breakers.record_disconnect(worker)


def _may_forward(carrier: DataPlane, *, prefill_only: bool) -> bool:
    return isinstance(carrier, RequestForwarder) and carrier.is_free and not prefill_only


def _trace_attempt(
    trace: TraceRecord, worker: Worker, began_s: float, ended_s: float | None, **fields: Any
) -> None:
    """Add an attempt at `worker` to the trace; without `ended_s` it ends with the answer's stream."""
    url = URL(worker.url)
    trace.add_stage("upstream", began_s, ended_s, worker=worker.name, host=url.host, port=url.port, **fields)


def _may_fall_back(request: Request, model: str) -> bool:
    tenancy, clearance = request.caller.policy, request.clearance
    return (tenancy is None or tenancy.allows_model(model)) and (
        clearance is None or clearance.may_show(model)
    )


def iter_fallbacks(model: str | None, fallbacks: Mapping[str, str]) -> Iterator[str | None]:
    """Yield a model, its fallback, and so on; configuration has excluded cycles."""
    yield model
    while model is not None and (model := fallbacks.get(model)) is not None:
        yield model
