"""A request's way to its place at a worker: at once where there is room, otherwise through the queue."""

import asyncio
from collections.abc import Awaitable, Sequence
from math import ceil

from radixway.core.config import RoutingConfig
from radixway.core.pipeline import (
    ANY_MODEL,
    GatewayError,
    ModelNotServedError,
    NoWorkersError,
    OverloadedError,
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
    WorkerChoice,
    WorkerRegistry,
    WorkerState,
)
from radixway.routing.fleet_breakers import FleetBreakers
from radixway.routing.policies import Policy
from radixway.routing.prompt_reader import PromptNeeds
from radixway.routing.transports.assignment import PairAssigner, WorkerAssignment
from radixway.routing.transports.candidate_errors import explain_no_candidate, explain_unavailable
from radixway.routing.transports.overflow import OverflowRule, QueueTooLongError
from radixway.routing.transports.waiting_requests import WaitingRequests
from radixway.routing.worker_registry import WorkerLimits

_COUNTED = ("ids", "tokenizer", "worker")
"""Sources that give exact prompt lengths."""


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
        self._waiting = WaitingRequests(self, registry, selector, metrics, config)
        self._overflow = OverflowRule(config.overflow)
        registry.on_add.append(self._on_fleet_change)
        registry.on_remove.append(self._on_fleet_change)
        registry.on_state.append(self._on_fleet_change)

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
        candidates = self.ready_workers(request)
        if not candidates:
            raise self._no_candidate_error(request)
        request.routing.metrics_model = request.model or "default"
        prompt = self._read_prompt(request, candidates)
        if not isinstance(prompt, RoutingRequest):
            prompt = await prompt
            candidates = self.ready_workers(request)  # workers may have changed while it waited
            if not candidates:
                raise self._no_candidate_error(request)
        if prompt.source in _COUNTED:
            request.routing.prompt_tokens = prompt.tokens
        if request.ttft_s is not None:
            self._check_ttft_objective(request, request.ttft_s, prompt, candidates)
        if self._overflow.queue_s is not None and self._may_overflow(request, candidates):
            wait_s = self._expected_wait_s(candidates, prompt)
            if wait_s > self._overflow.queue_s:
                candidates = self._leave_own(request, f"own workers' queues take {wait_s:.3g} s")
        if self._limits.on:
            self._waiting.serve()
            candidates = self.filter_with_capacity(candidates, prompt)
            if not candidates:
                return await self._wait_for_place(request, prompt)
        if self.needs_pair(candidates):
            place = self.assign_from(request, prompt, candidates)
        else:
            choice = self._choose_worker(request, prompt, candidates)
            if self._waiting.should_wait(request, choice):
                return await self._wait_for_place(request, prompt)
            place = self.assign_from(request, prompt, candidates, choice)
        took_s = request.journal.elapsed_s() - began_s
        self._metrics.steps.selection_buckets(place.choice.policy).observe_value(took_s)
        return place

    async def _wait_for_place(self, request: Request, prompt: RoutingRequest) -> WorkerAssignment:
        """Wait for a place; no longer than it may take before the request is hosted, where it may be."""
        queue_s = self._overflow.queue_s
        if queue_s is None or not self._may_overflow(request, self.ready_workers(request)):
            return await self._waiting.wait_for_place(request, prompt)
        try:
            async with asyncio.timeout(queue_s):
                return await self._waiting.wait_for_place(request, prompt)
        except TimeoutError:
            reason = f"it has waited {queue_s:g} s for an own worker"
        except OverloadedError as full:
            reason = str(full)
        free = self.filter_with_capacity(self._leave_own(request, reason), prompt)
        if not free:
            return await self._waiting.wait_for_place(request, prompt)
        return self.assign_from(request, prompt, free)

    def _may_overflow(self, request: Request, candidates: Sequence[Worker]) -> bool:
        """Return whether `request`, for which own `candidates` stand ready, may be hosted in their place."""
        if request.pinned is not None or any(worker.hosted is not None for worker in candidates):
            return False
        if not self._registry.has_hosted():
            return False
        if (model := self._overflow.model) is None:
            return bool(self._overflow.filter_hosted(request, self._candidates(request)))
        tenancy, clearance = request.caller.policy, request.clearance
        return (
            model != request.model
            and (tenancy is None or tenancy.allows_model(model))
            and (clearance is None or clearance.may_show(model))
            and bool(self._overflow.filter_hosted(request, self._registry.candidates(model)))
        )

    def _expected_wait_s(self, candidates: Sequence[Worker], prompt: RoutingRequest) -> float:
        """Return the seconds until a prefill would begin at one of `candidates`."""
        free = self.filter_with_capacity(candidates, prompt) if self._limits.on else candidates
        if not free:
            return self._waiting.estimate_drain_s()
        now = self._selector.ledger.clock()
        return min(worker.load.queue_s(now) for worker in free)

    def _leave_own(self, request: Request, reason: str) -> Sequence[Worker]:
        """Return the hosted workers that answer in place of own ones. Raises QueueTooLongError where another
        model does."""
        request.routing.overflow = reason
        if self._overflow.model is not None:
            raise QueueTooLongError(reason)
        return self.ready_workers(request)

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
            and worker.hosted is None  # nobody pays for an answer twice
            and worker.answers_alone
            and worker.name not in request.routing.failed_workers
            and not worker.breaker.tripped
            and worker.models[:1] == models  # the body names one of them if it named none
        ]
        free = self.filter_with_capacity(others, prompt) if self._limits.on else others
        return self.assign_from(request, prompt, free) if free else None

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

    def ready_workers(self, request: Request) -> Sequence[Worker]:
        """Return the workers that may answer `request`, at their limits or not."""
        found = self._candidates(request)
        usable = self._pairing.filter_usable(request.model, found, tenancy=request.caller.policy)
        ready = self._weights.filter_fresh(request, usable)
        if request.pinned is not None:
            return tuple(worker for worker in ready if request.pinned in (worker.name, worker.url))
        if request.endpoint.by_surface:
            ready = tuple(worker for worker in ready if worker.may_offer(request.path)) or ready
        if self._registry.has_hosted():
            ready = self._overflow.choose_tier(request, ready)
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
        if self._registry.has_hosted() and (
            refusal := self._overflow.explain_refusal(request, self._candidates(request))
        ):
            return refusal
        if self._candidates(request) and (refusal := self._stale_weights_error(request)) is not None:
            return refusal
        if request.caller.policy is not None and request.caller.policy.pools:
            return self._no_pool_candidate_error(request.caller.policy.pools, model)
        return NoWorkersError(explain_no_candidate(self._registry, model))

    def _no_pool_candidate_error(self, pools: frozenset[str], model: str | None) -> GatewayError:
        mine = [worker for worker in self._registry if not pools.isdisjoint(worker.pools)]
        if model is not None and mine and all(each.models and model not in each.models for each in mine):
            return ModelNotServedError(model)
        for_model = f" for the model {model!r}" if model else ""
        return NoWorkersError(
            f"no worker of the tenant's pools can answer now{for_model}{explain_unavailable(mine)}"
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

    def filter_with_capacity(self, candidates: Sequence[Worker], prompt: RoutingRequest) -> Sequence[Worker]:
        """Return the `candidates` that are below their limits and reserved for nobody else."""
        free = self._limits.filter_with_capacity(candidates, prompt)
        free = self._pairing.filter_usable(prompt.model, free, prompt)
        reserved = self._waiting.reserved
        return [worker for worker in free if worker not in reserved] if reserved else free

    def needs_pair(self, candidates: Sequence[Worker]) -> bool:
        """Return True if a prefill and a decode worker are chosen together."""
        return self._pairing.has_decode_only(candidates)

    def assign_from(
        self,
        request: Request,
        prompt: RoutingRequest,
        candidates: Sequence[Worker],
        choice: WorkerChoice | None = None,
    ) -> WorkerAssignment:
        """Take a place at the worker of `choice`, or of the policy's choice among `candidates`."""
        if request.journal.is_erased:  # policies keep them
            prompt.text, prompt.session = "", None
        if choice is None:
            if self.needs_pair(candidates):
                return self._pairing.assign_pair(
                    request, prompt, self._filter_in_time(request, prompt, candidates)
                )
            choice = self._choose_worker(request, prompt, candidates)
        self._selector.mark_selected(choice)
        request.journal.add("select", choice)
        lease = self._selector.reserve(choice)
        self._breakers.record_sent(choice.worker, lease)
        return WorkerAssignment(choice, lease)

    def _choose_worker(
        self, request: Request, prompt: RoutingRequest, candidates: Sequence[Worker]
    ) -> WorkerChoice:
        policy = self._selector.policy_for_model(prompt.model)
        return self._selector.score_candidates(
            prompt, self._filter_in_time(request, prompt, candidates), policy
        )

    def _filter_in_time(
        self, request: Request, prompt: RoutingRequest, candidates: Sequence[Worker]
    ) -> Sequence[Worker]:
        """Return the `candidates` that are expected to keep the request's objective, if there are any."""
        if request.ttft_s is None:
            return candidates
        left = request.ttft_s - request.journal.elapsed_s()
        expected = self._selector.expected_ttft_s(prompt, candidates)
        return [worker for worker, s in zip(candidates, expected, strict=True) if s <= left] or candidates

    def _check_ttft_objective(
        self, request: Request, ttft_s: float, prompt: RoutingRequest, candidates: Sequence[Worker]
    ) -> None:
        """Note, or if so configured refuse, a request whose first token is late on every worker."""
        expected = min(self._selector.expected_ttft_s(prompt, candidates))
        if self._limits.on and not self.filter_with_capacity(candidates, prompt):
            expected += self._waiting.estimate_drain_s()
        late = request.journal.elapsed_s() + expected - ttft_s
        if late <= 0:
            return
        request.journal.add("objective", ttft_s=ttft_s, expected_s=round(expected, 6), missed=True)
        if self._config.enforce_ttft:
            message = f"the first token is expected in {expected:.3g} s, not within {ttft_s:g} s"
            raise self._waiting.refusal_error("ttft_unreachable", message, max(1, ceil(late)))

    def _on_fleet_change(self, _: Worker) -> None:
        """End waits for workers that are gone or whose model has a fallback."""
        self._limits.refresh_limits(self._registry)
        self._waiting.set_limited(self._limits.on)
        self._waiting.end_hopeless(self._hopeless_error)
        self._waiting.serve()

    def _hopeless_error(self, request: Request) -> GatewayError | None:
        """Return the error for a request whose workers are gone for good, None for others."""
        if self.ready_workers(request) or self._may_return(request):
            return None
        return self._no_candidate_error(request)

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
