"""Least loaded: the worker with the fewest requests in hand."""

from __future__ import annotations

from collections.abc import Sequence

from radixway.pipeline import Request
from radixway.routing.worker import Worker


class LeastLoaded:
    """Requests in hand; per slot when every candidate said how many it runs at a time."""

    name = "least_loaded"

    def costs(self, request: Request, candidates: Sequence[Worker]) -> list[float]:
        if all(worker.max_batch_size for worker in candidates):
            return [worker.load.requests / (worker.max_batch_size or 1) for worker in candidates]
        return [float(worker.load.requests) for worker in candidates]
