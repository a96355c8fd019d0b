"""A request's way to its place at a worker: at once where there is room, otherwise through the queue."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from radixway.core.config import RoutingConfig
from radixway.core.pipeline import (
    ANY_MODEL,
    GatewayError,
    ModelNotServedError,
    NoWorkersError,
    OverloadedError,
    RefusalReason,
    Request,
    WeightsTooOldError,
    WorkerNotFoundError,
)
from radixway.core.telemetry import MetricsRegistry
from radixway.routing import (
    PromptReader,
    RoutingRequest,
    Selector,
    WeightVersionTracker,
    Worker,
    WorkerRegistry,
    WorkerState,
)
from radixway.routing.fleet_breakers import FleetBreakers
from radixway.routing.policies import Policy
from radixway.routing.prompt_reader import PromptNeeds
from radixway.routing.request_queue import QueuedRequest, RequestQueue
from radixway.routing.transports.assignment import PairAssigner, WorkerAssignment
from radixway.routing.worker import ErrorKind
from radixway.routing.worker_registry import WorkerLimits

_COUNTED = ("ids", "tokenizer", "worker")
"""Sources that give exact prompt lengths."""

_KINDS: Mapping[ErrorKind, str] = {
    "certificate": "a TLS certificate that is not valid",
    "defect": "a defect of the gateway",
    "name": "a name that does not resolve",
    "no_http": "something that does not speak HTTP",
    "refused": "connections refused",
    "timeout": "no answer in time",
    "tls": "TLS that fails",
    "unreachable": "a network error",
    "unwell": "a health check that fails",
}
"""Error kinds as clients see them, without addresses."""


@dataclass(slots=True, eq=False, kw_only=True)
class _QueuedWaiter(QueuedRequest):
    request: Request
    place: asyncio.Future[WorkerAssignment]
    since: float
    """When it joined the queue; monotonic seconds."""
    ahead: int = 0
    """How many stood before it when it came."""


class AdmissionController:
    """Finds places. Woken by what frees them: a lease that ends, a worker that comes or recovers."""

    def __init__(
        self,
        registry: WorkerRegistry,
        selector: Selector,
        prompts: PromptReader,
        breakers: FleetBreakers,
        metrics: MetricsRegistry,
        config: RoutingConfig,
        weights: WeightVersionTracker,
    ) -> None:
        self._weights = weights
        self._registry = registry
        self._selector = selector
        self._prompts = prompts
        self._breakers = breakers
        self._metrics = metrics
        self._config = config
        self._limits = WorkerLimits(config)
        self._pairing = PairAssigner(registry, selector, breakers, self._limits, metrics, config)
        self._queue: RequestQueue[_QueuedWaiter] = RequestQueue(config.queue)
        self._reserved: set[Worker] = set()
        """Workers reserved for the first of a line, though others would fit sooner."""
        registry.on_add.append(self._on_fleet_change)
        registry.on_remove.append(self._on_fleet_change)
        registry.on_state.append(self._on_fleet_change)
        metrics.gauge("radixway_queued", "Requests that wait for a worker", lambda: len(self._queue))

    async def assign_worker(self, request: Request) -> WorkerAssignment:
        """A place for `request` at one of the workers that serve its model; release its lease.

        Raises:
            ModelNotServedError: no known worker serves the model.
            WorkerNotFoundError: the request is pinned to an unknown worker.
            NoWorkersError: none of them can answer now.
            WeightsTooOldError: none of them has weights that are new enough.
            OverloadedError: all are at their limits and the queue is full, or the wait takes too long.
        """
        began_s = request.journal.elapsed_s()
        candidates = self._ready_workers(request)
        if not candidates:
            raise self._no_candidate_error(request)
        request.routing.metrics_model = request.model or "default"
        prompt = self._read_prompt(request, candidates)
        if not isinstance(prompt, RoutingRequest):
            prompt = await prompt
            candidates = self._ready_workers(request)  # workers may have changed while it waited
            if not candidates:
                raise self._no_candidate_error(request)
        if prompt.source in _COUNTED:
            request.routing.prompt_tokens = prompt.tokens
        if request.ttft_s is not None:
            self._check_ttft_objective(request, request.ttft_s, prompt, candidates)
        if self._limits.on:
            self._serve_queue()
            candidates = self._with_capacity(candidates, prompt)
            if not candidates:
                return await self._wait_in_queue(request, prompt)
        place = self._assign_from(request, prompt, candidates)
        took_s = request.journal.elapsed_s() - began_s
        self._metrics.steps.selection_buckets(place.choice.policy).observe_value(took_s)
        return place

    def _candidates(self, request: Request) -> Sequence[Worker]:
        """Return ready workers of the model within the tenant's pools."""
        model, tenancy = _candidate_model(request.model), request.caller.policy
        found = self._registry.candidates(model)
        if tenancy is None or not tenancy.restricts_workers:
            return found
        if not tenancy.pools and model is not None and tenancy.allows_model(model):
            return found  # all of them serve it
        return tuple(worker for worker in found if tenancy.may_use_worker(worker.pools, worker.models))

    def assign_copy(self, request: Request, first: WorkerAssignment) -> WorkerAssignment | None:
        """Return an assignment for a copy of `request` at another healthy worker with capacity, or None."""
        prompt, models = first.choice.request, first.worker.models[:1]
        others = [
            worker
            for worker in self._weights.filter_fresh(request, self._candidates(request))
            if worker is not first.worker
            and worker.answers_alone
            and worker.name not in request.routing.failed_workers
            and not worker.breaker.tripped
            and worker.models[:1] == models  # the body names one of them if it named none
        ]
        free = self._with_capacity(others, prompt) if self._limits.on else others
        return self._assign_from(request, prompt, free) if free else None

    def _read_prompt(
        self, request: Request, candidates: Sequence[Worker]
    ) -> RoutingRequest | Awaitable[RoutingRequest]:
        """Read the prompt if the choice depends on it."""
        alone = (
            len(candidates) == 1
            and not self._limits.on
            and self._registry.is_only_worker(candidates[0], _candidate_model(request.model))
        )
        reads: Policy | PromptNeeds = self._selector.policy_for_model(request.model)
        if self._pairing.has_decode_only(candidates):  # pairs are chosen by blocks, whatever the policy
            reads = PromptNeeds(True, reads.reads_text, reads.reads_session)
        return self._prompts.read_prompt(request, reads, candidates, alone=alone)

    def _ready_workers(self, request: Request) -> Sequence[Worker]:
        found = self._candidates(request)
        usable = self._pairing.filter_usable(request.model, found, tenancy=request.caller.policy)
        ready = self._weights.filter_fresh(request, usable)
        if request.pinned is not None:
            return tuple(worker for worker in ready if request.pinned in (worker.name, worker.url))
        if request.endpoint.by_surface:
            ready = tuple(worker for worker in ready if worker.may_offer(request.path)) or ready
        if failed := request.routing.failed_workers:
            ready = tuple(worker for worker in ready if worker.name not in failed) or ready
        return self._breakers.filter_admitted(ready)

    def _no_candidate_error(self, request: Request) -> GatewayError:
        if request.pinned is not None:
            known = [worker for worker in self._registry if request.pinned in (worker.name, worker.url)]
            if not known:
                return WorkerNotFoundError(f"there is no worker {request.pinned}", param="x-radixway-worker")
            if (
                known[0].state is WorkerState.READY
                and (refusal := self._stale_weights_error(request)) is not None
            ):
                return refusal
            return NoWorkersError(
                f"worker {request.pinned} cannot answer this now: it is {known[0].state.value}"
            )
        model = _candidate_model(request.model)
        if model is not None and self._registry.definitely_lacks_model(model):
            return ModelNotServedError(model)
        if self._candidates(request) and (refusal := self._stale_weights_error(request)) is not None:
            return refusal
        if request.caller.policy is not None and request.caller.policy.pools:
            return self._no_pool_candidate_error(request.caller.policy.pools, model)
        return NoWorkersError(_explain_no_candidate(self._registry, model))

    def _no_pool_candidate_error(self, pools: frozenset[str], model: str | None) -> GatewayError:
        mine = [worker for worker in self._registry if not pools.isdisjoint(worker.pools)]
        if model is not None and mine and all(each.models and model not in each.models for each in mine):
            return ModelNotServedError(model)
        for_model = f" for the model {model!r}" if model else ""
        return NoWorkersError(
            f"no worker of the tenant's pools can answer now{for_model}{_explain_unavailable(mine)}"
        )

    def _stale_weights_error(self, request: Request) -> GatewayError | None:
        """Return the error for workers whose weights are too old, if the request minds."""
        wanted = []
        if request.max_staleness is not None:
            newest = self._weights.current_version()
            wanted.append(f"at most {request.max_staleness} versions behind {newest!r} (max_staleness)")
        if request.min_weight_version is not None:
            wanted.append(f"version {request.min_weight_version!r} or newer (min_weight_version)")
        return (
            WeightsTooOldError(f"no worker that can answer has weights {' and '.join(wanted)}")
            if wanted
            else None
        )

    def _with_capacity(self, candidates: Sequence[Worker], prompt: RoutingRequest) -> Sequence[Worker]:
        free = self._limits.filter_with_capacity(candidates, prompt)
        free = self._pairing.filter_usable(prompt.model, free, prompt)
        return [worker for worker in free if worker not in self._reserved] if self._reserved else free

    def _assign_from(
        self, request: Request, prompt: RoutingRequest, candidates: Sequence[Worker]
    ) -> WorkerAssignment:
        if request.ttft_s is not None:
            left = request.ttft_s - request.journal.elapsed_s()
            expected = self._selector.expected_ttft_s(prompt, candidates)
            candidates = [w for w, s in zip(candidates, expected, strict=True) if s <= left] or candidates
        if request.journal.is_erased:  # policies keep them
            prompt.text, prompt.session = "", None
        if self._pairing.has_decode_only(candidates):
            return self._pairing.assign_pair(request, prompt, candidates)
        choice = self._selector.select_worker(prompt, candidates)
        request.journal.add("select", choice)
        lease = self._selector.reserve(choice)
        self._breakers.record_sent(choice.worker, lease)
        return WorkerAssignment(choice, lease)

    def _check_ttft_objective(
        self, request: Request, ttft_s: float, prompt: RoutingRequest, candidates: Sequence[Worker]
    ) -> None:
        """Note, or if so configured refuse, a request whose first token is late on every worker."""
        expected = min(self._selector.expected_ttft_s(prompt, candidates))
        if self._limits.on and not self._with_capacity(candidates, prompt):
            expected += self._queue.estimate_drain_s() or 0.0
        late = request.journal.elapsed_s() + expected - ttft_s
        if late <= 0:
            return
        request.journal.add("objective", ttft_s=ttft_s, expected_s=round(expected, 6), missed=True)
        if self._config.enforce_ttft:
            message = f"the first token is expected in {expected:.3g} s, not within {ttft_s:g} s"
            raise self._refusal_error("ttft_unreachable", message, max(1, ceil(late)))

    async def _wait_in_queue(self, request: Request, prompt: RoutingRequest) -> WorkerAssignment:
        """Wait in the queue for an assignment; a client that leaves frees its place."""
        loop, queue = asyncio.get_running_loop(), self._queue
        elapsed_s, now = request.journal.elapsed_s(), self._selector.ledger.clock()
        waiter = _QueuedWaiter(
            prompt,
            (request.model, request.pinned),
            now - elapsed_s,
            queue.clamp_priority(request.priority),
            self._uncached(prompt, self._ready_workers(request)),
            request=request,
            place=loop.create_future(),
            since=now,
        )
        left_out = queue.enqueue(waiter)
        if left_out is waiter:
            raise self._queue_full_error()
        if left_out is not None:
            self._reject_waiter(left_out, self._queue_full_error())
        waiter.ahead = queue.count_ahead(waiter)
        self._serve_queue()
        limit_s, reason, message = self._wait_limit(request, elapsed_s)
        timer = loop.call_later(
            limit_s, lambda: self._reject_waiter(waiter, self._refusal_error(reason, message))
        )
        try:
            place = await waiter.place
        except asyncio.CancelledError:
            if not waiter.place.cancelled() and waiter.place.exception() is None:
                waiter.place.result().release()  # it came in the same moment
            raise
        finally:
            timer.cancel()
            queue.dequeue(waiter)
            self._serve_queue()
        return place

    def _wait_limit(self, request: Request, elapsed_s: float) -> tuple[float, RefusalReason, str]:
        """How long the request may wait, and what it is refused with then."""
        timeout_s, ttft_s = self._config.queue.timeout_s, request.ttft_s
        if self._config.enforce_ttft and ttft_s is not None and ttft_s - elapsed_s < timeout_s:
            message = f"no worker had room within {ttft_s:g} s, in which the first token was to come"
            return ttft_s - elapsed_s, "ttft_unreachable", message
        return timeout_s, "queue_timeout", f"no worker had room within {timeout_s:g} s"

    def _queue_full_error(self) -> OverloadedError:
        waiting = f"{len(self._queue)} requests wait" if self._queue else "requests may not wait"
        return self._refusal_error("queue_full", f"every worker is at its limit and {waiting} already")

    def _refusal_error(
        self, reason: RefusalReason, message: str, retry_after_s: int | None = None
    ) -> OverloadedError:
        self._metrics.refusals(reason).inc()
        return OverloadedError(reason, message, retry_after_s or self._queue.estimate_retry_after_s())

    def _reject_waiter(self, waiter: _QueuedWaiter, error: GatewayError) -> None:
        self._queue.dequeue(waiter)
        if not waiter.place.done():
            waiter.place.set_exception(error)

    def _serve_queue(self) -> None:
        self._reserved.clear()
        if self._queue:
            self._queue.fill_free_slots(
                self._offer_assignment,
                lambda waiter: self._uncached(waiter.prompt, self._ready_workers(waiter.request)),
                self._selector.ledger.clock(),
            )

    def _offer_assignment(self, waiter: _QueuedWaiter) -> bool:
        request = waiter.request
        if waiter.place.done():
            return False  # it leaves in a moment, and then the next is served
        candidates = self._ready_workers(request)
        free = self._with_capacity(candidates, waiter.prompt)
        if not free:
            self._reserved.update(candidates)
            return False
        waited_s = self._selector.ledger.clock() - waiter.since
        self._metrics.queue_time.with_labels(request.routing.metrics_model).observe_value(waited_s)
        request.journal.add("queue", waited_s=round(waited_s, 6), ahead=waiter.ahead)
        waiter.place.set_result(self._assign_from(request, waiter.prompt, free))
        return True

    def _uncached(self, prompt: RoutingRequest, candidates: Sequence[Worker]) -> int:
        return min(self._selector.uncached_tokens(prompt, candidates), default=prompt.tokens)

    def _on_fleet_change(self, _: Worker) -> None:
        """End waits for workers that are gone or whose model has a fallback."""
        self._limits.refresh_limits(self._registry)
        self._selector.ledger.on_release = self._serve_queue if self._limits.on or self._queue else None
        for waiter in tuple(self._queue):
            if not self._ready_workers(waiter.request) and not self._may_return(waiter.request):
                self._reject_waiter(waiter, self._no_candidate_error(waiter.request))
        self._serve_queue()

    def _may_return(self, request: Request) -> bool:
        """Return whether a worker for this request starts or may recover, without a fallback."""
        if request.model in self._config.fallbacks and request.pinned is None:
            return False
        model, pinned = _candidate_model(request.model), request.pinned
        tenancy = request.caller.policy
        return any(
            worker.state is not WorkerState.DRAINING
            and (tenancy is None or tenancy.may_use_worker(worker.pools, worker.models))
            and (model is None or model in worker.models)
            and (pinned is None or pinned in (worker.name, worker.url))
            for worker in self._registry
        )


def _candidate_model(model: str | None) -> str | None:
    """Return the model whose workers may answer; None for all."""
    return None if model == ANY_MODEL else model


def _explain_no_candidate(registry: WorkerRegistry, model: str | None) -> str:
    """Explain why no worker is a candidate; an unknown model may be a silent worker's."""
    message = "no worker can answer now" + (f" for the model {model!r}" if model else "")
    for worker in registry:
        if worker.state is WorkerState.STALE and (model is None or model in worker.models):
            message += f"; {worker.name} waits for weights: {worker.last_error}"
            break
    message += _explain_unavailable(
        each for each in registry if model is None or model in (each.models or (model,))
    )
    if model is None or model in registry.known_models():
        return message
    silent = [worker.name for worker in registry if not worker.models]
    return message + (f"; not yet heard from: {', '.join(silent)}" if silent else "")


def _explain_unavailable(workers: Iterable[Worker]) -> str:
    """Explain why workers are unavailable without naming them."""
    kinds = Counter(worker.error_kind for worker in workers if worker.error_kind is not None)
    counts = [f"{count} × {_KINDS[kind]}" for kind, count in sorted(kinds.items())]
    return f"; out of reach: {', '.join(counts)}" if counts else ""
