"""What the gateway tells about itself: metrics, logging and the journal of each request."""

from radixway.telemetry.console import ServerConsole
from radixway.telemetry.journal import Journal, JournalBook
from radixway.telemetry.logs import configure_logging
from radixway.telemetry.metrics import Metrics
from radixway.telemetry.scrapes import Change, NotMetrics, Scrape, Scrapes

__all__ = [
    "Change",
    "Journal",
    "JournalBook",
    "Metrics",
    "NotMetrics",
    "Scrape",
    "Scrapes",
    "ServerConsole",
    "configure_logging",
]
