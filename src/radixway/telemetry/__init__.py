"""What the gateway tells about itself: metrics, traces, logs and the journal of each request.

`scrapes.py` and `figures.py` read a gateway's metrics again, for whoever shows them to people.
"""

from radixway.telemetry.console import ServerConsole
from radixway.telemetry.figures import Figures, WorkerFigures, read_figures, read_worker_figures
from radixway.telemetry.heap_freezer import HeapFreezer
from radixway.telemetry.journal import Journal, JournalBook
from radixway.telemetry.journal_pages import NOT_PACKED, Shared
from radixway.telemetry.logs import configure_logging, flush_logs, log_fields
from radixway.telemetry.metrics import (
    Answers,
    Buckets,
    Metrics,
    Outcome,
    Prediction,
    Spent,
    Steps,
    Tally,
    expose,
)
from radixway.telemetry.scrapes import Change, NotMetrics, Scrape, Scrapes

__all__ = [
    "NOT_PACKED",
    "Answers",
    "Buckets",
    "Change",
    "Figures",
    "HeapFreezer",
    "Journal",
    "JournalBook",
    "Metrics",
    "NotMetrics",
    "Outcome",
    "Prediction",
    "Scrape",
    "Scrapes",
    "ServerConsole",
    "Shared",
    "Spent",
    "Steps",
    "Tally",
    "WorkerFigures",
    "configure_logging",
    "expose",
    "flush_logs",
    "log_fields",
    "read_figures",
    "read_worker_figures",
]
