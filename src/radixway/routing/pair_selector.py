"""Chooses a prefill/decode pair for a request, or one worker that does both.

The blocks of a prompt are known separately at each of the two: every worker has a slot of its own in the
index, and no policy ever scores workers of both roles in one list.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from radixway.core.config import DisaggregationConfig
from radixway.routing.load_ledger import WorkerLease
from radixway.routing.policies.disaggregated import LeastKvInUse, PrefillSoonest
from radixway.routing.routing_request import RoutingRequest
from radixway.routing.selector import Selector, WorkerChoice
from radixway.routing.worker import Worker


@dataclass(slots=True)
class PairCosts:
    """Expected costs of a prefill by the worker that answers and of one elsewhere; None where impossible."""

    uncached_tokens: int | None = None
    """Tokens to prefill at the best worker that answers alone."""
    alone_s: float | None = None
    """Until the first token there, the slowdown of its running answers counted in."""
    elsewhere_s: float | None = None
    """Until the prompt is prefilled at the best prefill worker."""


@dataclass(slots=True)
class PairChoice:
    """The worker that answers, the one that prefills for it if any, and why."""

    answers: WorkerChoice
    prefills: WorkerChoice | None
    """None: the worker that answers does."""
    reason: str
    weighed: PairCosts
    considered: WorkerChoice | None = None
    """The best prefill elsewhere, where there was one, taken or not."""

    def compact(self) -> int:
        """The request is over: see `RoutingRequest.compact`."""
        choices = (self.answers, self.prefills, self.considered)
        return sum(choice.compact() for choice in choices if choice is not None)

    def explain(self) -> dict[str, Any]:
        """Return the journal's fields: both lists of candidates with their costs, and what decided."""
        explanation = self.answers.explain()
        explanation["prefill"] = {
            "worker": self.prefills.worker.name if self.prefills is not None else self.answers.worker.name,
            "elsewhere": self.prefills is not None,
            "reason": self.reason,
            "uncached_tokens": self.weighed.uncached_tokens,
            "expected_alone_s": _rounded(self.weighed.alone_s),
            "expected_elsewhere_s": _rounded(self.weighed.elsewhere_s),
        }
        if self.considered is not None:
            elsewhere = self.considered.explain()
            explanation["prefill"]["policy"] = elsewhere["policy"]
            explanation["prefill"]["candidates"] = elsewhere["candidates"]
            explanation["prefill"]["why"] = elsewhere["why"]
            if self.prefills is not None:
                explanation["expected_cached_tokens"] = self.considered.cached_tokens
        return explanation


