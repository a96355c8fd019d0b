"""A span as plain data, independent of how it is exported."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from radixway.core.telemetry.trace_record import TimedStage, TraceRecord

log = logging.getLogger(__name__)

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
    """A short reason, never a sentence that may quote a user."""


Drawn = Callable[[TimedStage], "tuple[str, Kind, dict[str, Value]]"]
"""A stretch's name, kind and attributes."""

_UNNUMBERED_SPANS_FROM = 2**20
"""First number of spans without one."""


def build_spans(
    trace: TraceRecord, root: TraceSpan, stages: Sequence[TimedStage], epoch_ns: int, draw: Drawn
) -> list[TraceSpan]:
    """Return the root and, within it, the stages. `epoch_ns`: when the request began."""

    def place(began_s: float, ended_s: float | None) -> tuple[int, int]:
        began = min(max(epoch_ns + int(began_s * 1e9), root.began_ns), root.ended_ns)
        ended = root.ended_ns if ended_s is None else epoch_ns + int(ended_s * 1e9)
        return began, max(began, min(ended, root.ended_ns))

    holders: list[tuple[int, int, int]] = [(root.began_ns, root.ended_ns, root.span_id)]
    made: list[TraceSpan] = []
    # Of two stages that contain each other, the one recorded last is the outer one: it ended last.
    for index, stage in enumerate(reversed(stages)):
        began_ns, ended_ns = place(stage.began_s, stage.ended_s)
        span_id = trace.span_id_of(stage.number or _UNNUMBERED_SPANS_FROM + index)
        if stage.holds:
            holders.append((began_ns, ended_ns, span_id))
        name, kind, fields = draw(stage)
        error = stage.fields.get("error")
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
                failed=error if isinstance(error, str) else None,
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


_BATCH_SIZE = 32
"""Requests per export: encoding spans blocks the event loop."""


class RejectedSpans(NamedTuple):
    """Spans that were not exported."""

    why: str
    spans: int


class TraceExporter(Protocol):
    """The destination of spans. Called by one thread."""

    def export_spans(self, spans: list[TraceSpan]) -> RejectedSpans | None:
        """Export `spans` within a bounded time; None if all were accepted."""

    def close(self) -> None:
        """Close connections, and cancel a running export; called by any thread."""


class SpanExportQueue:
    """A bounded queue and its thread, from `start` to `stop`. What does not fit is dropped, and counted."""

    def __init__(self, exporter: TraceExporter, *, max_requests: int, interval_s: float) -> None:
        self.exported = 0
        self.failed = 0
        self.dropped = 0
        """Requests dropped because the queue was full."""
        self.problem: str | None = None
        """Why exports fail; None while they succeed."""
        self._exporter = exporter
        self._max_requests = max_requests
        self._interval_s = interval_s
        self._waiting: deque[Callable[[], list[TraceSpan]]] = deque()
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._export_loop, name="radixway-tracing", daemon=True)

    def __len__(self) -> int:
        return len(self._waiting)

    def queue_spans(self, make: Callable[[], list[TraceSpan]]) -> None:
        """Queue the spans that `make` returns for export. From any thread; never waits."""
        if len(self._waiting) >= self._max_requests:
            self.dropped += 1
            return
        self._waiting.append(make)
        if 2 * len(self._waiting) >= self._max_requests:
            self._wake.set()

    def start(self) -> None:
        """Start exporting."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Export what waits, as far as possible `timeout_s` seconds. Blocks."""
        self._stopping = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        self._exporter.close()

    def describe(self) -> dict[str, Any]:
        return {"error": self.problem, "waiting": len(self), "dropped": self.dropped, "failed": self.failed}

    def _export_loop(self) -> None:
        while not self._stopping:
            self._wake.wait(self._interval_s)
            self._wake.clear()
            while self._waiting:
                self._export_some()
                if self._stopping and self.problem is not None:
                    return

    def _export_some(self) -> None:
        spans: list[TraceSpan] = []
        for _ in range(min(_BATCH_SIZE, len(self._waiting))):
            make = self._waiting.popleft()
            try:
                spans += make()
            except Exception:  # a defect of ours must not end the thread
                log.exception("building a trace failed unexpectedly")
            time.sleep(0)  # let the event loop run first
        if not spans:
            return
        try:
            refused = self._exporter.export_spans(spans)
        except Exception as error:  # noqa: BLE001 - as above; it is told below
            refused = RejectedSpans(type(error).__name__, len(spans))
        if refused is None:
            self.exported += len(spans)
            if self.problem is not None:
                log.warning("traces are exported again")
            self.problem = None
            return
        self.exported += len(spans) - refused.spans
        self.failed += refused.spans
        if self.problem is None:
            log.warning("traces could not be exported, and are lost: %s", refused.why)
        self.problem = refused.why
