"""Spans by OTLP, with OpenTelemetry's own exporters. Only this file imports them (`radixway[tracing]`)."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event as SdkEvent
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from radixway._version import __version__
from radixway.core.telemetry.tracing.settings import TracingSettings
from radixway.core.telemetry.tracing.spans import RejectedSpans, TraceSpan

if TYPE_CHECKING:
    from radixway.core.telemetry.tracing.otlp_session import OtlpSession

_KINDS = {"server": SpanKind.SERVER, "client": SpanKind.CLIENT, "internal": SpanKind.INTERNAL}
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_SCOPE = InstrumentationScope("radixway", __version__)
_LOGGERS = (
    "opentelemetry.exporter.otlp.common.http",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.proto.grpc.exporter",
)
_MAX_MESSAGE_CHARS = 300
_PROVIDERS = (
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_TRACES_CREDENTIAL_PROVIDER",
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER",
)
"""Variables that name a session with credentials for the exporter."""


class OtlpExporter:
    """An `Exporter`. What the library complains of is told by us, once, instead of with every export."""

    def __init__(self, settings: TracingSettings, *, service: str, role: str) -> None:
        """`service`: the default service name."""
        self._resource = _build_resource(settings, service, role)
        self._complaints = _ExporterLogFilter()
        self._posting: OtlpSession | None = None
        self._exporter = self._create_exporter(settings)
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(self._complaints)

    def export_spans(self, spans: list[TraceSpan]) -> RejectedSpans | None:
        with self._complaints:
            result = self._exporter.export([self._to_readable_span(span) for span in spans])
        posting = self._posting
        if result is not SpanExportResult.SUCCESS:
            # The library says "timeout, max retries or shutdown" of much, and not what was wrong.
            why = (posting is not None and posting.why) or self._complaints.last
            reason = why or "the collector did not take them"
            return RejectedSpans(" ".join(reason.split())[:_MAX_MESSAGE_CHARS], len(spans))
        if posting is None or not posting.rejected:
            return None
        reason = f"the collector rejects {posting.rejected} of {len(spans)} spans: {posting.why}"
        return RejectedSpans(" ".join(reason.split())[:_MAX_MESSAGE_CHARS], min(posting.rejected, len(spans)))

    def close(self) -> None:
        self._exporter.shutdown()
        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(self._complaints)

    def _create_exporter(self, settings: TracingSettings) -> SpanExporter:
        given: dict[str, Any] = {"endpoint": settings.endpoint, "timeout": settings.section.timeout_s}
        headers = {name.lower(): value.get_secret_value() for name, value in settings.section.headers.items()}
        if settings.protocol == "grpc":
            from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as Grpc

            if settings.endpoint is not None:
                given["insecure"] = settings.endpoint.startswith("http://")
            return Grpc(**given, headers=headers or None)
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as Http

        if not any(os.environ.get(name) for name in _PROVIDERS):
            from radixway.core.telemetry.tracing.otlp_session import OtlpSession

            self._posting = given["session"] = OtlpSession()
        return Http(**given, headers=headers or None)

    def _to_readable_span(self, span: TraceSpan) -> ReadableSpan:
        state = TraceState.from_header([span.state.decode("ascii")]) if span.state else None
        parent = None
        if span.parent_id:
            remote = span.parent_is_remote
            parent = SpanContext(span.trace_id, span.parent_id, remote, _SAMPLED, state)
        return ReadableSpan(
            name=span.name,
            context=SpanContext(span.trace_id, span.span_id, False, _SAMPLED, state),
            parent=parent,
            resource=self._resource,
            attributes=span.fields,
            events=[SdkEvent(event.name, event.fields, event.at_ns) for event in span.events],
            links=[Link(SpanContext(trace, other, True)) for trace, other in span.links],
            kind=_KINDS[span.kind],
            status=Status(StatusCode.UNSET) if span.failed is None else Status(StatusCode.ERROR, span.failed),
            start_time=span.began_ns,
            end_time=span.ended_ns,
            instrumentation_scope=_SCOPE,
        )


def _build_resource(settings: TracingSettings, service: str, role: str) -> Resource:
    """Build the resource: the environment overrides our defaults, the configuration both."""
    ours: dict[str, Any] = {"service.version": __version__, "radixway.role": role}
    made = Resource(ours).merge(Resource.create())
    named = made.attributes.get("service.name")
    if settings.section.service_name is not None:
        service = settings.section.service_name + service.removeprefix("radixway")
    elif isinstance(named, str) and not named.startswith("unknown_service"):
        service = named
    return made.merge(Resource({"service.name": service, **settings.section.resource}))


class _ExporterLogFilter(logging.Filter):
    """Filters the exporter's log records of its own thread."""

    def __init__(self) -> None:
        super().__init__()
        self.last: str | None = None
        self._thread: int | None = None

    def __enter__(self) -> None:
        self.last, self._thread = None, threading.get_ident()

    def __exit__(self, *_: object) -> None:
        self._thread = None

    def filter(self, record: logging.LogRecord) -> bool:
        if record.thread != self._thread:
            return True
        if record.levelno >= logging.WARNING:
            self.last = " ".join(record.getMessage().split())[:_MAX_MESSAGE_CHARS]
        return False
