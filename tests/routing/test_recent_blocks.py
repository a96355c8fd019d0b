"""Blocks in the order of their latest use, without what is over."""

from hypothesis import given
from hypothesis import strategies as st

from radixway.routing.recent_blocks import RecentBlocks


def test_what_was_used_least_recently_goes_first_a_prompts_end_before_its_start():
    recent = RecentBlocks()
    recent.touch_blocks([1, 2, 3], 0.0)
    recent.touch_blocks([4, 5], 1.0)
    recent.touch_blocks([1], 2.0)
    assert recent.drop_surplus(3) == [3, 2]
    assert recent.drop_surplus(2) == [5]
    assert recent.drop_older(2.0) == [4]
    assert recent.block_set() == {1}


def test_a_prompt_that_comes_again_and_again_takes_no_more_room():
    recent = RecentBlocks()
    recent.touch_blocks(range(1000, 1010), 0.0)
    for turn in range(1000):
        recent.touch_blocks(list(range(20)), float(turn))
        assert recent.entry_count < 10_000
    recent.check()
    assert recent.drop_older(500.0) == [*range(1009, 999, -1)]


@given(st.lists(st.tuples(st.lists(st.integers(0, 9000), unique=True), st.integers(1, 50))))
def test_whatever_is_used_nothing_is_lost_and_nothing_piles_up(uses):
    recent, order = RecentBlocks(), {}
    for turn, (blocks, capacity) in enumerate(uses):
        recent.touch_blocks(blocks, float(turn))
        for block in reversed(blocks):
            order.pop(block, None)
            order[block] = None
        recent.drop_surplus(capacity)
        order = dict.fromkeys(list(order)[-capacity:])
        recent.check()
        assert recent.block_set() == order.keys()


def test_what_counts_of_its_uses_makes_the_same_order_again():
    recent, again = RecentBlocks(), RecentBlocks()
    for blocks in ([1, 2, 3], [1, 9], [4], [2]):
        recent.touch_blocks(blocks, 0.0)
    for blocks in recent.iter_uses():
        again.touch_blocks(blocks, 0.0)
    assert recent.drop_surplus(0) == again.drop_surplus(0) == [3, 9, 1, 4, 2]
