"""Logging: one format for every process of ours. Request and reply bodies are never logged."""

from __future__ import annotations

import logging

from rich.logging import RichHandler

from radixway.telemetry.console import ServerConsole


def configure_logging(level: str) -> None:
    """Send the package's log lines to standard error, coloured on a terminal, at `level` or above."""
    handler = RichHandler(console=ServerConsole(stderr=True), show_path=False, omit_repeated_times=False)
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s", datefmt="%H:%M:%S"))
    for name, least in (("radixway", level), ("uvicorn.error", "warning")):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(least.upper())
