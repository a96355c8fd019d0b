"""Batches of texts in numbers, under the published names."""

from __future__ import annotations

from functools import cache
from typing import Literal

from prometheus_client import Counter, Histogram

from radixway.telemetry import Metrics

Processing = Literal["sequential", "concurrent"]

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SIZES = (1, 2, 5, 10, 20, 50, 100, 200)
_RANGES = ((1, "1"), (5, "2-5"), (10, "6-10"), (20, "11-20"), (50, "21-50"))
"""The published ones: the largest size, and the label; what is larger is `50+`."""


class BatchCounts:
    """Counted once per batch."""

    def __init__(self, metrics: Metrics) -> None:
        registry, by_type = metrics.registry, ["processing_type"]
        requests = Counter("batch_classification_requests", "Batches of texts", by_type, registry=registry)
        texts = Counter("batch_classification_texts", "Texts in batches", by_type, registry=registry)
        errors = Counter(
            "batch_classification_errors",
            "Batches that were refused or failed, by the error's code",
            [*by_type, "error_type"],
            registry=registry,
        )
        durations = Histogram(
            "batch_classification_duration_seconds",
            "Seconds that a batch took",
            [*by_type, "batch_size_range"],
            buckets=_SECONDS,
            registry=registry,
        )
        sizes = Histogram(
            "batch_classification_size_distribution",
            "Texts in a batch",
            by_type,
            buckets=_SIZES,
            registry=registry,
        )
        self._requests, self._texts = cache(requests.labels), cache(texts.labels)
        self._errors, self._durations = cache(errors.labels), cache(durations.labels)
        self._sizes = cache(sizes.labels)

    def began(self, processing: Processing, size: int) -> None:
        """A batch of that many texts will be read."""
        self._requests(processing).inc()
        self._texts(processing).inc(size)
        self._sizes(processing).observe(size)

    def ended(self, processing: Processing, size: int, seconds: float) -> None:
        """It was."""
        label = next((label for most, label in _RANGES if size <= most), "50+")
        self._durations(processing, label).observe(seconds)

    def failed(self, processing: Processing, code: str) -> None:
        """It was not; `code` as the client is told."""
        self._errors(processing, code).inc()
