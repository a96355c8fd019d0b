"""Decides which requests are traced, and exports the traces of finished ones."""

import asyncio
import logging
import os
from collections.abc import Callable
from random import random
from typing import Any

from radixway.core.component import Component
from radixway.core.config import ConfigError
from radixway.core.config.gateway import TracingConfig
from radixway.core.telemetry.metrics.metrics import MetricsRegistry
from radixway.core.telemetry.trace_record import (
    TRACEPARENT,
    TRACESTATE,
    CallerSpan,
    TraceRecord,
    parse_caller_span,
)
from radixway.core.telemetry.tracing.settings import TracingSettings, resolve_settings
from radixway.core.telemetry.tracing.spans import SpanExportQueue, TraceSpan

log = logging.getLogger(__name__)

Header = tuple[bytes, bytes]

_EXIT_FLUSH_S = 3.0


class RequestTracer(Component):
    """Begins a trace with each request and exports it with its last byte, from `start` on."""

    name = "tracing"

    def __init__(self, settings: TracingSettings, exporting: SpanExportQueue) -> None:
        self.exporting = exporting
        self.records_prompts = settings.section.record_prompts
        self._ratio = settings.ratio
        self._parent_based = settings.parent_based
        endpoint = settings.endpoint or "the endpoint of OTEL_EXPORTER_OTLP_ENDPOINT"
        self._collector = f"{endpoint} ({settings.protocol})"

    def start_trace(self, caller: CallerSpan | None, *, believed: bool) -> TraceRecord:
        """A request has come from `caller`. Who is believed decides what trace it belongs to, and (unless
        configured otherwise) whether that is kept; of others it is only noted who they say they are.
        """
        if caller is None or not believed:
            return TraceRecord(None, sampled=random() < self._ratio, unverified=caller)
        sampled = caller.sampled if self._parent_based else random() < self._ratio
        return TraceRecord(caller, sampled=sampled)

    def export_trace(self, make: Callable[[], list[TraceSpan]]) -> None:
        """Queue a traced request that has ended; `make` makes its spans when they are exported."""
        self.exporting.queue_spans(make)

    async def start(self) -> None:
        """Begin to export."""
        self.exporting.start()
        log.info("traces go to %s", self._collector)

    async def stop(self) -> None:
        """Export what waits, as far as that is done soon."""
        await asyncio.to_thread(self.exporting.stop, _EXIT_FLUSH_S)

    def describe(self) -> dict[str, Any]:
        return {"to": self._collector} | self.exporting.describe()

    def export_counts(self) -> list[tuple[str, float]]:
        """Spans that were exported or failed to be, and requests that were dropped, for a counter."""
        each = self.exporting
        return [("exported", each.exported), ("failed", each.failed), ("dropped", each.dropped)]


def _missing_package(error: ImportError) -> str:
    """Return what to install after an import error."""
    if (error.name or "").startswith("opentelemetry.proto"):
        return (
            "needs OpenTelemetry's own messages, which xds-protos (of radixway[envoy]) has written over "
            "with old ones: pip install --no-deps --force-reinstall opentelemetry-proto"
        )
    return f"needs radixway[tracing] (pip install 'radixway[tracing]'): {error}"


def build_tracing(
    section: TracingConfig,
    metrics: MetricsRegistry | None = None,
    *,
    service: str = "radixway",
    role: str = "gateway",
) -> RequestTracer | None:
    """Build tracing as configured, here or by `OTEL_*`; None if nothing is traced.

    `metrics`: where its counts are published. `service`: its name, unless it is said elsewhere.

    Raises ConfigError: it is wanted here, and the package is not installed; or a variable makes no sense.
    """
    settings = resolve_settings(section, os.environ)
    if settings is None:
        return None
    try:
        from radixway.core.telemetry.tracing.otlp import OtlpExporter

        exporter = OtlpExporter(settings, service=service, role=role)
    except ImportError as error:
        problem = _missing_package(error)
        if section.enabled or (section.enabled is None and section.endpoint is not None):
            raise ConfigError(f"telemetry.tracing {problem}") from None
        log.warning("OTEL_EXPORTER_OTLP_ENDPOINT is set, and nothing is traced: that %s", problem)
        return None
    exporting = SpanExportQueue(exporter, max_requests=section.queue_size, interval_s=section.interval_s)
    tracing = RequestTracer(settings, exporting)
    if metrics is not None:
        metrics.counters(
            "radixway_trace_spans",
            "Spans exported, or failed to be, and traced requests dropped because too many waited",
            "outcome",
            tracing.export_counts,
        )
    return tracing


_TRACE_HEADERS = (TRACEPARENT, TRACESTATE)


def split_trace_headers(headers: tuple[Header, ...]) -> tuple[CallerSpan | None, tuple[Header, ...]]:
    """Return the caller's span, and the headers without it: workers are told of our span instead."""
    for name, _ in headers:
        if name in _TRACE_HEADERS:
            others = tuple(header for header in headers if header[0] not in _TRACE_HEADERS)
            return parse_caller_span(headers), others
    return None, headers
