"""Least loaded: the worker with the fewest requests in flight."""

from collections.abc import Sequence

from radixway.routing.policies.base import Policy, Scores, View
from radixway.routing.routing_request import RoutingRequest
from radixway.routing.worker import Worker


class LeastLoaded(Policy):
    """Requests in flight; per slot when every candidate reports how many it runs at a time."""

    name = "least_loaded"

    def score(self, request: RoutingRequest, candidates: Sequence[Worker], view: View) -> Scores:
        if all(worker.max_batch_size for worker in candidates):
            costs = [worker.load.all_requests / (worker.max_batch_size or 1) for worker in candidates]
        else:
            costs = [float(worker.load.all_requests) for worker in candidates]
        return Scores(costs, ("requests",), [(worker.load.all_requests,) for worker in candidates])
