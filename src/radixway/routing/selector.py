"""The selector: from candidates to one worker, with every candidate's cost for the explanation."""

import random
import time
from collections.abc import Callable, Sequence
from math import exp, inf, isfinite
from typing import Any

import msgspec

from radixway.core.config import RoutingConfig
from radixway.routing.block_index import BlockIndex
from radixway.routing.load_ledger import LoadLedger, WorkerLease
from radixway.routing.policies import Policy, Scores, View, make_policy
from radixway.routing.prefix_matches import (
    NO_MATCHES,
    PrefixLookup,
    PrefixMatches,
    floor_to_engine_blocks,
)
from radixway.routing.routing_request import RoutingRequest
from radixway.routing.worker import Worker

_ASSUMED_SHARE = 0.9
"""Share of a worker's KV cache assumed to hold earlier prompts."""
_ROOM_SHARE = 0.8
"""Share of a worker's KV cache that prompts in flight may fill before requests wait for room: answers grow.
Found by simulation; at 0.7 and 0.9 the time to first token is some 10 % longer (decision 0024)."""
_COUNTED_SHARE = 0.5
"""Share of that from which on their blocks are counted, because prompts may share them."""
_ASSUMED_TOKENS = 2**20
"""Assumed cache size of a worker that does not report one."""


