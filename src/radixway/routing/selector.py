"""The selector: from candidates to one worker, with every candidate's cost kept for the explanation."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, inf, isfinite
from typing import Any

from radixway.config import RoutingSection
from radixway.routing.block_index import NO_MATCHES, BlockIndex, Matches
from radixway.routing.ledger import Lease, Ledger
from radixway.routing.policies import Policy, Scores, View, make_policy
from radixway.routing.request import RoutingRequest
from radixway.routing.worker import Worker


@dataclass(frozen=True, slots=True)
class Choice:
    """A worker, and what stood against it."""

    worker: Worker
    policy: str
    request: RoutingRequest
    candidates: Sequence[Worker]
    scores: Scores
    """Beside `candidates`."""
    matches: Matches

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens that the worker holds in some tier, as far as is known."""
        blocks = self.matches.disk.get(self.worker.slot, 0)
        return min(blocks * self.request.block_tokens, max(0, self.request.tokens - 1))

    def explain(self) -> dict[str, Any]:
        """For the journal. A candidate that the policy left out costs None."""
        scores, told = self.scores, {}
        for index, worker in enumerate(self.candidates):
            cost = scores.costs[index]
            told[worker.name] = {"cost": _rounded(cost) if isfinite(cost) else None}
            told[worker.name] |= {name: _rounded(values[index]) for name, values in scores.terms.items()}
        explanation: dict[str, Any] = {"worker": self.worker.name, "policy": self.policy}
        if scores.reason is not None:
            explanation["reason"] = scores.reason
        if self.request.tokens:
            explanation |= {
                "prompt_tokens": self.request.tokens,
                "expected_cached_tokens": self.cached_tokens,
            }
        return explanation | {"candidates": told}


class Selector:
    """Applies a model's policy and keeps what policies need to know. Synchronous and free of I/O.

    `pick` chooses and changes nothing but whose turn it is; `reserve` takes the place, which the lease it
    returns gives back. The lowest cost wins, of equals the one chosen least recently. With a temperature T
    the worker is drawn instead, with probability ~ exp(-c / T), the finite costs scaled to c in [0, 1].
    """

    def __init__(
        self,
        config: RoutingSection,
        *,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self._rng = rng or random.Random()
        self._default = make_policy(config.policy, self._rng)
        self._by_model: dict[str | None, Policy] = {
            model: make_policy(policy, self._rng) for model, policy in config.model_policies.items()
        }
        self.index = BlockIndex()
        self.ledger = Ledger(clock)
        self._turn = 0

    def enroll(self, worker: Worker) -> None:
        """A worker has come; it may be a candidate from now on."""
        if worker.slot < 0:
            worker.slot = self.index.enroll()

    def forget(self, worker: Worker) -> None:
        """A worker has gone for good."""
        if worker.slot >= 0:
            self.index.dismiss(worker.slot)
            worker.slot = -1
        for policy in (self._default, *self._by_model.values()):
            policy.forget(worker)

    def policy(self, model: str | None) -> Policy:
        """The policy for requests that ask for `model`."""
        return self._by_model.get(model, self._default)

    def pick(self, request: RoutingRequest, candidates: Sequence[Worker]) -> Choice:
        """The best of `candidates` (at least one)."""
        policy, now = self.policy(request.model), self.ledger.clock()
        matches = self.index.match(request.blocks, now) if policy.reads_blocks else NO_MATCHES
        scores = policy.score(request, candidates, View(matches, self.ledger, now))
        worker = self._draw(candidates, scores.costs, policy.temperature)
        self._turn += 1
        worker.picked = self._turn
        return Choice(worker, policy.name, request, candidates, scores, matches)

    def reserve(self, choice: Choice) -> Lease:
        """Take a place at the chosen worker, and expect the prompt's prefix to be there from now on."""
        request, worker = choice.request, choice.worker
        policy, now = self.policy(request.model), self.ledger.clock()
        policy.routed(request, worker, now)
        if request.blocks and worker.slot >= 0:
            self.index.sent(worker.slot, request.blocks, now, told=request.tokenized)
        return self.ledger.reserve(worker, request, request.tokens - choice.cached_tokens)

    def _draw(self, candidates: Sequence[Worker], costs: Sequence[float], temperature: float) -> Worker:
        lowest = min(costs)
        if temperature > 0 and (spread := max(cost for cost in costs if cost < inf) - lowest) > 0:
            weights = [exp((lowest - cost) / (spread * temperature)) for cost in costs]
            return self._rng.choices(candidates, weights)[0]
        if costs.count(lowest) == 1:
            return candidates[costs.index(lowest)]
        tied = [worker for worker, cost in zip(candidates, costs, strict=True) if cost == lowest]
        return min(tied, key=_least_recently_picked)


def _least_recently_picked(worker: Worker) -> int:
    return worker.picked


def _rounded(value: float) -> float:
    return round(value, 6)
