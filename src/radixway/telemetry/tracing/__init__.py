"""Traces (OpenTelemetry): spans are made of a request's journal when it has ended, in a thread of their own.

Nothing here imports OpenTelemetry's packages before tracing is configured.
"""

from radixway.telemetry.tracing.context import CallerSpan, parse_caller_span
from radixway.telemetry.tracing.of_requests import MAX_PROMPT_BYTES, FinishedRequest, spans_of_request
from radixway.telemetry.tracing.span import TraceSpan, build_spans
from radixway.telemetry.tracing.trace import TimedStage, TraceRecord
from radixway.telemetry.tracing.tracing import RequestTracer, build_tracing, split_trace_headers

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
