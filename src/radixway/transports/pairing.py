"""Places for requests where some workers only prefill and others only decode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from radixway.config import RoutingSection
from radixway.pipeline import Request, Tenancy
from radixway.routing import Breakers, Limits, Pairs, Reads, Registry, RoutingRequest, Selector, Worker
from radixway.telemetry import Metrics
from radixway.transports.place import Place
from radixway.transports.transfer import why_whole


class Pairing:
    """Finds the pair, and takes both places. Has nothing to do where every worker does both."""

    def __init__(
        self,
        registry: Registry,
        selector: Selector,
        breakers: Breakers,
        limits: Limits,
        metrics: Metrics,
        config: RoutingSection,
    ) -> None:
        self._registry = registry
        self._breakers = breakers
        self._limits = limits
        self._metrics = metrics
        self._pairs = Pairs(selector, config.disaggregation)

    def concerns(self, candidates: Sequence[Worker]) -> bool:
        """Whether one of `candidates` decodes what others have prefilled."""
        return self._registry.some_only_decode() and any(worker.role == "decode" for worker in candidates)

    def reads(self, model: str | None) -> Reads:
        """What has to be read of a prompt for which there may be a pair."""
        return self._pairs.reads(model)

    def usable(
        self,
        model: str | None,
        candidates: Sequence[Worker],
        prompt: RoutingRequest | None = None,
        *,
        tenancy: Tenancy | None = None,
    ) -> Sequence[Worker]:
        """Those of `candidates` that need nobody, or whom somebody ready can prefill for.

        With `prompt`: somebody who has room for it. With `tenancy`: somebody that the tenant may use.
        """
        if not self._registry.some_only_decode() or all(worker.answers_alone for worker in candidates):
            return candidates
        prefillers = _within(self._registry.prefillers(None), tenancy)
        if prompt is not None:
            prefillers = tuple(self._limits.with_room(prefillers, prompt))
        return self._pairs.usable(model, candidates, prefillers)

    def take(self, request: Request, prompt: RoutingRequest, candidates: Sequence[Worker]) -> Place:
        """Places at one of `candidates`, which are usable, and at a prefill worker if that is better."""
        whole = why_whole(request, {worker.dialect for worker in candidates if worker.role == "decode"})
        for prefillers in self._prefillers(request, prompt):
            if usable := self._pairs.usable(request.model, candidates, prefillers):
                break
        choice = self._pairs.pick(prompt, usable, prefillers, whole=whole)
        request.journal.add("select", choice)
        self._metrics.prefilled(elsewhere=choice.prefills is not None, reason=choice.reason)
        lease, prefill_lease = self._pairs.reserve(choice)
        self._breakers.sent(choice.answers.worker, lease)
        prefill = None
        if choice.prefills is not None and prefill_lease is not None:
            self._breakers.sent(choice.prefills.worker, prefill_lease)
            prefill = Place(choice.prefills, prefill_lease)
        return Place(choice.answers, lease, prefill)

    def _prefillers(self, request: Request, prompt: RoutingRequest) -> Iterator[Sequence[Worker]]:
        """Who may prefill: those against whom nothing speaks; else, for who cannot do without, any."""
        ready = _within(self._registry.prefillers(None), request.tenancy)
        untried = tuple(worker for worker in ready if worker.name not in request.tried)
        yield self._limits.with_room(self._breakers.admitted(untried), prompt)
        yield self._limits.with_room(ready, prompt)
        yield ready


def _within(workers: tuple[Worker, ...], tenancy: Tenancy | None) -> tuple[Worker, ...]:
    """Those that the tenant may use."""
    if tenancy is None or not tenancy.confines:
        return workers
    return tuple(worker for worker in workers if tenancy.may_use(worker.pools, worker.models))
