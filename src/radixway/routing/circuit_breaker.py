"""The circuit breaker of one worker: closed, open, half-open.

closed ──(failures in a row, or their share in a window)──► open
open ──(its time has passed)──► half-open: one request probes the worker, the others stay away
half-open ──(the probe was answered)──► closed
half-open ──(the probe failed)──► open, for twice as long

`FleetBreakers` owns the breakers of all workers and is what the dispatch calls.
"""

from enum import StrEnum
from typing import Protocol

from radixway.core.config import BreakerConfig


class BreakerState(StrEnum):
    """State of a breaker, as drawn above."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class HeldSlot(Protocol):
    """A request's place at a worker, while it has it."""

    @property
    def held(self) -> bool: ...


class CircuitBreaker:
    """Trips on one worker's latest failures. Pure: the caller passes the time, in monotonic seconds."""

    __slots__ = (
        "_answers",
        "_failures",
        "_in_row",
        "_probe",
        "_times_opened",
        "_until",
        "_window_ends",
        "tripped",
    )

    def __init__(self) -> None:
        self.tripped = False
        self._until = 0.0
        self._times_opened = 0
        self._probe: HeldSlot | None = None
        self._in_row = 0
        self._answers = 0
        self._failures = 0
        self._window_ends = 0.0

    def state(self, now: float) -> BreakerState:
        """Closed, open or half-open."""
        if not self.tripped:
            return BreakerState.CLOSED
        return BreakerState.OPEN if now < self._until else BreakerState.HALF_OPEN

    def admits(self, now: float) -> bool:
        """Return True if the worker may get a request at `now` like any other."""
        return not self.tripped or (now >= self._until and not self._probing)

    def record_sent(self, place: HeldSlot, now: float) -> None:
        """Note that a request holding `place` was sent. While half-open the first one is the probe."""
        if self.tripped and now >= self._until and not self._probing:
            self._probe = place

    def record_success(self, now: float) -> bool:
        """Note an answer. Returns True if no failure counts against the worker any more."""
        if self.tripped:
            self.__init__()  # type: ignore[misc]  # as new
            return True
        self._in_row = 0
        if now >= self._window_ends:
            self._answers = self._failures = 0
            return True
        self._answers += 1
        return False

    def record_failure(self, config: BreakerConfig, now: float, *, broken: bool) -> None:
        """Note a request that was cut off, or (not `broken`) answered with a 5xx."""
        if now >= self._window_ends:
            self._answers = self._failures = 0
            self._window_ends = now + config.window_s
        self._failures += 1
        self._in_row += broken
        if self.tripped:
            if now >= self._until or self._probing:
                self._trip(config, now)
        elif self._in_row >= config.failures_in_row or self._exceeds_failure_share(config):
            self._trip(config, now)

    def allow_probe(self, now: float) -> None:
        """Make an open breaker half-open at `now`: the worker has come back."""
        self._until = min(self._until, now)

    @property
    def _probing(self) -> bool:
        return self._probe is not None and self._probe.held

    def _exceeds_failure_share(self, config: BreakerConfig) -> bool:
        seen = self._answers + self._failures
        return seen >= config.least_requests and self._failures >= config.failure_share * seen

    def _trip(self, config: BreakerConfig, now: float) -> None:
        self.tripped = True
        self._probe = None
        self._until = now + min(config.open_max_s, config.open_s * 2.0 ** min(self._times_opened, 60))
        self._times_opened += 1
