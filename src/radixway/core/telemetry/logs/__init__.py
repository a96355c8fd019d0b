"""Logs: one line for each thing that happened, as JSON or for people, on standard error.

Logging never waits for a reader, and neither requests nor answers are ever logged.
"""

from radixway.core.telemetry.logs.setup import configure_logging, flush_logs, log_fields

__all__ = ["configure_logging", "flush_logs", "log_fields"]
