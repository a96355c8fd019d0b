"""What the gateway tells about itself: metrics, logging and the journal of each request."""

from radixway.telemetry.console import ServerConsole
from radixway.telemetry.journal import Journal, JournalBook
from radixway.telemetry.logs import configure_logging
from radixway.telemetry.metrics import Metrics

__all__ = ["Journal", "JournalBook", "Metrics", "ServerConsole", "configure_logging"]
