"""Long work in slices: others have their turn between two, and what nobody waits for is done in order."""

import asyncio

from radixway.core.work_slices import DeferredWork, run_at_once, run_in_slices, split_items


def steps(done, name, count):
    for number in range(count):
        done.append((name, number))
        yield
    return name


def test_work_is_done_at_once_where_nobody_else_is_there():
    done = []
    assert run_at_once(steps(done, "a", 3)) == "a" and len(done) == 3


async def test_the_loop_turns_between_slices():
    done = []
    first = asyncio.create_task(run_in_slices(steps(done, "a", 3), slice_s=0))
    second = asyncio.create_task(run_in_slices(steps(done, "b", 3), slice_s=0))
    assert (await first, await second) == ("a", "b")
    assert done == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2)]


async def test_short_work_needs_no_turn_of_the_loop():
    done = []
    assert await run_in_slices(steps(done, "a", 3), slice_s=60) == "a"
    deferred = DeferredWork(slice_s=60)
    deferred(steps(done, "b", 3))
    assert len(done) == 6


async def test_deferred_work_is_done_in_order():
    done = []
    deferred = DeferredWork(slice_s=0)
    for name in "abc":
        deferred(steps(done, name, 2))
    assert done == [("a", 0)]
    await deferred.finish_work()
    assert done == [(name, number) for name in "abc" for number in range(2)]


def test_items_are_split():
    assert list(split_items(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert not list(split_items([], 2))
