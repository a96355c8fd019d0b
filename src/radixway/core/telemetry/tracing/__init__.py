"""Traces (OpenTelemetry): spans are made of a request's journal when it has ended, in a thread of their own.

Nothing here imports OpenTelemetry's packages before tracing is configured.
"""

from radixway.core.telemetry.trace_record import CallerSpan, TimedStage, TraceRecord, parse_caller_span
from radixway.core.telemetry.tracing.request_spans import MAX_PROMPT_BYTES, FinishedRequest, spans_of_request
from radixway.core.telemetry.tracing.request_tracer import RequestTracer, build_tracing, split_trace_headers
from radixway.core.telemetry.tracing.spans import TraceSpan, build_spans

__all__ = [
    "MAX_PROMPT_BYTES",
    "CallerSpan",
    "FinishedRequest",
    "RequestTracer",
    "TimedStage",
    "TraceRecord",
    "TraceSpan",
    "build_spans",
    "build_tracing",
    "parse_caller_span",
    "spans_of_request",
    "split_trace_headers",
]
