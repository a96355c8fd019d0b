"""A span as a trace shows it: plain data, whatever carries it away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from radixway.core.telemetry.trace_record import TimedStage, TraceRecord

Value = str | bool | int | float | tuple[str, ...]
Kind = Literal["server", "client", "internal"]


class SpanEvent(NamedTuple):
    """A moment within a span."""

    name: str
    at_ns: int
    fields: dict[str, Value]


@dataclass(slots=True, kw_only=True)
class TraceSpan:
    """Times are nanoseconds since the epoch, ids as in `traceparent`; a parent of 0 is none."""

    trace_id: int
    span_id: int
    parent_id: int
    parent_is_remote: bool = False
    state: bytes = b""
    name: str
    kind: Kind = "internal"
    began_ns: int
    ended_ns: int
    fields: dict[str, Value] = field(default_factory=dict)
    events: list[SpanEvent] = field(default_factory=list)
    links: tuple[tuple[int, int], ...] = ()
    """(trace id, span id) of what it has to do with, and is no part of."""
    failed: str | None = None
    """A short reason, never a sentence that may quote somebody."""


Drawn = Callable[[TimedStage], "tuple[str, Kind, dict[str, Value]]"]
"""A stretch's name, kind and attributes."""

_BESIDE = 2**20
"""Where the numbers begin of spans that nobody was told of."""


def build_spans(
    trace: TraceRecord, root: TraceSpan, stretches: Sequence[TimedStage], epoch_ns: int, draw: Drawn
) -> list[TraceSpan]:
    """The root and, within it, the stretches: each in the narrowest that holds it.

    `epoch_ns`: when the request began; no stretch leaves the root's time.
    """

    def place(began_s: float, ended_s: float | None) -> tuple[int, int]:
        began = min(max(epoch_ns + int(began_s * 1e9), root.began_ns), root.ended_ns)
        ended = root.ended_ns if ended_s is None else epoch_ns + int(ended_s * 1e9)
        return began, max(began, min(ended, root.ended_ns))

    holders: list[tuple[int, int, int]] = [(root.began_ns, root.ended_ns, root.span_id)]
    made: list[TraceSpan] = []
    # Of two that hold each other the one that was noted last is the outer one: it ended last.
    for beside, each in enumerate(reversed(stretches)):
        began_ns, ended_ns = place(each.began_s, each.ended_s)
        span_id = trace.span_id_of(each.number or _BESIDE + beside)
        if each.holds:
            holders.append((began_ns, ended_ns, span_id))
        name, kind, fields = draw(each)
        made.append(
            TraceSpan(
                trace_id=root.trace_id,
                span_id=span_id,
                parent_id=0,
                state=root.state,
                name=name,
                kind=kind,
                began_ns=began_ns,
                ended_ns=ended_ns,
                fields=fields,
                failed=_stage_error(each),
            )
        )
    ranks = {span_id: rank for rank, (_, _, span_id) in enumerate(holders)}
    for span in made:
        outer = holders[: ranks.get(span.span_id, len(holders))]
        holding = [
            (began, -ended, rank, span_id)
            for rank, (began, ended, span_id) in enumerate(outer)
            if began <= span.began_ns and span.ended_ns <= ended
        ]
        span.parent_id = max(holding)[3]  # the root holds everything
    return [root, *reversed(made)]


def _stage_error(stretch: TimedStage) -> str | None:
    error = stretch.fields.get("error")
    return error if isinstance(error, str) else None
