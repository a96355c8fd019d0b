"""W3C Trace Context: what callers say of the trace that a request belongs to, and what workers are told.

Source: https://www.w3.org/TR/trace-context-2/. What is malformed is as if it had not been said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

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
"""… members of a `tracestate` that travel on; of a larger one nothing does."""


class CallerSpan(NamedTuple):
    """The span that a request comes from, by its own word."""

    trace_id: int
    span_id: int
    sampled: bool
    state: bytes = b""
    """Its `tracestate`, checked; empty if there is none that may travel on."""


def parse_caller_span(headers: Iterable[tuple[bytes, bytes]]) -> CallerSpan | None:
    """Who calls, if the headers (names in lower case) say so as they should."""
    parents: list[bytes] = []
    states: list[bytes] = []
    for name, value in headers:
        if name == TRACEPARENT:
            parents.append(value)
        elif name == TRACESTATE:
            states.append(value)
    if len(parents) != 1:  # of two, nobody knows which is true
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
    """The header that says so."""
    return b"00-%032x-%016x-%02x" % (trace_id, span_id, sampled)


def _join_tracestate(given: list[bytes]) -> bytes:
    whole = b",".join(given)
    if not whole or len(whole) > _MAX_TRACESTATE_BYTES:
        return b""
    members = [member for each in whole.split(b",") if (member := each.strip(b" \t"))]
    keys = {member.partition(b"=")[0] for member in members}
    sound = len(keys) == len(members) <= _MAX_TRACESTATE_MEMBERS and all(map(_MEMBER.fullmatch, members))
    return b",".join(members) if sound else b""
