"""Traces (OpenTelemetry): spans are made of a request's journal when it has ended, in a thread of their own.

Nothing here imports OpenTelemetry's packages before tracing is configured.
"""

from radixway.telemetry.tracing.context import Caller, read_caller
from radixway.telemetry.tracing.of_requests import LONGEST_PROMPT, Ended, spans_of_request
from radixway.telemetry.tracing.span import Span, spans_of
from radixway.telemetry.tracing.trace import Timed, Trace
from radixway.telemetry.tracing.tracing import Tracing, build_tracing, split_headers

__all__ = [
    "LONGEST_PROMPT",
    "Caller",
    "Ended",
    "Span",
    "Timed",
    "Trace",
    "Tracing",
    "build_tracing",
    "read_caller",
    "spans_of",
    "spans_of_request",
    "split_headers",
]
