"""A stream that a guard reads on its way to the client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Self

from radixway.guard.answers.queue import EventQueue
from radixway.guard.answers.report import Report
from radixway.pipeline import Chunks, StreamBroken
from radixway.pipeline.events import split_events


class GuardedEvents(Chunks):
    """Passes on what is decided. A stream that a guard ends is closed at the worker at once."""

    def __init__(self, inner: Chunks, queue: EventQueue, report: Report, longest_wait_s: float) -> None:
        self._inner = inner
        self._queue = queue
        self._report = report
        self._longest_wait_s = longest_wait_s
        self._next: asyncio.Task[bytes] | None = None
        self._hurried = False
        """All that could leave without more text has left."""
        self._deadline: float | None = None
        """When what is held back has waited long enough, in the event loop's time."""
        self._chunks = self._all()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._chunks)

    async def aclose(self) -> None:
        """See `Chunks`."""
        if self._next is not None:
            self._next.cancel()
            await asyncio.gather(self._next, return_exceptions=True)
        await self._chunks.aclose()
        await self._inner.aclose()
        self._report.close()

    async def _all(self) -> AsyncGenerator[bytes]:
        queue = self._queue
        try:
            while not queue.ended:
                if leaving := await self._step():
                    yield leaving
        except StopAsyncIteration:
            pass
        except StreamBroken:
            if leaving := await queue.end():
                yield leaving
            raise
        else:
            await self._inner.aclose()
        if leaving := await queue.end():
            yield leaving
        self._report.close()

    async def _step(self) -> bytes:
        """The worker's next chunk; or, where it takes its time, what has waited long enough."""
        if self._next is None:
            if self._hurried or not self._queue.waits:
                return await self._take(await anext(self._inner))
            self._next = asyncio.ensure_future(self._one())
        done, _ = await asyncio.wait({self._next}, timeout=self._patience_s())
        if not done:
            self._hurried, self._deadline = True, None
            return await self._queue.hurry()
        task, self._next = self._next, None
        return await self._take(task.result())

    def _patience_s(self) -> float | None:
        if self._hurried:
            return None
        now = asyncio.get_running_loop().time()
        if self._deadline is None:
            self._deadline = now + self._longest_wait_s
        return max(0.0, self._deadline - now)

    async def _one(self) -> bytes:
        return await anext(self._inner)

    async def _take(self, chunk: bytes) -> bytes:
        self._hurried = False
        leaving = [await self._queue.take(event) for event in split_events(chunk)]
        if not self._queue.waits:
            self._deadline = None
        return b"".join(leaving)
