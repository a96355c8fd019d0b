"""Long work on a text, away from the event loop: a step at a time, in two threads for all requests.

loop       ─ await ─┬───────────────┬─ …      others are served meanwhile
threads             └ step ┘ └ step ┘         a task that was cancelled asks for no further step
"""

import asyncio
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from radixway.core.work_slices import run_at_once

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
Steps = Generator[None, None, T]
"""Work that pauses wherever others may go on."""

_THREADS = ThreadPoolExecutor(2, "radixway-guard")
"""More would not be faster, and each makes the event loop wait longer for the interpreter lock."""

_STEP_SIZE, _MIN_SIZE = 32_768, 256
"""Characters of short texts that make a step, and the least that each counts as."""


async def run_in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in a thread as one step, and return its result."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS, lambda: work(*args, **kwargs))


async def run_steps(steps: Steps[T], *, inline: bool = False) -> T:
    """Run each of `steps` in a thread, others' steps in between, and return their result.

    `inline`: run them at once on the event loop, as those for a short text.
    """
    if inline:
        return run_at_once(steps)
    while (done := await run_in_thread(_advance, steps)) is None:
        pass
    return done[0]


def steps_in_turn(
    texts: Iterable[S], steps_of: Callable[[S], Steps[T]], size_of: Callable[[S], int]
) -> Steps[list[T]]:
    """Run `steps_of` each of `texts`; those short by `size_of` share a step. Results are in order."""
    results: list[T] = []
    size = 0
    for each in texts:
        results.append((yield from steps_of(each)))
        size += size_of(each) + _MIN_SIZE
        if size >= _STEP_SIZE:
            size = 0
            yield
    return results


def _advance(steps: Steps[T]) -> tuple[T] | None:
    try:
        next(steps)
    except StopIteration as done:  # no exception that a future could hold
        return (done.value,)
    return None
