"""What the cache did, in numbers: for `/cache/stats`, and as metrics under the published names."""

from __future__ import annotations

from collections import Counter as Tally
from typing import Any

from radixway.core.telemetry import MetricsRegistry

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)


class CacheMetrics:
    """Counted once per request, whichever way it went. Reasons are words of ours, so they are few."""

    def __init__(self, metrics: MetricsRegistry, backend: str) -> None:
        self._tally: Tally[str] = Tally()
        self._backend = backend
        self._hits = metrics.counter("llm_cache_hits", "Requests answered from the cache")
        self._misses = metrics.counter("llm_cache_misses", "Requests the cache had no answer for")
        self._operations = metrics.counter(
            "llm_cache_operations",
            "Operations of the semantic cache",
            *("backend", "operation", "status"),
        )
        self._durations = metrics.histogram(
            "llm_cache_operation_duration_seconds",
            "Seconds that operations of the semantic cache took",
            _SECONDS,
            *("backend", "operation"),
        )
        self._passed = metrics.counter("radixway_cache_passed", "Requests the cache had no part in", "reason")
        self._refused = metrics.counter(
            "radixway_cache_refused", "Near questions that the verifier told apart", "reason"
        )
        self._not_kept = metrics.counter("radixway_cache_not_kept", "Answers that were not kept", "reason")

    def count_hit(self, kind: str) -> None:
        """An answer was given: `exact` or `similar`."""
        self._tally["hits"] += 1
        self._tally[f"hits_{kind}"] += 1
        self._hits().inc()

    def count_miss(self) -> None:
        """Nothing was there to give."""
        self._tally["misses"] += 1
        self._misses().inc()

    def count_bypass(self, reason: str) -> None:
        """The request was none for the cache."""
        self._tally[f"passed_{reason}"] += 1
        self._passed(reason).inc()

    def count_rejection(self, reason: str) -> None:
        """The verifier told a near question apart."""
        self._tally[f"refused_{reason}"] += 1
        self._refused(reason).inc()

    def count_not_stored(self, reason: str) -> None:
        """An answer was none to keep."""
        self._tally[f"not_kept_{reason}"] += 1
        self._not_kept(reason).inc()

    def observe_operation(self, operation: str, seconds: float) -> None:
        """One operation, as published: `lookup`, `store`, `purge`, `report`."""
        self._tally[f"{operation}s"] += 1
        self._operations(self._backend, operation, "success").inc()
        self._durations(self._backend, operation).observe(seconds)

    def count_failure(self, what: str) -> None:
        """`encoder` or `store` could not do its part."""
        self._tally[f"{what}_failures"] += 1
        self._operations(self._backend, what, "error").inc()

    def describe(self) -> dict[str, Any]:
        """All numbers, by name."""
        return dict(sorted(self._tally.items()))
