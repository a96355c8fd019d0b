"""Every page is allocated once, free runs are what a plain set of numbers says."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.engine.page_pool import FreeRunIndex, PagePool


def test_every_page_is_handed_out_once_and_page_zero_never() -> None:
    pool = PagePool(5)
    taken = [*pool.allocate_pages(2), *pool.allocate_pages(3)]
    assert sorted(taken) == [1, 2, 3, 4, 5]
    assert pool.num_free == 0
    pool.check(taken)


def test_more_than_is_free_is_refused() -> None:
    pool = PagePool(3)
    pool.allocate_pages(2)
    with pytest.raises(ValueError, match="2 pages wanted, 1 free"):
        pool.allocate_pages(2)
    with pytest.raises(ValueError, match="at least one page"):
        PagePool(0)


def test_the_check_finds_lost_doubled_and_foreign_pages() -> None:
    pool = PagePool(4)
    taken = pool.allocate_pages(2)
    pool.check(taken)
    for wrong in ([], [taken[0]], [*taken, taken[0]], [*taken, 9]):
        with pytest.raises(AssertionError, match="not owned exactly once"):
            pool.check(wrong)


def test_a_request_goes_on_in_neighbouring_pages_while_others_do_too() -> None:
    pool = PagePool(100)
    requests = [pool.allocate_pages(4, skip=8) for _ in range(4)]
    for _ in range(8):
        for pages in requests:
            pages.extend(pool.allocate_pages(1, after=pages[-1], skip=8))
    for pages in requests:
        assert pages.tolist() == list(range(pages[0], pages[0] + 12))
    pool.check(*requests)


def test_a_pool_without_neighbours_is_handed_out_to_the_last_page() -> None:
    pool = PagePool(20)
    everything = pool.allocate_pages(20)
    pool.free_pages(everything[::3])
    scattered = pool.allocate_pages(7, after=everything[0], skip=8)
    assert sorted(scattered) == sorted(everything[::3])
    assert pool.num_free == 0


def test_pages_that_are_held_from_the_start_are_not_handed_out() -> None:
    pool = PagePool(6, allocated=[2, 5, 6])
    assert sorted(pool.allocate_pages(3)) == [1, 3, 4]
    pool.check([2, 5, 6], [1, 3, 4])


SIZE = 60


@given(st.lists(st.tuples(st.booleans(), st.integers(0, SIZE - 1), st.integers(1, 12)), max_size=80))
def test_runs_are_what_a_set_of_numbers_says(moves: list[tuple[bool, int, int]]) -> None:
    runs, free = FreeRunIndex(), set(range(SIZE))
    runs.add_run(0, SIZE)
    for takes, at, count in moves:
        if takes and free:
            start = runs.longest_run()
            length = runs.run_length(start)
            skip = at % length
            taken = runs.take_from_run(start, skip, min(count, length - skip))
            assert set(taken) <= free
            free -= set(taken)
        elif not takes and at not in free:
            stop = at
            while stop < min(SIZE, at + count) and stop not in free:
                stop += 1
            runs.add_run(at, stop)
            free |= set(range(at, stop))
        found = sorted(runs)
        assert {number for start, stop in found for number in range(start, stop)} == free
        assert all(before[1] < after[0] for before, after in pairwise(found))
        assert runs.count == len(free)
        assert all(runs.run_length(start) == stop - start for start, stop in found)
        if free:
            start = runs.longest_run()
            assert runs.run_length(start) == max(stop - start for start, stop in found)
        else:
            assert runs.run_length(at) == 0


def test_its_memory_is_bounded_by_what_is_free_and_not_by_what_happened() -> None:
    runs = FreeRunIndex()
    runs.add_run(0, 1000)
    for _ in range(5000):
        taken = runs.take_from_run(runs.longest_run(), 0, 1)
        runs.add_run(taken.start, taken.stop)
    assert len(runs._longest) < 100