class WorkerChoice(msgspec.Struct, gc=False):
    """A worker, and what stood against it."""

    worker: Worker
    policy: str
    request: RoutingRequest
    candidates: Sequence[Worker]
    scores: Scores
    matches: PrefixMatches

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens that the worker finds in some tier, as far as is known.

        Whole blocks, the engine's and the index's, of which the one with the last token is never taken: that
        one has to be computed.
        """
        return _count_cached_tokens(self.request, self.worker, self.matches)

    def compact(self) -> int:
        """The request is over: leave nothing for the garbage collector. See `RoutingRequest.compact`."""
        self.scores.costs, self.scores.parts = tuple(self.scores.costs), tuple(self.scores.parts)
        return self.request.compact()

    def explain(self) -> dict[str, Any]:
        """Return the fields for the journal. A candidate that the policy left out costs None."""
        scores = self.scores
        candidates: dict[str, dict[str, float | None]] = {}
        for index, worker in enumerate(self.candidates):
            cost = scores.costs[index]
            candidates[worker.name] = {"cost": _rounded(cost) if isfinite(cost) else None}
            if scores.parts:
                values = map(_rounded, scores.parts[index])
                candidates[worker.name] |= dict(zip(scores.terms, values, strict=True))
        worker = self.worker
        explanation: dict[str, Any] = {
            "worker": worker.name,
            "sources": list(worker.sources),
            "policy": self.policy,
        }
        if scores.reason is not None:
            explanation["reason"] = scores.reason
        if self.request.tokens:
            explanation |= {"prompt": self.request.explain(), "expected_cached_tokens": self.cached_tokens}
        return explanation | {"candidates": candidates, "why": self._candidate_reasons()}

    def _candidate_reasons(self) -> dict[str, str]:
        """Explain each candidate in a word: `chosen`, `costlier`, `equal` (but chosen more recently before),
        `left_out` by the policy, or `not_drawn` although it costs less.
        """
        costs = self.scores.costs
        paid = costs[self.candidates.index(self.worker)]
        why = {}
        for worker, cost in zip(self.candidates, costs, strict=True):
            if worker is self.worker:
                why[worker.name] = "chosen"
            elif not isfinite(cost):
                why[worker.name] = "left_out"
            else:
                why[worker.name] = "equal" if cost == paid else "costlier" if cost > paid else "not_drawn"
        return why


class Selector:
    """Applies a model's policy and keeps what policies need to know. Synchronous and free of I/O.

    `select_worker` chooses and changes only the order of turns; `reserve` takes the place, and the lease it
    returns gives it back. The lowest cost wins, of equals the one chosen least recently. With a temperature T
    the worker is drawn instead, with probability ~ exp(-c / T), the finite costs scaled to c in [0, 1].
    """

    def __init__(
        self,
        config: RoutingConfig,
        *,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self._rng = rng or random.Random()
        self._default = make_policy(config.policy, self._rng)
        self._by_model: dict[str | None, Policy] = {
            model: make_policy(policy, self._rng) for model, policy in config.model_policies.items()
        }
        self._policies = (self._default, *self._by_model.values())
        self.index = BlockIndex()
        self.ledger = LoadLedger(clock)
        self._counts_blocks = config.max_kv_share is not None
        self._shortlist = config.shortlist
        self._many: Sequence[Worker] = ()
        """The latest long list of candidates, by slot and as a mask."""
        self._many_by_slot: dict[int, Worker] = {}
        self._many_mask = 0
        self._turn = 0

    def add_worker(self, worker: Worker) -> None:
        """A worker has come; it may be a candidate from now on."""
        if worker.slot < 0:
            worker.slot = self.index.add_slot()
            self.ledger.rates.add_load(worker.load)

    def remove_worker(self, worker: Worker) -> None:
        """A worker has gone for good."""
        if worker.slot >= 0:
            self.index.remove_slot(worker.slot)
            self.ledger.rates.remove_load(worker.load)
            worker.slot = -1
        for policy in self._policies:
            policy.forget(worker)

    def end_session(self, session: str) -> bool:
        """A session has ended: no policy keeps its worker any longer. Whether one did."""
        return sum(policy.finish(session) for policy in self._policies) > 0

    def clear_texts(self) -> int:
        """Let go of all prompts' texts; how many stretches of them there were."""
        return sum(policy.forget_texts() for policy in self._policies)

    def policy_for_model(self, model: str | None) -> Policy:
        """The policy for requests that ask for `model`."""
        return self._by_model.get(model, self._default)

    def select_worker(self, request: RoutingRequest, candidates: Sequence[Worker]) -> WorkerChoice:
        """The best of `candidates` (at least one), by the policy of the request's model."""
        choice = self.score_candidates(request, candidates, self.policy_for_model(request.model))
        self._turn += 1
        choice.worker.picked = self._turn
        return choice

    def score_candidates(
        self, request: RoutingRequest, candidates: Sequence[Worker], policy: Policy
    ) -> WorkerChoice:
        """The best of `candidates` (at least one) by `policy`, for who may choose otherwise after all."""
        now, matches = self.ledger.clock(), NO_MATCHES
        if policy.reads_blocks:
            found = self.index.lookup_prefix(request.blocks, now)
            if len(candidates) > self._shortlist:
                candidates = self._prefilter_candidates(candidates, found)
                matches = found.matches(_slot_mask(candidates))
            else:
                matches = found.matches()
        scores = policy.score(request, candidates, View(matches, now))
        worker = self._draw_candidate(candidates, scores.costs, policy.temperature)
        return WorkerChoice(worker, policy.name, request, candidates, scores, matches)

    def redraw_worker(self, choice: WorkerChoice) -> None:
        """Choose again by the costs of `choice`, which were changed."""
        temperature = self.policy_for_model(choice.request.model).temperature
        choice.worker = self._draw_candidate(choice.candidates, choice.scores.costs, temperature)

    def mark_selected(self, choice: WorkerChoice) -> None:
        """Mark the chosen worker as used: of equals it is the last one now."""
        self._turn += 1
        choice.worker.picked = self._turn

    def uncached_tokens(self, request: RoutingRequest, candidates: Sequence[Worker]) -> list[int]:
        """Prompt tokens that each of `candidates` would have to prefill, as far as is known."""
        matches = self.index.match_prefix(request.blocks, self.ledger.clock())
        return [request.tokens - _count_cached_tokens(request, worker, matches) for worker in candidates]

    def expected_ttft_s(self, request: RoutingRequest, candidates: Sequence[Worker]) -> list[float]:
        """Seconds until the first token at each of `candidates`: prefills before this one, then its own."""
        now, expected = self.ledger.clock(), []
        for worker, tokens in zip(candidates, self.uncached_tokens(request, candidates), strict=True):
            rate, queue_s = worker.load.rate, worker.load.queue_s(now)
            expected.append(queue_s + rate.overhead_s + tokens * rate.seconds_per_token)
        return expected

    def reserve(self, choice: WorkerChoice, *, count_blocks: bool = False) -> WorkerLease:
        """Take a place at the chosen worker, and expect the prompt's prefix to be there from now on.

        `count_blocks`: whether anything but the policy reads the blocks in use there.
        """
        request, worker = choice.request, choice.worker
        policy = self.policy_for_model(request.model)
        policy.routed(request, worker, self.ledger.clock())
        if policy.reads_blocks:
            self.assume_cached(choice)
        uncached = request.tokens - choice.cached_tokens
        counted = count_blocks or policy.counts_blocks or self._counts_blocks
        if policy.counts_room and (kv_tokens := worker.kv_tokens) is not None:
            load = worker.load
            load.room_tokens = room_tokens = _ROOM_SHARE * kv_tokens
            counted = counted or load.prompt_tokens + request.tokens > _COUNTED_SHARE * room_tokens
        return self.ledger.reserve(worker, request, uncached, count_blocks=counted)

    def assume_cached(self, choice: WorkerChoice) -> None:
        """Record that the chosen worker will hold the prompt's blocks."""
        request, worker = choice.request, choice.worker
        if request.blocks and worker.slot >= 0:
            known, now = choice.matches.device.get(worker.slot, 0), self.ledger.clock()
            capacity = (worker.kv_tokens or _ASSUMED_TOKENS) // request.block_tokens
            self.index.set_capacity(worker.slot, int(_ASSUMED_SHARE * capacity))
            tokenized = request.tokenized
            self.index.predict_blocks(worker.slot, request.blocks, now, tokenized=tokenized, known=known)

    def _prefilter_candidates(self, candidates: Sequence[Worker], found: PrefixLookup) -> Sequence[Worker]:
        """Those that hold most of the prompt, at most a quarter of the list, and others in turn.

        Looking at all of a hundred workers finds hardly anything better (docs/evaluations/routing.md).
        """
        if candidates is not self._many:
            self._many, self._many_by_slot = candidates, {worker.slot: worker for worker in candidates}
            self._many_mask = _slot_mask(candidates)
        listed = [self._many_by_slot[slot] for slot in found.deepest(self._shortlist // 4, self._many_mask)]
        start = self._turn * self._shortlist % len(candidates)
        others = candidates[start : start + self._shortlist - len(listed)]
        return listed + [worker for worker in others if worker not in listed]

    def _draw_candidate(
        self, candidates: Sequence[Worker], costs: Sequence[float], temperature: float
    ) -> Worker:
        lowest = min(costs)
        if (
            temperature > 0
            and (spread := max((cost for cost in costs if cost < inf), default=inf) - lowest) > 0
        ):
            weights = [exp((lowest - cost) / spread / temperature) for cost in costs]
            return self._rng.choices(candidates, weights)[0]
        if costs.count(lowest) == 1:
            return candidates[costs.index(lowest)]
        tied = [worker for worker, cost in zip(candidates, costs, strict=True) if cost == lowest]
        return min(tied, key=_least_recently_picked)


def _count_cached_tokens(request: RoutingRequest, worker: Worker, matches: PrefixMatches) -> int:
    size = request.block_tokens
    matched = matches.disk.get(worker.slot, 0) * size
    if matched < request.tokens:
        return matched
    return floor_to_engine_blocks(max(0, request.tokens - 1), worker.block_tokens, size)


def _least_recently_picked(worker: Worker) -> int:
    return worker.picked


def _slot_mask(workers: Sequence[Worker]) -> int:
    mask = 0
    for worker in workers:
        mask |= 1 << worker.slot
    return mask


def _rounded(value: float) -> float:
    return round(value, 6)
