"""Machines that are yours first; rented ones when the wait at yours is worth the money."""

from __future__ import annotations

from collections.abc import Sequence

from radixway.routing import RoutingRequest, Worker
from radixway.routing.policies import Policy, Scores, View


class OwnedFirst(Policy):
    """Requests in hand, with `patience` requests more for workers outside of `pool`.

    So a rented worker is asked once every owned one has more than `patience` requests beyond it.
    """

    name = "owned_first"

    def __init__(self, pool: str = "owned", patience: float = 4) -> None:
        self.pool = pool
        self.patience = patience

    def score(self, request: RoutingRequest, candidates: Sequence[Worker], view: View) -> Scores:
        parts = [
            (worker.load.all_requests, 0 if self.pool in worker.pools else self.patience)
            for worker in candidates
        ]
        return Scores([float(sum(each)) for each in parts], ("requests", "rent"), parts)
