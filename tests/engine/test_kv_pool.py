"""Pages are handed out once, and tell when they are not."""

import pytest

from radixway.engine.kv_pool import PagePool


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
    requests = [pool.allocate_pages(4, room=8) for _ in range(4)]
    for _ in range(8):
        for pages in requests:
            pages.extend(pool.allocate_pages(1, after=pages[-1], room=8))
    for pages in requests:
        assert pages.tolist() == list(range(pages[0], pages[0] + 12))
    pool.check(*requests)


def test_a_pool_without_neighbours_is_handed_out_to_the_last_page() -> None:
    pool = PagePool(20)
    everything = pool.allocate_pages(20)
    pool.free_pages(everything[::3])
    scattered = pool.allocate_pages(7, after=everything[0], room=8)
    assert sorted(scattered) == sorted(everything[::3])
    assert pool.num_free == 0


def test_pages_that_are_held_from_the_start_are_not_handed_out() -> None:
    pool = PagePool(6, held=[2, 5, 6])
    assert sorted(pool.allocate_pages(3)) == [1, 3, 4]
    pool.check([2, 5, 6], [1, 3, 4])
