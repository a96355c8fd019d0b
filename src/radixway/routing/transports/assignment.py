"""The places that a request holds at one worker, or at a prefill/decode pair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from radixway.core.config import RoutingConfig
from radixway.core.pipeline import Request, TenantPolicy
from radixway.core.telemetry import MetricsRegistry
from radixway.routing import RoutingRequest, Selector, Worker, WorkerChoice, WorkerLease, WorkerRegistry
from radixway.routing.fleet_breakers import FleetBreakers
from radixway.routing.pair_selector import PairSelector
from radixway.routing.transports.kv_transfer import explain_unsplit
from radixway.routing.worker_registry import WorkerLimits


class WorkerAssignment(msgspec.Struct, eq=False):
    """A worker for a request, and what the request takes up there."""

    choice: WorkerChoice
    lease: WorkerLease
    prefill: WorkerAssignment | None = None
    """The prefill worker, if it is another one."""

    @property
    def worker(self) -> Worker:
        return self.choice.worker

    def release(self) -> None:
        """Give all of it back."""
        self.lease.release()
        if self.prefill is not None:
            self.prefill.release()


class PairAssigner:
    """Finds the pair, and takes both places. Has nothing to do where every worker does both."""

    def __init__(
        self,
        registry: WorkerRegistry,
        selector: Selector,
        breakers: FleetBreakers,
        limits: WorkerLimits,
        metrics: MetricsRegistry,
        config: RoutingConfig,
    ) -> None:
        self._registry = registry
        self._breakers = breakers
        self._limits = limits
        self._metrics = metrics
        self._pairs = PairSelector(selector, config.disaggregation)

    def has_decode_only(self, candidates: Sequence[Worker]) -> bool:
        """Return True if one of `candidates` decodes what others have prefilled."""
        return self._registry.has_decode_only() and any(worker.role == "decode" for worker in candidates)

    def filter_usable(
        self,
        model: str | None,
        candidates: Sequence[Worker],
        prompt: RoutingRequest | None = None,
        *,
        tenancy: TenantPolicy | None = None,
    ) -> Sequence[Worker]:
        """Return the `candidates` that need no pair, or for which a ready worker can prefill.

        With `prompt`: prefill workers with capacity for it. With `tenancy`: those that the tenant may use.
        """
        if not self._registry.has_decode_only() or all(worker.answers_alone for worker in candidates):
            return candidates
        prefillers = _filter_by_tenancy(self._registry.prefillers(None), tenancy)
        if prompt is not None:
            prefillers = tuple(self._limits.filter_with_capacity(prefillers, prompt))
        return self._pairs.filter_usable(model, candidates, prefillers)

    def assign_pair(
        self, request: Request, prompt: RoutingRequest, candidates: Sequence[Worker]
    ) -> WorkerAssignment:
        """Places at one of `candidates`, which are usable, and at a prefill worker if that is better."""
        dialects = {worker.dialect for worker in candidates if worker.role == "decode"}
        for prefillers in self._prefillers(request, prompt):
            if usable := self._pairs.filter_usable(request.model, candidates, prefillers):
                break
        choice = self._pairs.select_pair(
            prompt, usable, prefillers, alone_reason=explain_unsplit(request, dialects)
        )
        request.journal.add("select", choice)
        where = "alone" if choice.prefills is None else "elsewhere"
        self._metrics.prefills(where, choice.reason).inc()
        lease, prefill_lease = self._pairs.reserve(choice)
        self._breakers.record_sent(choice.answers.worker, lease)
        prefill = None
        if choice.prefills is not None and prefill_lease is not None:
            self._breakers.record_sent(choice.prefills.worker, prefill_lease)
            prefill = WorkerAssignment(choice.prefills, prefill_lease)
        return WorkerAssignment(choice.answers, lease, prefill)

    def _prefillers(self, request: Request, prompt: RoutingRequest) -> Iterator[Sequence[Worker]]:
        """Return healthy prefill workers; if none, any, for requests that need one."""
        ready = _filter_by_tenancy(self._registry.prefillers(None), request.caller.policy)
        untried = tuple(worker for worker in ready if worker.name not in request.routing.failed_workers)
        yield self._limits.filter_with_capacity(self._breakers.filter_admitted(untried), prompt)
        yield self._limits.filter_with_capacity(ready, prompt)
        yield ready


def _filter_by_tenancy(workers: tuple[Worker, ...], tenancy: TenantPolicy | None) -> tuple[Worker, ...]:
    if tenancy is None or not tenancy.restricts_workers:
        return workers
    return tuple(worker for worker in workers if tenancy.may_use_worker(worker.pools, worker.models))
