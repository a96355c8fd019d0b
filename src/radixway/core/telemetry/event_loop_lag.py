"""How late the event loop is: while it stands still, every request of the gateway does."""

import asyncio
from array import array
from math import ceil
from typing import Any

from radixway.core.component import Component
from radixway.core.telemetry.metrics.metrics import MetricsRegistry

_INTERVAL_S = 0.025
_WINDOW_S = 60.0
_QUANTILES = (0.5, 0.99, 1.0)
"""The last is the maximum."""


class EventLoopLag(Component):
    """Measures how much later than asked for a timer runs, every `interval_s`, over the latest `window_s`.

    A turn of the loop that takes long shows as it is, whatever else waits for it: nothing is counted per
    request. 40 timers a second cost less than a thousandth of a core.
    """

    name = "event_loop"

    def __init__(
        self, metrics: MetricsRegistry, interval_s: float = _INTERVAL_S, window_s: float = _WINDOW_S
    ) -> None:
        self._interval_s = interval_s
        self._lags_s = array("d")
        """A ring of `_size` at most: `_next` is overwritten next."""
        self._size = max(1, round(window_s / interval_s))
        self._next = 0
        self._timer: asyncio.TimerHandle | None = None
        metrics.gauges(
            "radixway_event_loop_lag_seconds",
            "Seconds that the event loop was late, by quantile over the latest minute; 1: the longest",
            "quantile",
            lambda: [(f"{one:g}", lag) for one, lag in zip(_QUANTILES, self.lag_quantiles(), strict=True)],
            "max",
        )

    async def start(self) -> None:
        """Begin to measure the loop that this runs in."""
        self._schedule(asyncio.get_running_loop())

    async def stop(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()

    def describe(self) -> dict[str, Any]:
        """Return the quantiles in milliseconds, for `/health`."""
        median, p99, longest = self.lag_quantiles()
        return {
            "lag_p50_ms": round(median * 1e3, 2),
            "lag_p99_ms": round(p99 * 1e3, 2),
            "lag_max_ms": round(longest * 1e3, 2),
        }

    def record_lag(self, lag_s: float) -> None:
        """Record that a timer was `lag_s` seconds late."""
        if len(self._lags_s) < self._size:
            self._lags_s.append(lag_s)
        else:
            self._lags_s[self._next] = lag_s
        self._next = (self._next + 1) % self._size

    def lag_quantiles(self) -> tuple[float, float, float]:
        """Return the median lag, the 99th percentile and the longest, in seconds; zeros before the first."""
        ordered = sorted(self._lags_s) or [0.0]
        median, p99, longest = (ordered[ceil(share * len(ordered)) - 1] for share in _QUANTILES)
        return median, p99, longest

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        due_s = loop.time() + self._interval_s
        self._timer = loop.call_at(due_s, self._measure, loop, due_s)

    def _measure(self, loop: asyncio.AbstractEventLoop, due_s: float) -> None:
        self.record_lag(max(0.0, loop.time() - due_s))
        self._schedule(loop)
