"""What one request's journal knows of its trace while the request is on its way."""

from __future__ import annotations

from collections.abc import Sequence
from random import getrandbits
from typing import Any, NamedTuple

from radixway.telemetry.tracing.context import TRACEPARENT, TRACESTATE, CallerSpan, format_traceparent

_LAST = 2**64 - 1


class TimedStage(NamedTuple):
    """A stretch of a request's time, in seconds since it began."""

    name: str
    began_s: float
    ended_s: float | None
    """None: it lasted as long as the answer did."""
    fields: dict[str, Any]
    holds: bool
    """What happened meanwhile is part of it."""
    number: int
    """How the worker that was asked knows it; 0 where nobody was."""


class TraceRecord:
    """One request's place in a trace. Only one that is `sampled` collects anything."""

    __slots__ = ("caller", "sampled", "span_id", "stretches", "trace_id", "unbelieved")

    def __init__(
        self, caller: CallerSpan | None, *, sampled: bool, unbelieved: CallerSpan | None = None
    ) -> None:
        """`caller`: whose trace goes on; None begins one. `unbelieved`: whose word is only noted."""
        self.caller = caller
        self.unbelieved = unbelieved
        self.sampled = sampled
        bits = getrandbits(192)  # one call costs as much as a bit of it
        self.trace_id = bits >> 64 or 1 if caller is None else caller.trace_id
        self.span_id = bits & _LAST or 1
        self.stretches: Sequence[TimedStage] = [] if sampled else ()

    @property
    def id(self) -> str:
        """As logs and backends write it."""
        return f"{self.trace_id:032x}"

    def span_id_of(self, number: int) -> int:
        """The id of the request's span of that number; 0 is the request itself."""
        return (self.span_id + number) & _LAST or 1

    def propagation_headers(self, number: int) -> list[tuple[bytes, bytes]]:
        """What is sent to whoever works within the span of that number."""
        told = [
            (TRACEPARENT, format_traceparent(self.trace_id, self.span_id_of(number), sampled=self.sampled))
        ]
        if self.caller is not None and self.caller.state:
            told.append((TRACESTATE, self.caller.state))
        return told

    def propagation_lines(self, number: int) -> bytes:
        """The same as HTTP/1.1 writes it."""
        if not self.sampled and self.caller is None:  # most requests; it has no spans to tell apart
            return b"traceparent: 00-%032x-%016x-00\r\n" % (self.trace_id, self.span_id)
        return b"".join([b"%b: %b\r\n" % header for header in self.propagation_headers(number)])

    def add_stage(
        self,
        name: str,
        began_s: float,
        ended_s: float | None,
        *,
        holds: bool = False,
        number: int = 0,
        **fields: Any,
    ) -> None:
        """Note a stretch of time, if anybody is to see it. `fields` are JSON values, never prompt text."""
        if isinstance(self.stretches, list):
            self.stretches.append(TimedStage(name, began_s, ended_s, fields, holds, number))
