"""Limits on what a worker is given at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from radixway.core.config import RoutingConfig
from radixway.routing.routing_request import RoutingRequest
from radixway.routing.worker import Worker


class WorkerLimits:
    """Requests in flight and KV tokens in use, per worker. Without a limit anywhere nothing is looked at."""

    def __init__(self, config: RoutingConfig) -> None:
        self._per_worker = config.max_in_flight_per_worker
        self._per_slot = config.max_in_flight_per_slot
        self._kv_share = config.max_kv_share
        self._everywhere = any(
            limit is not None for limit in (self._per_worker, self._per_slot, self._kv_share)
        )
        self.on = self._everywhere
        """Some worker has a limit."""

    def refresh_limits(self, workers: Iterable[Worker]) -> None:
        """Update `on` after `workers` or their limits have changed."""
        self.on = self._everywhere or any(worker.config.max_in_flight is not None for worker in workers)

    def max_requests(self, worker: Worker) -> int | None:
        """Requests that `worker` is given at a time; None if there is no limit."""
        if worker.config.max_in_flight is not None:
            return worker.config.max_in_flight
        if self._per_worker is not None:
            return self._per_worker
        if self._per_slot is not None and worker.max_batch_size is not None:
            return max(1, int(self._per_slot * worker.max_batch_size))
        return None

    def has_capacity(self, worker: Worker, request: RoutingRequest) -> bool:
        """Return True if `worker` may be given `request` now. An idle worker takes any, however long."""
        load = worker.load
        if not load.all_requests:
            return True
        most = self.max_requests(worker)
        if most is not None and load.all_requests >= most:
            return False
        if self._kv_share is None or worker.kv_tokens is None:
            return True
        shared = load.shared_blocks(request.blocks) * request.block_tokens
        in_use = load.all_blocks * request.block_tokens
        return in_use + request.tokens - shared <= self._kv_share * worker.kv_tokens

    def filter_with_capacity(self, candidates: Sequence[Worker], request: RoutingRequest) -> Sequence[Worker]:
        """Those of `candidates` that may be given `request` now."""
        if not self.on:
            return candidates
        return tuple(worker for worker in candidates if self.has_capacity(worker, request))
