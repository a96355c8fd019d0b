"""The section `telemetry.logs`: what is logged, and how it looks."""

from __future__ import annotations

from typing import Literal

from radixway.config.base import ConfigSection


class LogsConfig(ConfigSection):
    """Lines on standard error (docs/observability.md)."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least that is logged."""
    format: Literal["auto", "json", "console"] = "auto"
    """`auto`: for people on a terminal, JSON elsewhere."""
    requests: bool = True
    """A line for each request."""
