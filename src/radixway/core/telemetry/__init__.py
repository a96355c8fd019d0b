"""Telemetry of the gateway: metrics, traces, logs and the journal of each request.

`scrapes.py` reads a gateway's metrics again, to show them to people.

State, and the file that owns it:

- `journal.py`: journals of the latest requests, oldest out first, packed by `journal_pages.py`; `/requests`
  and `/prefixes` read them
- `tracing/spans.py`: journals whose spans are to be exported, in a thread of its own; bounded, drops
  are counted
- `logs/line_writer.py`: log lines to be written, in a thread of its own; bounded, losses are counted and
  logged
- `metrics/attempt_metrics.py`: counts of workers' answers; a worker that leaves takes its series along
- `metrics/multiprocess.py`: counts shared by processes, a file each; written whole, a dead process is known
  by its free lock
"""

from radixway.core.telemetry.event_loop_lag import EventLoopLag
from radixway.core.telemetry.heap_freezer import HeapFreezer
from radixway.core.telemetry.journal import Journal, JournalStore
from radixway.core.telemetry.journal_pages import SharedObject
from radixway.core.telemetry.logs import configure_logging, flush_logs, log_fields
from radixway.core.telemetry.metrics.attempt_metrics import (
    AttemptSeries,
    AttemptUsage,
    Outcome,
    PriceOf,
    UsagePrediction,
)
from radixway.core.telemetry.metrics.metrics import MetricsRegistry
from radixway.core.telemetry.metrics.primitives import HistogramBuckets, LabeledCounter, render_exposition
from radixway.core.telemetry.metrics.request_metrics import StepMetrics
from radixway.core.telemetry.scrapes import (
    GatewayStats,
    InvalidMetricsError,
    MetricsScrape,
    ScrapeDelta,
    ScrapeHistory,
    WorkerStats,
    read_gateway_stats,
    read_worker_stats,
)
from radixway.core.telemetry.terminal import ServerConsole

__all__ = [
    "AttemptSeries",
    "AttemptUsage",
    "EventLoopLag",
    "GatewayStats",
    "HeapFreezer",
    "HistogramBuckets",
    "InvalidMetricsError",
    "Journal",
    "JournalStore",
    "LabeledCounter",
    "MetricsRegistry",
    "MetricsScrape",
    "Outcome",
    "PriceOf",
    "ScrapeDelta",
    "ScrapeHistory",
    "ServerConsole",
    "SharedObject",
    "StepMetrics",
    "UsagePrediction",
    "WorkerStats",
    "configure_logging",
    "flush_logs",
    "log_fields",
    "read_gateway_stats",
    "read_worker_stats",
    "render_exposition",
]
