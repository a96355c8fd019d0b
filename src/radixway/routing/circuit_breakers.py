"""The workers' circuit breakers together: whom a request is offered first."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from radixway.core.config import BreakerConfig
from radixway.routing.circuit_breaker import BreakerState, HeldSlot
from radixway.routing.worker import Worker, WorkerState


class CircuitBreakers:
    """Keeps workers that break their requests in the background. While all is well it costs one look.

    A worker behind an open breaker is asked last, not never: where every candidate's is open, all of them are
    candidates, because what might work is not refused.
    """

    def __init__(self, config: BreakerConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._suspected: set[Worker] = set()
        """Workers against whom something is held; every breaker that is not closed is one of theirs."""

    def state(self, worker: Worker) -> BreakerState:
        """Closed, open or half-open."""
        return worker.breaker.state(self._clock())

    def filter_admitted(self, candidates: Sequence[Worker]) -> Sequence[Worker]:
        """Those whose breakers let a request pass; all of them if that leaves none."""
        if not self._suspected:
            return candidates
        now = self._clock()
        return tuple(worker for worker in candidates if worker.breaker.admits(now)) or candidates

    def record_sent(self, worker: Worker, place: HeldSlot) -> None:
        """A request has been given to `worker`, and holds `place` there until it is over."""
        if self._suspected:
            worker.breaker.record_sent(place, self._clock())

    def record_answer(self, worker: Worker, status: int) -> None:
        """It answered: well, or with a 5xx of its own."""
        if status >= 500:
            self._record_failure(worker, broken=False)
        elif worker in self._suspected and worker.breaker.record_success(self._clock()):
            self._suspected.discard(worker)

    def record_disconnect(self, worker: Worker) -> None:
        """It broke a request off without an answer."""
        self._record_failure(worker, broken=True)

    def on_state_change(self, worker: Worker) -> None:
        """Its state has changed: one that has just become ready may show what it can."""
        if worker.state is WorkerState.READY:
            worker.breaker.allow_probe(self._clock())

    def remove_worker(self, worker: Worker) -> None:
        """It is gone."""
        self._suspected.discard(worker)

    def _record_failure(self, worker: Worker, *, broken: bool) -> None:
        if worker.removed:
            return  # nobody would forget it again
        self._suspected.add(worker)
        worker.breaker.record_failure(self._config, self._clock(), broken=broken)
