"""Policies that look at no prompt: power of two choices, random, round robin."""

from collections.abc import Iterable, Sequence
from math import inf
from random import Random

from radixway.routing.policies.base import Policy, Scores, View
from radixway.routing.routing_request import RoutingRequest
from radixway.routing.worker import Worker


class PowerOfTwo(Policy):
    """Two random candidates compete by requests in flight; the others cost infinity.

    Source: M. Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", 2001. With many gateways
    in front of the same workers it avoids the herd that follows one shared minimum.
    """

    name = "power_of_two"

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def score(self, request: RoutingRequest, candidates: Sequence[Worker], view: View) -> Scores:
        return Scores(power_of_two(self._rng, candidates, range(len(candidates))))


class RandomChoice(Policy):
    """Each candidate with the same probability, whatever the load."""

    name = "random"

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def score(self, request: RoutingRequest, candidates: Sequence[Worker], view: View) -> Scores:
        return Scores([self._rng.random() for _ in candidates])


class RoundRobin(Policy):
    """All candidates cost the same, so the least recently chosen wins."""

    name = "round_robin"

    def score(self, request: RoutingRequest, candidates: Sequence[Worker], view: View) -> Scores:
        return Scores([0.0] * len(candidates))


def power_of_two(rng: Random, candidates: Sequence[Worker], among: Iterable[int]) -> list[float]:
    """Return costs by which the less loaded of two drawn from the candidates numbered `among` wins."""
    drawn = list(among)
    if len(drawn) > 2:
        drawn = rng.sample(drawn, 2)
    costs = [inf] * len(candidates)
    for index in drawn:
        costs[index] = float(candidates[index].load.all_requests)
    return costs
