"""Long work on an event loop, in slices: between two of them others have their turn."""

import asyncio
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from time import perf_counter
from typing import TypeAlias, TypeVar

ResultT = TypeVar("ResultT")
ItemT = TypeVar("ItemT")

WorkSlices: TypeAlias = Generator[None, None, ResultT]
"""Work that yields wherever it may be interrupted, after a fraction of a millisecond each time."""

SLICE_S = 0.002
"""A turn of the event loop with such work takes about so long."""


def run_at_once(work: WorkSlices[ResultT]) -> ResultT:
    """Do all of `work` without interruption; return its result."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: ResultT = done.value
            return result


async def run_in_slices(work: WorkSlices[ResultT], slice_s: float = SLICE_S) -> ResultT:
    """Do all of `work`, yielding to the event loop every `slice_s` seconds; return its result."""
    slice_ends = perf_counter() + slice_s
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: ResultT = done.value
            return result
        if perf_counter() >= slice_ends:
            await asyncio.sleep(0)
            slice_ends = perf_counter() + slice_s


class DeferredWork:
    """Work that nobody waits for: what is short is done at once, the rest in slices of a task, in order."""

    def __init__(self, slice_s: float = SLICE_S) -> None:
        self._slice_s = slice_s
        self._waiting: deque[WorkSlices[None]] = deque()
        self._task: asyncio.Task[None] | None = None

    def __call__(self, work: WorkSlices[None]) -> None:
        """Begin `work`, if none waits, and leave what takes longer to the task. Needs a running loop."""
        if not self._waiting:
            slice_ends = perf_counter() + self._slice_s
            for _ in work:
                if perf_counter() >= slice_ends:
                    break
            else:
                return
        self._waiting.append(work)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run_waiting(), name="deferred work")

    async def finish_work(self) -> None:
        """Return when nothing waits any more."""
        if self._task is not None:
            await self._task

    async def _run_waiting(self) -> None:
        while self._waiting:
            await run_in_slices(self._waiting[0], self._slice_s)
            self._waiting.popleft()


def split_items(items: Iterable[ItemT], size: int) -> Iterator[list[ItemT]]:
    """Yield the items in lists of `size`, the last with what is left."""
    remaining = iter(items)
    while chunk := list(islice(remaining, size)):
        yield chunk
