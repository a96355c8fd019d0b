"""One request's part in a distributed trace: W3C Trace Context, and the stages noted on the way.

Source: https://www.w3.org/TR/trace-context-2/. Malformed headers are ignored.
"""

import re
from collections.abc import Iterable, Sequence
from random import getrandbits
from typing import Any, NamedTuple

TRACEPARENT = b"traceparent"
TRACESTATE = b"tracestate"

_PARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_MEMBER = re.compile(
    rb"(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})"
    rb"=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)
_MAX_TRACESTATE_BYTES = 512
"""Bytes, and …"""
_MAX_TRACESTATE_MEMBERS = 32
"""… members of a `tracestate` that is passed on; larger ones are dropped."""


class CallerSpan(NamedTuple):
    """The span that a request says it comes from."""

    trace_id: int
    span_id: int
    sampled: bool
    state: bytes = b""
    """Its `tracestate`, checked; empty if there is none that may travel on."""


def parse_caller_span(headers: Iterable[tuple[bytes, bytes]]) -> CallerSpan | None:
    """Return the caller's span, if the headers (names in lower case) say so as they should."""
    parents: list[bytes] = []
    states: list[bytes] = []
    for name, value in headers:
        if name == TRACEPARENT:
            parents.append(value)
        elif name == TRACESTATE:
            states.append(value)
    if len(parents) != 1:  # of two, either could be wrong
        return None
    found = _PARENT.fullmatch(parents[0].strip(b" \t"))
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == b"ff" or (version == b"00" and more is not None):
        return None
    if not (int(trace_id, 16) and int(span_id, 16)):
        return None
    return CallerSpan(int(trace_id, 16), int(span_id, 16), bool(int(flags, 16) & 1), _join_tracestate(states))


def format_traceparent(trace_id: int, span_id: int, *, sampled: bool) -> bytes:
    """Return the `traceparent` header for `trace_id` and `span_id`."""
    return b"00-%032x-%016x-%02x" % (trace_id, span_id, sampled)


def _join_tracestate(given: list[bytes]) -> bytes:
    joined = b",".join(given)
    if not joined or len(joined) > _MAX_TRACESTATE_BYTES:
        return b""
    members = [member for part in joined.split(b",") if (member := part.strip(b" \t"))]
    keys = {member.partition(b"=")[0] for member in members}
    is_valid = len(keys) == len(members) <= _MAX_TRACESTATE_MEMBERS and all(map(_MEMBER.fullmatch, members))
    return b",".join(members) if is_valid else b""


_LAST = 2**64 - 1


class TimedStage(NamedTuple):
    """A stretch of a request's time, in seconds since it began."""

    name: str
    began_s: float
    ended_s: float | None
    """None: it lasted as long as the answer did."""
    fields: dict[str, Any]
    holds: bool
    """The span contains what happened meanwhile."""
    number: int
    """Number of the worker's attempt; 0 without one."""


class TraceRecord:
    """A request's place in a trace. Only a `sampled` one collects anything."""

    __slots__ = ("caller", "sampled", "span_id", "stages", "trace_id", "unverified")

    def __init__(
        self, caller: CallerSpan | None, *, sampled: bool, unverified: CallerSpan | None = None
    ) -> None:
        """`caller`: whose trace goes on; None begins one. `unverified`: a caller that is only recorded."""
        self.caller = caller
        self.unverified = unverified
        self.sampled = sampled
        bits = getrandbits(192)  # one call costs as much as a bit of it
        self.trace_id = bits >> 64 or 1 if caller is None else caller.trace_id
        self.span_id = bits & _LAST or 1
        self.stages: Sequence[TimedStage] = [] if sampled else ()

    @property
    def id(self) -> str:
        """Return the id as logs and backends write it."""
        return f"{self.trace_id:032x}"

    def span_id_of(self, number: int) -> int:
        """The id of the request's span of that number; 0 is the request itself."""
        return (self.span_id + number) & _LAST or 1

    def propagation_headers(self, number: int) -> list[tuple[bytes, bytes]]:
        """Return the headers for a worker that works within the span of that number."""
        headers = [
            (TRACEPARENT, format_traceparent(self.trace_id, self.span_id_of(number), sampled=self.sampled))
        ]
        if self.caller is not None and self.caller.state:
            headers.append((TRACESTATE, self.caller.state))
        return headers

    def propagation_lines(self, number: int) -> bytes:
        """Return the same headers as HTTP/1.1 writes them."""
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
        """Record a stretch of time if the trace is sampled. `fields` are JSON values, never prompt text."""
        if isinstance(self.stages, list):
            self.stages.append(TimedStage(name, began_s, ended_s, fields, holds, number))
