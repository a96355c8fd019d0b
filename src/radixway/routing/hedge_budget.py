"""Decides when a second copy of a request is worth sending, and how many copies there may be.

Source: Dean and Barroso, "The Tail at Scale", 2013: a copy after the 95th percentile costs few percent more
load and takes off most of the tail.
"""

from __future__ import annotations

from collections import deque

from radixway.core.config import HedgeConfig

_REMEMBERED = 256
_MIN_SAMPLES = 20
"""First bytes seen before their percentile is believed."""
_RECOMPUTE_EVERY = 16
_MAX_SAVED_COPIES = 10.0
"""Copies in a row, however long none was needed: a slow fleet is not to be given double the work."""


class _LatencyWindow:
    """The latest waits for a first byte, and the percentile asked of them."""

    __slots__ = ("_latest", "_seen", "value")

    def __init__(self) -> None:
        self._latest: deque[float] = deque(maxlen=_REMEMBERED)
        self._seen = 0
        self.value: float | None = None

    def record_latency(self, seconds: float, percentile: float) -> None:
        self._latest.append(seconds)
        self._seen += 1
        if self._seen >= _MIN_SAMPLES and (self.value is None or self._seen % _RECOMPUTE_EVERY == 0):
            ordered = sorted(self._latest)
            self.value = ordered[int(len(ordered) * percentile / 100)]


class HedgeBudget:
    """The delay before a copy, and the budget of copies. Pure."""

    def __init__(self, config: HedgeConfig) -> None:
        self._config = config
        self._times: dict[tuple[str | None, bool], _LatencyWindow] = {}
        self._credit = 0.0

    def delay_s(self, model: str | None, stream: bool) -> float | None:
        """Seconds after which a request that begins now should be copied; None: never. Feeds the budget."""
        config = self._config
        if not (stream or config.whole_replies):
            return None
        self._credit = min(_MAX_SAVED_COPIES, self._credit + config.most_share)
        times = self._times.get((model, stream))
        learnt = times.value if times is not None and config.after_percentile is not None else None
        return config.after_s if learnt is None else learnt

    def record_first_byte(self, model: str | None, stream: bool, seconds: float) -> None:
        """A first byte came after so many seconds. `model` is one that is known to be served."""
        if self._config.after_percentile is not None:
            times = self._times.get((model, stream))
            if times is None:
                times = self._times[model, stream] = _LatencyWindow()
            times.record_latency(seconds, self._config.after_percentile)

    @property
    def has_budget(self) -> bool:
        """The budget allows another copy."""
        return self._credit >= 1

    def consume_budget(self) -> None:
        """A copy is sent."""
        self._credit -= 1
