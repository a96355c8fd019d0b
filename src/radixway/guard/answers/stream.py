"""A stream that a guard reads on its way to the client."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Self

from radixway.guard.answers.patience import DeadlineStream
from radixway.guard.answers.queue import EventQueue
from radixway.guard.answers.report import AnswerReport
from radixway.pipeline import Chunks, StreamBrokenError
from radixway.web.server_sent_events import split_events


class GuardedEvents(Chunks):
    """Passes on what is decided. A stream that a guard ends is closed at the worker at once."""

    def __init__(self, inner: Chunks, queue: EventQueue, report: AnswerReport, longest_wait_s: float) -> None:
        self._inner = DeadlineStream(inner, lambda: queue.has_pending, longest_wait_s)
        self._queue = queue
        self._report = report
        self._chunks = self._guarded_chunks()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._chunks)

    async def aclose(self) -> None:
        """See `Chunks`."""
        await self._chunks.aclose()
        await self._inner.aclose()
        self._report.finish_report()

    async def _guarded_chunks(self) -> AsyncGenerator[bytes]:
        queue = self._queue
        try:
            async for chunk in self._inner:
                if leaving := await self._push_chunk(chunk):
                    yield leaving
                if queue.ended:
                    await self._inner.aclose()
                    break
        except StreamBrokenError:
            if leaving := await queue.finish_stream():
                yield leaving
            raise
        if leaving := await queue.finish_stream():
            yield leaving
        self._report.finish_report()

    async def _push_chunk(self, chunk: bytes | None) -> bytes:
        if chunk is None:
            return await self._queue.release_overdue()
        return b"".join([await self._queue.push_event(event) for event in split_events(chunk)])
