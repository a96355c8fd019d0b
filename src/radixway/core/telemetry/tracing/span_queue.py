"""Exports finished traces in a thread of its own, so that no request waits for it."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from radixway.core.telemetry.tracing.span import TraceSpan

log = logging.getLogger(__name__)

_BATCH_SIZE = 32
"""Requests in an export: their spans become bytes in one go, and the event loop gets no turn meanwhile."""


class RejectedSpans(NamedTuple):
    """Spans that were not taken."""

    why: str
    spans: int
    """How many of those that were sent."""


class TraceExporter(Protocol):
    """The destination of spans. Called by one thread."""

    def export_spans(self, spans: list[TraceSpan]) -> RejectedSpans | None:
        """Export `spans` within a bounded time; None if all were taken."""
        ...

    def close(self) -> None:
        """Let go of connections, and cut short what is under way; called by any thread."""
        ...


class SpanExportQueue:
    """A bounded queue and its thread, from `start` to `stop`. What does not fit is dropped, and counted."""

    def __init__(self, exporter: TraceExporter, *, most: int, interval_s: float) -> None:
        self.exported = 0
        """Spans that were taken."""
        self.failed = 0
        """Spans that were not."""
        self.dropped = 0
        """Requests dropped because the queue was full."""
        self.problem: str | None = None
        """Why nothing is taken, while nothing is."""
        self._exporter = exporter
        self._most = most
        self._interval_s = interval_s
        self._waiting: deque[Callable[[], list[TraceSpan]]] = deque()
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._export_loop, name="radixway-tracing", daemon=True)

    def __len__(self) -> int:
        return len(self._waiting)

    def queue_spans(self, make: Callable[[], list[TraceSpan]]) -> None:
        """Have the spans that `make` returns exported soon. From any thread; never waits."""
        if len(self._waiting) >= self._most:
            self.dropped += 1
            return
        self._waiting.append(make)
        if 2 * len(self._waiting) >= self._most:
            self._wake.set()

    def start(self) -> None:
        """From here on exports are made."""
        self._thread.start()

    def stop(self, within_s: float) -> None:
        """Export what waits, as far as possible `within_s` seconds. Blocks."""
        self._stopping = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(within_s)
        self._exporter.close()

    def describe(self) -> dict[str, Any]:
        """For `/health`."""
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
            except Exception:  # the rim of the thread: a defect of ours must not end it
                log.exception("a trace met a defect")
            time.sleep(0)  # whoever answers requests goes first
        if not spans:
            return
        try:
            refused = self._exporter.export_spans(spans)
        except Exception as error:  # noqa: BLE001 - as above; it is told below
            refused = RejectedSpans(type(error).__name__, len(spans))
        if refused is None:
            self.exported += len(spans)
            if self.problem is not None:
                log.warning("traces are taken again")
            self.problem = None
            return
        self.exported += len(spans) - refused.spans
        self.failed += refused.spans
        if self.problem is None:
            log.warning("traces are not taken, and lost: %s", refused.why)
        self.problem = refused.why
