"""Random: any candidate, whatever the load."""

from __future__ import annotations

import random
from collections.abc import Sequence

from radixway.routing.policies.base import Policy, Scores, View
from radixway.routing.routing_request import RoutingRequest
from radixway.routing.worker import Worker


class RandomChoice(Policy):
    """Each candidate with the same probability."""

    name = "random"

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def score(self, request: RoutingRequest, candidates: Sequence[Worker], view: View) -> Scores:
        return Scores([self._rng.random() for _ in candidates])
