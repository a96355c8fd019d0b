"""Leaves a service alone that does not answer."""

from __future__ import annotations


class SafetyServiceBreaker:
    """closed ──(failures in a row)──► open ──(rest_s)──► half-open: one question tries ──► closed, or open.

    Pure: the caller tells the time, in monotonic seconds.
    """

    def __init__(self, failures: int, rest_s: float) -> None:
        self._most = failures
        self._rest_s = rest_s
        self._in_row = 0
        self._closed_again_at: float | None = None

    def admits(self, now: float) -> bool:
        """Whether the service may be asked; whoever is let through while it is half-open tries for all."""
        if self._closed_again_at is None:
            return True
        if now < self._closed_again_at:
            return False
        self._closed_again_at = now + self._rest_s
        return True

    def record_success(self) -> None:
        """It did."""
        self._in_row = 0
        self._closed_again_at = None

    def record_failure(self, now: float) -> None:
        """It did not."""
        self._in_row += 1
        if self._in_row >= self._most:
            self._closed_again_at = now + self._rest_s
