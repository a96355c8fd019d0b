"""Pages are handed out once, and tell when they are not."""

import pytest

from radixway.engine.pool import PagePool


def test_every_page_is_handed_out_once_and_page_zero_never() -> None:
    pool = PagePool(5)
    taken = [*pool.take(2), *pool.take(3)]
    assert sorted(taken) == [1, 2, 3, 4, 5]
    assert pool.free == 0
    pool.check(taken)


def test_more_than_is_free_is_refused() -> None:
    pool = PagePool(3)
    pool.take(2)
    with pytest.raises(ValueError, match="2 pages wanted, 1 free"):
        pool.take(2)
    with pytest.raises(ValueError, match="at least one page"):
        PagePool(0)


def test_the_check_finds_lost_doubled_and_foreign_pages() -> None:
    pool = PagePool(4)
    taken = pool.take(2)
    pool.check(taken)
    for wrong in ([], [taken[0]], [*taken, taken[0]], [*taken, 9]):
        with pytest.raises(AssertionError, match="not owned exactly once"):
            pool.check(wrong)
