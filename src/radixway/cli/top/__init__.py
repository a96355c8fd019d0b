"""`radixway top`: a running gateway in a terminal, as numbers that move.

It reads the gateway's public HTTP API and nothing else: `/metrics/prometheus`, `/list_workers`, `/requests`.
The screen needs the extra `console` (Textual); one frame as text or JSON needs nothing.
"""

from radixway.cli.top.gateway_reader import (
    GatewayReader,
    GatewaySample,
    PartUnavailable,
    SeenRequest,
    SeenWorker,
)
from radixway.cli.top.text_frame import render_json, render_text
from radixway.cli.top.top_view import TopView

__all__ = [
    "GatewayReader",
    "GatewaySample",
    "PartUnavailable",
    "SeenRequest",
    "SeenWorker",
    "TopView",
    "render_json",
    "render_text",
]
