"""Batches of texts in numbers, under the published names."""

from __future__ import annotations

from typing import Literal

from radixway.telemetry import MetricsRegistry

Processing = Literal["sequential", "concurrent"]

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SIZES = (1, 2, 5, 10, 20, 50, 100, 200)
_RANGES = ((1, "1"), (5, "2-5"), (10, "6-10"), (20, "11-20"), (50, "21-50"))
"""The published ones: the largest size, and the label; what is larger is `50+`."""


class BatchClassificationMetrics:
    """Counted once per batch."""

    def __init__(self, metrics: MetricsRegistry) -> None:
        self._requests = metrics.counter(
            "batch_classification_requests", "Batches of texts", "processing_type"
        )
        self._texts = metrics.counter("batch_classification_texts", "Texts in batches", "processing_type")
        self._errors = metrics.counter(
            "batch_classification_errors",
            "Batches that were refused or failed, by the error's code",
            *("processing_type", "error_type"),
        )
        self._durations = metrics.histogram(
            "batch_classification_duration_seconds",
            "Seconds that a batch took",
            _SECONDS,
            *("processing_type", "batch_size_range"),
        )
        self._sizes = metrics.histogram(
            "batch_classification_size_distribution", "Texts in a batch", _SIZES, "processing_type"
        )

    def record_started(self, processing: Processing, size: int) -> None:
        """A batch of that many texts will be read."""
        self._requests(processing).inc()
        self._texts(processing).inc(size)
        self._sizes(processing).observe(size)

    def record_finished(self, processing: Processing, size: int, seconds: float) -> None:
        """It was."""
        label = next((label for most, label in _RANGES if size <= most), "50+")
        self._durations(processing, label).observe(seconds)

    def record_failed(self, processing: Processing, code: str) -> None:
        """It was not; `code` as the client is told."""
        self._errors(processing, code).inc()
