"""Metrics in Prometheus' words: what is counted, what is read when somebody scrapes, and how it is told.

`docs/metrics.md` lists all of them; a test compares it with a live gateway. Label values are bounded: our
own words, served models, configured tenants, workers of the fleet.
"""

from radixway.telemetry.metrics.attempts import Answers, Attempts, Outcome, Prediction, Spent
from radixway.telemetry.metrics.figures import Buckets, Tally
from radixway.telemetry.metrics.metrics import Metrics
from radixway.telemetry.metrics.reading import Together
from radixway.telemetry.metrics.steps import Steps
from radixway.telemetry.metrics.text import Exposition, expose

__all__ = [
    "Answers",
    "Attempts",
    "Buckets",
    "Exposition",
    "Metrics",
    "Outcome",
    "Prediction",
    "Spent",
    "Steps",
    "Tally",
    "Together",
    "expose",
]
