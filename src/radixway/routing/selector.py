"""The selector: from candidates to one worker, with every candidate's cost kept for the explanation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from radixway.config import RoutingSection
from radixway.pipeline import Request
from radixway.routing.policies import Policy, make_policy
from radixway.routing.worker import Worker


@dataclass(frozen=True, slots=True)
class Choice:
    """A worker, and what stood against it."""

    worker: Worker
    policy: str
    candidates: Sequence[Worker]
    costs: Sequence[float]
    """Beside `candidates`."""

    def explain(self) -> dict[str, object]:
        """For the journal. A candidate that the policy left out costs None."""
        return {
            "worker": self.worker.name,
            "policy": self.policy,
            "costs": {
                worker.name: cost if isfinite(cost) else None
                for worker, cost in zip(self.candidates, self.costs, strict=True)
            },
        }


class Selector:
    """Applies a model's policy; settles ties in turn. Synchronous and free of I/O."""

    def __init__(self, config: RoutingSection) -> None:
        self._default = make_policy(config.policy)
        self._by_model: dict[str | None, Policy] = {
            model: make_policy(name) for model, name in config.model_policies.items()
        }
        self._clock = 0

    def pick(self, request: Request, candidates: Sequence[Worker]) -> Choice:
        """The cheapest of `candidates` (at least one)."""
        policy = self._by_model.get(request.model, self._default)
        costs = policy.costs(request, candidates)
        cheapest = min(costs)
        tied = [worker for worker, cost in zip(candidates, costs, strict=True) if cost == cheapest]
        worker = min(tied, key=_least_recently_picked)
        self._clock += 1
        worker.picked = self._clock
        return Choice(worker, policy.name, candidates, costs)


def _least_recently_picked(worker: Worker) -> int:
    return worker.picked
