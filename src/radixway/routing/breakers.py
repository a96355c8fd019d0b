"""The workers' circuit breakers together: whom a request is offered first."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from radixway.config import BreakerSection
from radixway.routing.breaker import BreakerState, Held
from radixway.routing.worker import Worker, WorkerState


class Breakers:
    """Keeps workers that break their requests in the background. While all is well it costs one look.

    A worker behind an open breaker is asked last, not never: where every candidate's is open, all of them are
    candidates, because what might work is not refused.
    """

    def __init__(self, config: BreakerSection, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._suspected: set[Worker] = set()
        """Workers against whom something is held; every breaker that is not closed is one of theirs."""

    def state(self, worker: Worker) -> BreakerState:
        """Closed, open or half-open."""
        return worker.breaker.state(self._clock())

    def admitted(self, candidates: Sequence[Worker]) -> Sequence[Worker]:
        """Those whose breakers let a request pass; all of them if that leaves none."""
        if not self._suspected:
            return candidates
        now = self._clock()
        return tuple(worker for worker in candidates if worker.breaker.admits(now)) or candidates

    def sent(self, worker: Worker, place: Held) -> None:
        """A request has been given to `worker`, and holds `place` there until it is over."""
        if self._suspected:
            worker.breaker.sent(place, self._clock())

    def answered(self, worker: Worker, status: int) -> None:
        """It answered: well, or with a 5xx of its own."""
        if status >= 500:
            self._fail(worker, broken=False)
        elif worker in self._suspected and worker.breaker.answered(self._clock()):
            self._suspected.discard(worker)

    def broke(self, worker: Worker) -> None:
        """It broke a request off without an answer."""
        self._fail(worker, broken=True)

    def note_state(self, worker: Worker) -> None:
        """Its state has changed: one that has just become ready may show what it can."""
        if worker.state is WorkerState.READY:
            worker.breaker.retry(self._clock())

    def forget(self, worker: Worker) -> None:
        """It is gone."""
        self._suspected.discard(worker)

    def _fail(self, worker: Worker, *, broken: bool) -> None:
        if worker.removed:
            return  # nobody would forget it again
        self._suspected.add(worker)
        worker.breaker.failed(self._config, self._clock(), broken=broken)
