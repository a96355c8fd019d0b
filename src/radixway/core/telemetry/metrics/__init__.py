"""Metrics in Prometheus' words: counters, gauges read at each scrape, and their exposition.

`docs/metrics.md` lists all of them; a test compares it with a live gateway. Label values are bounded: our
own words, served models, configured tenants, workers of the fleet.
"""

from radixway.core.telemetry.metrics.attempt_metrics import (
    AttemptSeries,
    AttemptUsage,
    Outcome,
    UsagePrediction,
)
from radixway.core.telemetry.metrics.metrics import MetricsRegistry
from radixway.core.telemetry.metrics.primitives import (
    HistogramBuckets,
    LabeledCounter,
    render_exposition,
)
from radixway.core.telemetry.metrics.request_metrics import StepMetrics

__all__ = [
    "AttemptSeries",
    "AttemptUsage",
    "HistogramBuckets",
    "LabeledCounter",
    "MetricsRegistry",
    "Outcome",
    "StepMetrics",
    "UsagePrediction",
    "render_exposition",
]
