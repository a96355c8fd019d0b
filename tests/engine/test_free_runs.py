"""Free numbers as runs, against a plain set of them."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from radixway.engine.free_runs import FreeRunIndex

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
