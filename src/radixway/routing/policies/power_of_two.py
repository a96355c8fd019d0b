"""Power of two choices: draw two workers, take the less loaded.

Source: M. Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", 2001. With many gateways in
front of the same workers it avoids the herd that follows one shared minimum.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from math import inf

from radixway.routing.policies.base import Policy, Scores, View
from radixway.routing.routing_request import RoutingRequest
from radixway.routing.worker import Worker


class PowerOfTwo(Policy):
    """Two random candidates compete by requests in hand; the others cost infinity."""

    name = "power_of_two"

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def score(self, request: RoutingRequest, candidates: Sequence[Worker], view: View) -> Scores:
        return Scores(power_of_two(self._rng, candidates, range(len(candidates))))


def power_of_two(rng: random.Random, candidates: Sequence[Worker], among: Iterable[int]) -> list[float]:
    """Costs by which the less loaded of two drawn from the candidates numbered `among` wins."""
    drawn = list(among)
    if len(drawn) > 2:
        drawn = rng.sample(drawn, 2)
    costs = [inf] * len(candidates)
    for index in drawn:
        costs[index] = float(candidates[index].load.all_requests)
    return costs
