"""Long work is done a step at a time, off the loop, and no further than somebody waits for it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from radixway.core.work_slices import run_at_once
from radixway.semantics.guard.step_executor import run_in_thread, run_steps, steps_in_turn


async def test_steps_are_done_in_a_thread_and_the_loop_goes_on_meanwhile():
    seen, go_on = [], threading.Event()

    def steps():
        seen.append(threading.current_thread())
        assert go_on.wait(10), "the loop was held"
        yield
        return "done"

    working = asyncio.create_task(run_steps(steps()))
    await asyncio.get_running_loop().run_in_executor(None, lambda: None)  # the loop turns
    go_on.set()
    assert await working == "done"
    assert seen[0] is not threading.main_thread()


async def test_whoever_waits_no_more_has_no_further_step_done():
    done, begun, go_on = [], threading.Event(), threading.Event()

    def steps():
        for number in range(100):
            done.append(number)
            begun.set()
            go_on.wait(10)
            yield

    working = asyncio.create_task(run_steps(steps()))
    await asyncio.to_thread(begun.wait, 10)
    working.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await working
    for _ in range(3):  # whatever the threads had been given
        await run_in_thread(lambda: None)
    assert done == [0]


async def test_errors_and_arguments_pass():
    with pytest.raises(ValueError, match="invalid literal"):
        await run_in_thread(int, "x")
    assert await run_in_thread(int, "ff", base=16) == 255


def test_several_short_texts_are_one_step_and_long_ones_one_each():
    def measured(text):
        return len(text)
        yield

    def pauses(texts):
        return sum(1 for _ in steps_in_turn(texts, measured, len))

    assert run_at_once(steps_in_turn(["a", "bb"], measured, len)) == [1, 2]
    assert pauses(["short"] * 100) == 0
    assert pauses(["long" * 10_000] * 5) == 5
