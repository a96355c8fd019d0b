"""The circuit breaker of one external service, which opens after failures in a row."""


class ConsecutiveFailureBreaker:
    """closed ──(failures in a row)──► open ──(open_s)──► half-open: one call tries ──► closed, or open.

    Pure: the caller passes the time, in monotonic seconds. Workers have `routing.circuit_breaker`, which also
    counts shares of failures in a window.
    """

    def __init__(self, failures_in_row: int, open_s: float) -> None:
        self._limit = failures_in_row
        self._open_s = open_s
        self._failures = 0
        self._until = 0.0

    def admits(self, now: float) -> bool:
        """Return whether the service may be called at `now`; half-open, the call admitted is the only one."""
        if self._failures < self._limit:
            return True
        if now < self._until:
            return False
        self._until = now + self._open_s
        return True

    def record_success(self) -> None:
        """Close the breaker."""
        self._failures = 0

    def record_failure(self, now: float) -> None:
        """Count a failure at `now`, which may open the breaker."""
        self._failures += 1
        self._until = now + self._open_s
