"""Metrics of exchanges with clients, and of the time that each pipeline step takes by itself."""

import re
from dataclasses import dataclass

from radixway.core.telemetry.metrics.primitives import (
    CounterValue,
    HistogramBuckets,
    LabeledCounter,
    LabeledHistogram,
    MetricGroup,
)

OTHER = "other"
_MAX_ERROR_KINDS = 200
"""Distinct error codes in metrics; a user's middleware could invent more."""


@dataclass(slots=True)
class _RequestSeries:
    """Series of one endpoint, model and status, looked up once."""

    requests: CounterValue
    latency: HistogramBuckets
    first_byte: HistogramBuckets


class RequestMetrics(MetricGroup):
    """Counted as each ends."""

    def __init__(self) -> None:
        self._requests = LabeledCounter(
            "radixway_requests", "Answered requests", ("surface", "model", "status")
        )
        self._latency = LabeledHistogram(
            "radixway_request_seconds",
            "Seconds from the request's arrival to its last byte",
            ("surface", "model"),
        )
        self._first_byte = LabeledHistogram(
            "radixway_first_byte_seconds",
            "Seconds from the request's arrival to the first byte of its answer",
            ("surface", "model"),
        )
        self._tenants = LabeledHistogram(
            "radixway_tenant_first_byte_seconds",
            "Seconds from the arrival of a tenant's request to the first byte of its answer",
            ("tenant",),
        )
        self._errors = LabeledCounter(
            "radixway_errors", "Requests that ended badly, by why", ("surface", "model", "kind")
        )
        self._disconnects = LabeledCounter(
            "radixway_client_disconnects", "Requests whose client left before the end"
        )
        self._broken = LabeledCounter(
            "radixway_broken_streams", "Streams cut by a worker after their first byte"
        )
        self.disconnects, self.broken_streams = self._disconnects.with_labels(), self._broken.with_labels()
        self._known: dict[tuple[str, str, int], _RequestSeries] = {}
        self._kinds: set[str] = set()

    def record_completed(
        self,
        surface: str,
        model: str,
        status: int,
        first_byte_s: float | None,
        total_s: float,
        *,
        tenant: str | None = None,
        trace_id: str | None = None,
    ) -> None:
        """One has ended. `first_byte_s`: None when nothing was sent; `trace_id`: if it is traced."""
        known = self._known.get((surface, model, status)) or self._create_series(surface, model, status)
        known.requests.value += 1
        known.latency.observe_value(total_s, trace_id)
        if first_byte_s is not None:
            known.first_byte.observe_value(first_byte_s, trace_id)
            if tenant is not None:
                self._tenants.with_labels(tenant).observe_value(first_byte_s, trace_id)

    def record_error(self, surface: str, model: str, kind: str) -> None:
        """Record a failed request; `kind` is the code that the client got."""
        if kind not in self._kinds:
            if len(self._kinds) >= _MAX_ERROR_KINDS:
                kind = OTHER
            self._kinds.add(kind)
        self._errors.with_labels(surface, model, kind).value += 1

    def _create_series(self, surface: str, model: str, status: int) -> _RequestSeries:
        known = self._known[surface, model, status] = _RequestSeries(
            self._requests.with_labels(surface, model, str(status)),
            self._latency.with_labels(surface, model),
            self._first_byte.with_labels(surface, model),
        )
        return known


_SECONDS = (
    *(0.00001, 0.00005, 0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01),
    *(0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0),
)
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class StepMetrics(MetricGroup):
    """Metrics by middleware class, which the configuration bounds."""

    def __init__(self) -> None:
        self._middlewares = LabeledHistogram(
            "radixway_middleware_seconds",
            "Seconds that a middleware took itself, without what it called",
            ("middleware",),
            _SECONDS,
        )
        self._selections = LabeledHistogram(
            "radixway_selection_seconds",
            "Seconds from a request's end of the road to its worker, where it did not have to wait for room",
            ("policy",),
            _SECONDS,
        )

    def middleware_buckets(self, middleware: object) -> HistogramBuckets:
        """Return the buckets for times of `middleware`: `semantic_cache` for a `SemanticCache`."""
        return self._middlewares.with_labels(middleware_label(middleware))

    def selection_buckets(self, policy: str) -> HistogramBuckets:
        """Return the buckets in which the policy's times are counted."""
        return self._selections.with_labels(policy)


def middleware_label(middleware: object) -> str:
    """Return what `middleware` is called in metrics, in lower case with underscores."""
    return _WORD.sub("_", step_name_of(middleware).strip("_")).lower()


def step_name_of(middleware: object) -> str:
    """Return its `step_name`, which outlives renames of the class, or the name of its class."""
    name: str | None = getattr(middleware, "step_name", None)
    kind = middleware if isinstance(middleware, type) else type(middleware)
    return name or kind.__name__
