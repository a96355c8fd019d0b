"""Metrics of the guard, under the published names where there are any. Label values are bounded."""

from collections.abc import Iterable
from typing import Any

from radixway.core.telemetry import MetricsRegistry

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)


class GuardMetrics:
    """Counters, by request and rule, and what `/health` says of the guards."""

    def __init__(self, metrics: MetricsRegistry) -> None:
        counter = metrics.counter
        self._violations = counter(
            "llm_pii_violations", "Personal data that a model may not be shown", "model", "pii_type"
        )
        self._refused = counter(
            "llm_request_errors", "Requests that the guard did not let pass", "model", "reason"
        )
        self._actions = counter(
            "radixway_guard_actions", "What the guard did about what it found", "guard", "action"
        )
        self._errors = counter("radixway_guard_errors", "Requests that a guard could not read", "guard")
        self._seconds = metrics.histogram(
            "radixway_guard_seconds",
            "Seconds that reading a request's texts took, the encoder's waiting included",
            _SECONDS,
            "guard",
        )
        self._failures: dict[str, int] = {}
        self._last: dict[str, str | None] = {"pii": None, "jailbreak": None}

    def observe_scan(self, guard: str, seconds: float) -> None:
        """Note that `guard` has read a request."""
        self._seconds(guard).observe(seconds)
        self._last[guard] = None

    def count_failure(self, guard: str, why: str) -> None:
        """Note that `guard` could not read a request; `why` names the error, without its text."""
        self._errors(guard).inc()
        self._failures[guard] = self._failures.get(guard, 0) + 1
        self._last[guard] = why

    def count_action(self, guard: str, action: str) -> None:
        """Note that `guard` found something and did `action`."""
        self._actions(guard, action).inc()

    def count_violations(self, model: str, types: Iterable[str]) -> None:
        """Note that a request has `types` that `model` may not be shown."""
        for each in types:
            self._violations(model, each).inc()

    def count_block(self, model: str, reason: str) -> None:
        """Note that a request was blocked for `reason`."""
        self._refused(model, reason).inc()

    def describe(self) -> dict[str, Any]:
        """Return, by guard, whether it read the latest request, and how many it could not."""
        return {
            guard: {"state": "ok" if why is None else "failing", "failed": self._failures.get(guard, 0)}
            | ({} if why is None else {"error": why})
            for guard, why in self._last.items()
        }
