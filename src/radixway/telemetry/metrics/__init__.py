"""Metrics in Prometheus' words: what is counted, what is read when somebody scrapes, and how it is told.

`docs/metrics.md` lists all of them; a test compares it with a live gateway. Label values are bounded: our
own words, served models, configured tenants, workers of the fleet.
"""

from radixway.telemetry.metrics.attempts import (
    AttemptMetrics,
    AttemptSeries,
    AttemptUsage,
    Outcome,
    UsagePrediction,
)
from radixway.telemetry.metrics.figures import HistogramBuckets, LabeledCounter
from radixway.telemetry.metrics.metrics import MetricsRegistry
from radixway.telemetry.metrics.reading import MergeMode
from radixway.telemetry.metrics.steps import StepMetrics
from radixway.telemetry.metrics.text import MetricsExposition, render_exposition

__all__ = [
    "AttemptMetrics",
    "AttemptSeries",
    "AttemptUsage",
    "HistogramBuckets",
    "LabeledCounter",
    "MergeMode",
    "MetricsExposition",
    "MetricsRegistry",
    "Outcome",
    "StepMetrics",
    "UsagePrediction",
    "render_exposition",
]
