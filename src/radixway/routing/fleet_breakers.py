"""The circuit breakers of all workers: filters candidates and feeds each breaker what its worker answered.

The state machine of one worker is `circuit_breaker.CircuitBreaker`; here are the clock, the configuration and
the choice among workers.
"""

import time
from collections.abc import Callable, Sequence

from radixway.core.config import BreakerConfig
from radixway.routing.circuit_breaker import BreakerState, HeldSlot
from radixway.routing.worker import Worker, WorkerState


class FleetBreakers:
    """Avoids workers whose breakers are open. Costs one check of a set while no worker has failed.

    A worker with an open breaker is tried last, not never: where every candidate's breaker is open, all of
    them are candidates, because a request that might succeed is not refused.
    """

    def __init__(self, config: BreakerConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._suspected: set[Worker] = set()
        """Workers with recent failures, which include all with an open breaker."""

    def state(self, worker: Worker) -> BreakerState:
        """Closed, open or half-open."""
        return worker.breaker.state(self._clock())

    def filter_admitted(self, candidates: Sequence[Worker]) -> Sequence[Worker]:
        """Return those of `candidates` whose breakers admit a request; all of them if that leaves none."""
        if not self._suspected:
            return candidates
        now = self._clock()
        return tuple(worker for worker in candidates if worker.breaker.admits(now)) or candidates

    def record_sent(self, worker: Worker, place: HeldSlot) -> None:
        """Note a request to `worker`, which holds `place` there until it is over."""
        if self._suspected:
            worker.breaker.record_sent(place, self._clock())

    def record_answer(self, worker: Worker, status: int) -> None:
        """Note an answer of `worker`; a `status` of 500 or more counts as a failure."""
        if status >= 500:
            self._record_failure(worker, broken=False)
        elif worker in self._suspected and worker.breaker.record_success(self._clock()):
            self._suspected.discard(worker)

    def record_disconnect(self, worker: Worker) -> None:
        """Note that `worker` cut a request off without an answer."""
        self._record_failure(worker, broken=True)

    def on_state_change(self, worker: Worker) -> None:
        """Allow a probe of `worker` if it has just become ready."""
        if worker.state is WorkerState.READY:
            worker.breaker.allow_probe(self._clock())

    def remove_worker(self, worker: Worker) -> None:
        """Forget `worker`, which has left the fleet."""
        self._suspected.discard(worker)

    def _record_failure(self, worker: Worker, *, broken: bool) -> None:
        if worker.removed:
            return  # `remove_worker` has been called, so it would stay here for ever
        self._suspected.add(worker)
        worker.breaker.record_failure(self._config, self._clock(), broken=broken)