class PairSelector:
    """Picks pairs and takes their places. Synchronous and free of I/O, as the selector it works with."""

    def __init__(self, selector: Selector, config: DisaggregationConfig) -> None:
        self._selector = selector
        self._config = config
        self._prefills = PrefillSoonest()
        self._decodes = LeastKvInUse()

    @staticmethod
    def filter_usable(
        model: str | None, candidates: Sequence[Worker], prefillers: Sequence[Worker]
    ) -> Sequence[Worker]:
        """Return the `candidates` that answer alone, or for which one of `prefillers` can prefill `model`."""
        return tuple(
            worker
            for worker in candidates
            if worker.answers_alone or any(_is_compatible(model, worker, other) for other in prefillers)
        )

    def select_pair(
        self,
        request: RoutingRequest,
        candidates: Sequence[Worker],
        prefillers: Sequence[Worker],
        *,
        alone_reason: str | None = None,
    ) -> PairChoice:
        """The best of `candidates`, which may answer, with one of `prefillers` if that is better than alone.

        At least one of `candidates` is usable with `prefillers`. `alone_reason`: why the request should not
        be split if a worker can answer alone.
        """
        alone = self._select_alone(request, candidates)
        splits = alone is None or alone_reason is None
        pair = self._select_pair(request, candidates, prefillers) if splits else None
        weighed = self._estimate_costs(request, alone, pair)
        if pair is None:
            assert alone is not None, "no candidate answers alone, and none has a prefill worker"
            choice = PairChoice(alone, None, alone_reason or "no prefill worker has room", weighed)
        elif alone is None:
            choice = PairChoice(*pair, "no worker answers alone", weighed, pair[1])
        elif (reason := self._why_alone(request, weighed)) is not None:
            choice = PairChoice(alone, None, reason, weighed, pair[1])
        else:
            reason = "sooner elsewhere" if self._config.by_expected_time else "many uncached tokens"
            choice = PairChoice(*pair, reason, weighed, pair[1])
        self._selector.mark_selected(choice.answers)
        if choice.prefills is not None:
            self._selector.mark_selected(choice.prefills)
        return choice

    def reserve(self, choice: PairChoice) -> tuple[WorkerLease, WorkerLease | None]:
        """Places for the worker that answers and the one that prefills for it, if one does.

        The first is held to the end of the answer, the second until the prefill's. Release both, whatever
        becomes of them.
        """
        answers, prefills = choice.answers, choice.prefills
        if prefills is None:
            return self._selector.reserve(answers, count_blocks=True), None
        request, ledger = answers.request, self._selector.ledger
        self._selector.assume_cached(prefills)
        if answers.worker.answers_alone:  # the others keep no prefixes
            self._selector.assume_cached(answers)
        # Its answer comes when the prefill is over, so it tells of it as a stream does.
        telling = msgspec.structs.replace(request, stream=True)
        uncached = request.tokens - prefills.cached_tokens
        prefill = ledger.reserve(prefills.worker, telling, uncached, count_blocks=False)
        return ledger.reserve(answers.worker, request, prefills=False), prefill

    def _select_alone(self, request: RoutingRequest, candidates: Sequence[Worker]) -> WorkerChoice | None:
        able = [worker for worker in candidates if worker.answers_alone]
        return (
            self._selector.score_candidates(request, able, self._selector.policy_for_model(request.model))
            if able
            else None
        )

    def _select_pair(
        self, request: RoutingRequest, candidates: Sequence[Worker], prefillers: Sequence[Worker]
    ) -> tuple[WorkerChoice, WorkerChoice] | None:
        decoders = [
            worker
            for worker in candidates
            if worker.role == "decode"
            and any(_is_compatible(request.model, worker, other) for other in prefillers)
        ]
        if not decoders:
            return None
        decode = self._selector.score_candidates(request, decoders, self._decodes)
        fitting = [worker for worker in prefillers if _is_compatible(request.model, decode.worker, worker)]
        return decode, self._selector.score_candidates(request, fitting, self._prefills)

    def _estimate_costs(
        self,
        request: RoutingRequest,
        alone: WorkerChoice | None,
        pair: tuple[WorkerChoice, WorkerChoice] | None,
    ) -> PairCosts:
        now, weighed = self._selector.ledger.clock(), PairCosts()
        if alone is not None:
            load = alone.worker.load
            weighed.uncached_tokens = self._selector.uncached_tokens(request, [alone.worker])[0]
            prefill_s = load.rate.prefill_s(weighed.uncached_tokens)
            slowdown_s = self._config.slowdown * prefill_s * load.decoding(now)
            weighed.alone_s = load.queue_s(now) + prefill_s + slowdown_s
        if pair is not None:
            prefill = pair[1]
            weighed.elsewhere_s = prefill.scores.costs[prefill.candidates.index(prefill.worker)]
        return weighed

    def _why_alone(self, request: RoutingRequest, weighed: PairCosts) -> str | None:
        config, uncached = self._config, weighed.uncached_tokens or 0
        few = uncached < config.min_uncached_tokens
        if few and (not request.tokens or uncached < config.max_uncached_share * request.tokens):
            return "few uncached tokens"
        if config.by_expected_time and (weighed.alone_s or 0.0) <= (weighed.elsewhere_s or 0.0):
            return "no sooner elsewhere"
        return None


def _is_compatible(model: str | None, decoder: Worker, prefiller: Worker) -> bool:
    """Return whether the decoder can take the prefiller's KV: the same dialect and model."""
    if decoder.dialect != prefiller.dialect:
        return False
    return model in prefiller.models or set(decoder.models[:1]) <= set(prefiller.models)


def _rounded(seconds: float | None) -> float | None:
    return round(seconds, 6) if seconds is not None else None
