"""What the cache did, in numbers: for `/cache/stats`, and as metrics under the published names."""

from collections import Counter as Tally
from typing import Any, Literal

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
        self._by_reason = {
            "passed": metrics.counter("radixway_cache_passed", "Requests the cache had no part in", "reason"),
            "refused": metrics.counter(
                "radixway_cache_refused", "Near questions that the verifier told apart", "reason"
            ),
            "not_kept": metrics.counter("radixway_cache_not_kept", "Answers that were not kept", "reason"),
        }

    def count_hit(self, kind: str) -> None:
        """Count an answer that was given; `kind`: `exact` or `similar`."""
        self._tally["hits"] += 1
        self._tally[f"hits_{kind}"] += 1
        self._hits().inc()

    def count_miss(self) -> None:
        """Count a question without an answer to give."""
        self._tally["misses"] += 1
        self._misses().inc()

    def count_reason(self, event: Literal["passed", "refused", "not_kept"], reason: str) -> None:
        """Count a request passed on, a near question refused, or an answer not kept, by its `reason`."""
        self._tally[f"{event}_{reason}"] += 1
        self._by_reason[event](reason).inc()

    def observe_operation(self, operation: str, seconds: float) -> None:
        """Record one operation, as published: `lookup`, `store`, `purge`, `report`."""
        self._tally[f"{operation}s"] += 1
        self._operations(self._backend, operation, "success").inc()
        self._durations(self._backend, operation).observe(seconds)

    def count_failure(self, what: str) -> None:
        """Count a failure of `what`, `encoder` or `store`."""
        self._tally[f"{what}_failures"] += 1
        self._operations(self._backend, what, "error").inc()

    def describe(self) -> dict[str, Any]:
        """Return all figures by name."""
        return dict(sorted(self._tally.items()))
