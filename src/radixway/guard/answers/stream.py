"""A stream that a guard reads on its way to the client."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Self

from radixway.guard.answers.patience import Patient
from radixway.guard.answers.queue import EventQueue
from radixway.guard.answers.report import Report
from radixway.pipeline import Chunks, StreamBroken
from radixway.web.server_sent_events import split_events


class GuardedEvents(Chunks):
    """Passes on what is decided. A stream that a guard ends is closed at the worker at once."""

    def __init__(self, inner: Chunks, queue: EventQueue, report: Report, longest_wait_s: float) -> None:
        self._inner = Patient(inner, lambda: queue.waits, longest_wait_s)
        self._queue = queue
        self._report = report
        self._chunks = self._all()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._chunks)

    async def aclose(self) -> None:
        """See `Chunks`."""
        await self._chunks.aclose()
        await self._inner.aclose()
        self._report.close()

    async def _all(self) -> AsyncGenerator[bytes]:
        queue = self._queue
        try:
            async for chunk in self._inner:
                if leaving := await self._take(chunk):
                    yield leaving
                if queue.ended:
                    await self._inner.aclose()
                    break
        except StreamBroken:
            if leaving := await queue.end():
                yield leaving
            raise
        if leaving := await queue.end():
            yield leaving
        self._report.close()

    async def _take(self, chunk: bytes | None) -> bytes:
        if chunk is None:
            return await self._queue.hurry()
        return b"".join([await self._queue.take(event) for event in split_events(chunk)])
