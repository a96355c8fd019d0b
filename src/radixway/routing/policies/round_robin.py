"""Round robin: all workers cost the same, so the least recently chosen wins."""

from __future__ import annotations

from collections.abc import Sequence

from radixway.routing.policies.base import Policy, Scores, View
from radixway.routing.routing_request import RoutingRequest
from radixway.routing.worker import Worker


class RoundRobin(Policy):
    """Turns, whatever the load."""

    name = "round_robin"

    def score(self, request: RoutingRequest, candidates: Sequence[Worker], view: View) -> Scores:
        return Scores([0.0] * len(candidates))
