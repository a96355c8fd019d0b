"""A deployment's replicas as the gateway's selector knows workers: their prefixes and their load.

Synchronous and free of Ray. A request's lease begins when its replica is chosen, before it is sent, so that
of a burst each sees those before it.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

from radixway.cluster.prefix_router.prefix_record import ReplicaPrefixes
from radixway.cluster.prefix_router.prefix_tiers import PrefixSettings
from radixway.core.config import RoutingConfig, WorkerSettings
from radixway.routing import LoadShare, RoutingRequest, Selector, Worker, WorkerChoice, WorkerLease
from radixway.routing.policies import Policy

FORGOTTEN_AFTER_S = 3600.0
"""A lease without a reported end expires: Ray returns unused slots silently."""


class ReplicaFleet:
    """The replicas that a router may choose among."""

    def __init__(
        self, settings: PrefixSettings, clock: Callable[[], float], rng: random.Random | None = None
    ) -> None:
        """`clock`: monotonic seconds."""
        self._rng = rng or random.Random()
        self._selector = Selector(RoutingConfig(), clock=clock, rng=self._rng)
        self._clock = clock
        self.seen = ReplicaPrefixes(settings, self._selector.index)
        self.fleet_rate = self._selector.ledger.rates.fleet
        """How fast replicas prefill that do not say it themselves."""
        self._workers: dict[str, Worker] = {}
        self._leases: dict[tuple[str, str], tuple[float, WorkerLease]] = {}
        """By replica and request, oldest first."""

    def __contains__(self, replica: str) -> bool:
        return replica in self._workers

    def find_worker(self, replica: str) -> Worker:
        """A replica that is known. Raises KeyError for another."""
        return self._workers[replica]

    def replica_share(self, worker: Worker) -> float:
        """Return the share of the memory that this replica's prefixes use: below 1."""
        return self.seen.index.assumed(worker.slot) / (self.seen.settings.most_blocks + 1)

    def add_replica(self, replica: str) -> None:
        """A new replica."""
        worker = self._workers[replica] = Worker(WorkerSettings(url="http://replica"))  # it is never asked
        worker.name = replica
        worker.slot = self.seen.add_replica(replica)
        # Replicas never chosen are in random order, or every new router would begin with the same one.
        worker.picked = -self._rng.getrandbits(32)
        self._selector.ledger.rates.add_load(worker.load)

    def remove_replica(self, replica: str) -> None:
        """Remove a replica and its requests."""
        if (worker := self._workers.pop(replica, None)) is not None:
            self._selector.ledger.rates.remove_load(worker.load)
            self.seen.remove_replica(replica)
            for key in [key for key in self._leases if key[0] == replica]:
                self._leases.pop(key)[1].release()

    def update_stats(self, replica: str, stats: Mapping[str, Any]) -> None:
        """Set the prefill rate of `replica` from its `record_routing_stats`, if `stats` has one."""
        per_s, overhead_s = stats.get("prefill_tokens_per_s"), stats.get("prefill_overhead_s", 0.0)
        if _is_number(per_s) and per_s > 0 and _is_number(overhead_s) and overhead_s >= 0:
            load = self._workers[replica].load
            load.own_rate.seconds_per_token, load.own_rate.overhead_s = 1 / per_s, overhead_s
            load.rate = load.own_rate

    def set_queue_length(self, worker: Worker, queue: int) -> None:
        """Set the replica's number of requests in flight, ours included."""
        elsewhere = max(0, queue - worker.load.requests)
        if elsewhere != worker.load.elsewhere.requests:
            self._selector.ledger.set_remote_load(worker, LoadShare(requests=elsewhere))

    def choose_replica(
        self, request: RoutingRequest, among: Sequence[Worker], policy: Policy
    ) -> WorkerChoice:
        """The best of `among` (at least one) by `policy`."""
        choice = self._selector.score_candidates(request, among, policy)
        self._selector.mark_selected(choice)
        return choice

    def start_request(self, replica: str, name: str, request: RoutingRequest, uncached_tokens: int) -> None:
        """The request of this name goes to `replica`, which will have seen its prompt."""
        worker = self._workers.get(replica)
        if worker is None:
            return
        now = self._clock()
        self.seen.record_prompt(replica, request.blocks, now)
        self.end_request(replica, name)
        lease = self._selector.ledger.reserve(worker, request, uncached_tokens, count_blocks=False)
        self._leases[replica, name] = (now, lease)
        self._release_forgotten(now)

    def end_request(self, replica: str, name: str) -> None:
        """Release the request, which ended or went elsewhere; ignores unknown ones."""
        if (entry := self._leases.pop((replica, name), None)) is not None:
            entry[1].release()

    def check(self) -> None:
        """Recompute all counts. Raises AssertionError with the difference."""
        self.seen.check()
        assert set(self.seen.replicas) == set(self._workers), "the record has other replicas than the fleet"
        for replica, worker in self._workers.items():
            leases, requests = sum(where == replica for where, _ in self._leases), worker.load.requests
            assert requests == leases, f"{replica} has {requests} requests and {leases} leases"

    def _release_forgotten(self, now: float) -> None:
        while (oldest := next(iter(self._leases.items())))[1][0] < now - FORGOTTEN_AFTER_S:
            del self._leases[oldest[0]]
            oldest[1][1].release()


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
