"""Which prefill rate is believed of each worker: all workers' together, or its own.

Estimates of the same speed differ by noise, and a policy that goes by it starves a worker: the one that looks
slow gets no requests, so its estimate is never corrected. A worker's own rate is therefore believed only if
its prefills differ from what the fleet's rate says by more than chance explains:

    |ln slowness| > max(ln 1.1, 3 · noise / √observations)

The slowness is the time that its prefills took over the time they would take at the fleet's present rate; the
noise is how far single prefills lie from their own worker's rate. All other workers share the fleet's rate,
so their equal costs are equal, and the selector takes turns. What a worker showed fades as the others show
more, so one that looked slow is tried again: the later, the slower it looked.
"""

from __future__ import annotations

from collections import deque
from math import log, sqrt

from radixway.routing.worker_load import PrefillRate, WorkerLoad

_MIN_OBSERVATIONS = 8
"""Of a worker, before its own rate may be believed: the first ones often meet a cold worker."""
_MIN_LOG_RATIO = log(1.1)
"""Below this a difference is not worth leaving a worker idle for."""
_STANDARD_ERRORS = 3
_MIN_RELATIVE_NOISE = 0.1
"""Relative to the rate. Without it a worker of no noise at all would never be tried again."""
_MAX_DEVIATION = 10.0
"""Most that a single prefill counts above its worker's rate: one long pause must not hide all differences."""
_FORGET = 0.98
"""What the noise of a prefill still counts when the next one comes."""


class PrefillRateRegistry:
    """The fleet's rate, and which worker has one of its own. Belongs to the ledger."""

    def __init__(self) -> None:
        self.fleet = PrefillRate()
        """Of all workers together."""
        self._variance = 1.0
        """Of a prefill's time relative to its worker's rate."""
        self._loads: deque[WorkerLoad] = deque()
        """Those to be looked at in turn, as what they showed gets old."""

    def add_load(self, load: WorkerLoad) -> None:
        """A worker has come, of which nothing is known."""
        load.rate = self.fleet
        load.observed_at = self.fleet.observed
        self._loads.append(load)

    def remove_load(self, load: WorkerLoad) -> None:
        """A worker has gone. Raises ValueError for one that was not added."""
        self._loads.remove(load)

    def observe_prefill(self, load: WorkerLoad, tokens: int, seconds: float) -> None:
        """A prefill of so many tokens took so long at the worker with this load."""
        own = load.own_rate
        if own.observed:
            deviation = min(seconds / own.prefill_s(tokens) - 1, _MAX_DEVIATION)
            self._variance += (1 - _FORGET) * (deviation**2 - self._variance)
        self.fleet.observe_prefill(tokens, seconds)
        own.observe_prefill(tokens, seconds)
        load.observed_at = self.fleet.observed
        self._assign_rate(load)
        self._review_next()

    def _review_next(self) -> None:
        """Look at one worker, all in turn: what it showed counts less if others have shown more since."""
        if not self._loads:
            return
        load = self._loads[0]
        self._loads.rotate(-1)
        if self.fleet.observed - load.observed_at >= len(self._loads):
            load.own_rate.decay()
            self._assign_rate(load)

    def _assign_rate(self, load: WorkerLoad) -> None:
        load.rate = load.own_rate if self._is_different(load.own_rate) else self.fleet

    def _is_different(self, own: PrefillRate) -> bool:
        if own.observed < _MIN_OBSERVATIONS:
            return False
        slowness = own.relative_slowness(self.fleet)
        if slowness <= 0:
            return False
        noise = sqrt(max(self._variance, _MIN_RELATIVE_NOISE**2))
        # Multiplied by the root, because what is observed of a worker may have faded to nothing.
        difference, root = abs(log(slowness)), sqrt(own.count)
        return difference > _MIN_LOG_RATIO and difference * root > _STANDARD_ERRORS * noise
