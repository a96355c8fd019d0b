"""What the steps of the road take, each by itself."""

from __future__ import annotations

import re

from prometheus_client.registry import Collector

from radixway.telemetry.metrics.figures import HistogramBuckets, LabeledHistogram

_SECONDS = (
    0.00001,
    0.00005,
    0.0001,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    5.0,
)
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class StepMetrics:
    """By the name of the middleware's class, which the configuration bounds."""

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

    def collectors(self) -> tuple[Collector, ...]:
        """What is to be told of them."""
        return self._middlewares, self._selections

    def middleware_buckets(self, middleware: object) -> HistogramBuckets:
        """Where its times are counted: under `semantic_cache`, if it is a `SemanticCache`."""
        return self._middlewares.with_labels(middleware_label(middleware))

    def selection_buckets(self, policy: str) -> HistogramBuckets:
        """Where the policy's times are counted."""
        return self._selections.with_labels(policy)


def middleware_label(middleware: object) -> str:
    """Return what `middleware` is called in metrics, in lower case with underscores."""
    return _WORD.sub("_", step_name_of(middleware).strip("_")).lower()


def step_name_of(middleware: object) -> str:
    """Return the `step_name` of `middleware`, which outlives renames of its class, or else its class's name."""
    name: str | None = getattr(middleware, "step_name", None)
    kind = middleware if isinstance(middleware, type) else type(middleware)
    return name or kind.__name__
