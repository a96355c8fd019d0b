"""The circuit breaker of one worker: closed, open, half-open.

closed ──(failures in a row, or their share in a window)──► open
open ──(its time has passed)──► half-open: one request probes the worker, the others stay away
half-open ──(the probe was answered)──► closed
half-open ──(the probe failed)──► open, for twice as long
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from radixway.core.config import BreakerConfig


class BreakerState(StrEnum):
    """See the drawing above."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class HeldSlot(Protocol):
    """A request's place at a worker, while it has it."""

    @property
    def held(self) -> bool: ...


class CircuitBreaker:
    """What a worker's latest requests say of it. Pure: the caller tells the time, in monotonic seconds."""

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
        """Open or half-open."""
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
        """Whether the worker may be given a request before others."""
        return not self.tripped or (now >= self._until and not self._probing)

    def record_sent(self, place: HeldSlot, now: float) -> None:
        """A request has been given to the worker; while half-open it is the probe, if there is none yet."""
        if self.tripped and now >= self._until and not self._probing:
            self._probe = place

    def record_success(self, now: float) -> bool:
        """It answered. True if nothing is held against the worker any more."""
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
        """It broke the request off, or (not `broken`) answered that something is wrong with it, a 5xx."""
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
        """The worker has come back: if it was open, it is half-open from now on."""
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
