"""The block index against a model that keeps a set of blocks for every worker."""

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from radixway.routing import BlockIndex
from radixway.routing.block_index import StorageTier

WORKERS = 4
CHAINS = [tuple(range(100 * chain, 100 * chain + 12)) for chain in range(4)]


def depth(blocks, held):
    """How many of `blocks` from the first one on are in `held`."""
    return next((at for at, block in enumerate(blocks) if block not in held), len(blocks))


def test_a_prefix_ends_at_the_first_block_that_is_missing():
    index = BlockIndex()
    slot = index.add_slot()
    index.set_followed(slot, True)
    index.add_blocks(slot, [1, 2, 3, 4])
    index.remove_blocks(slot, [2])
    assert index.match_prefix([1, 2, 3, 4], 0.0).device == {slot: 1}


def test_who_holds_nothing_of_a_prompt_is_left_out():
    index = BlockIndex()
    slots = [index.add_slot() for _ in range(3)]
    index.add_blocks(slots[1], [1])
    assert index.match_prefix([1, 2], 0.0).device == {slots[1]: 1}
    assert index.match_prefix([7], 0.0).device == {}
    assert index.match_prefix([], 0.0).device == {}


def test_long_prompts_lose_workers_at_the_right_blocks():
    index = BlockIndex()
    ends = [1, 127, 128, 129, 300, 512, 999, 1000]
    blocks = list(range(5000, 6000))
    for end in ends:
        slot = index.add_slot()
        index.set_followed(slot, True)
        index.add_blocks(slot, blocks[:end])
    assert index.match_prefix(blocks, 0.0).device == dict(enumerate(ends))


def test_tiers_continue_each_other():
    index = BlockIndex()
    slot = index.add_slot()
    index.set_followed(slot, True)
    index.add_blocks(slot, [1, 2])
    index.add_blocks(slot, [1, 2, 3], StorageTier.HOST)
    index.add_blocks(slot, [4, 6], StorageTier.DISK)
    matches = index.match_prefix([1, 2, 3, 4, 5, 6], 0.0)
    assert (matches.device[slot], matches.host[slot], matches.disk[slot]) == (2, 3, 4)
    assert matches.credit(slot, 0.75, 0.25) == 3.0


def test_every_copy_must_go_before_the_block_is_gone():
    index = BlockIndex()
    slot = index.add_slot()
    index.set_followed(slot, True)
    for _ in range(3):
        index.add_blocks(slot, [1])
    for _ in range(2):
        index.remove_blocks(slot, [1])
        assert index.match_prefix([1], 0.0).device == {slot: 1}
    index.remove_blocks(slot, [1])
    assert index.match_prefix([1], 0.0).device == {}


def test_predictions_last_until_events_are_due_and_assumptions_until_the_cache_is_full():
    index = BlockIndex(predicted_s=5.0)
    followed, silent = index.add_slot(), index.add_slot()
    index.set_followed(followed, True)
    index.set_capacity(silent, 3)
    index.predict_blocks(followed, [1, 2], 0.0, tokenized=True)
    index.predict_blocks(silent, [1, 2], 0.0, tokenized=True)
    assert index.match_prefix([1, 2], 4.0).device == {followed: 2, silent: 2}
    assert index.match_prefix([1, 2], 6.0).device == {silent: 2}
    index.predict_blocks(silent, [7, 8], 7.0, tokenized=True)
    assert index.match_prefix([1, 2], 7.0).device == {silent: 1}
    assert index.match_prefix([7, 8], 7.0).device == {silent: 2}


def test_what_a_worker_says_is_gone_is_not_predicted_any_more():
    index = BlockIndex(predicted_s=5.0)
    slot, other = index.add_slot(), index.add_slot()
    for one in (slot, other):
        index.set_followed(one, True)
        index.predict_blocks(one, [1, 2, 3], 0.0, tokenized=True)
        index.add_blocks(one, [1, 2, 3])
    index.add_blocks(slot, [1])
    index.remove_blocks(slot, [1, 3])
    assert index.match_prefix([1, 2, 3], 1.0).device == {slot: 2, other: 3}
    index.remove_blocks(slot, [1, 2])
    assert index.match_prefix([1, 2, 3], 1.0).device == {other: 3}
    index.check()
    index.predict_blocks(slot, [1, 2, 3], 1.0, tokenized=True)
    assert index.match_prefix([1, 2, 3], 1.0).device == {slot: 3, other: 3}


def test_what_is_assumed_stays_when_a_block_of_the_same_name_is_gone():
    index = BlockIndex(predicted_s=5.0)
    slot = index.add_slot()
    index.set_followed(slot, True)
    index.predict_blocks(slot, [1, 2], 0.0, tokenized=False)
    index.predict_blocks(slot, [1, 2], 0.0, tokenized=True)
    index.add_blocks(slot, [1, 2])
    index.remove_blocks(slot, [1, 2])
    assert index.match_prefix([1, 2], 1.0).device == {slot: 2}
    index.check()


def test_a_followed_worker_is_assumed_to_hold_blocks_that_its_events_do_not_speak_of():
    index = BlockIndex(predicted_s=5.0)
    slot = index.add_slot()
    index.set_followed(slot, True)
    index.predict_blocks(slot, [1, 2], 0.0, tokenized=False)
    assert index.match_prefix([1, 2], 1e6).device == {slot: 2}


@pytest.mark.parametrize(
    ("engine_tokens", "held", "matched"),
    [(16, 5, 5), (1, 5, 5), (8, 5, 5), (32, 5, 4), (128, 15, 8), (128, 7, 0), (24, 5, 4), (24, 3, 3)],
)
def test_a_match_ends_with_a_whole_block_of_the_engine(engine_tokens, held, matched):
    index = BlockIndex()
    slot, other = index.add_slot(), index.add_slot()
    index.set_followed(slot, True)
    index.add_blocks(slot, range(held))
    index.add_blocks(slot, range(held), StorageTier.HOST)
    index.add_blocks(other, range(held))
    index.set_engine_block_size(slot, engine_tokens, 16)
    found = index.match_prefix(range(20), 0.0)
    assert [tier.get(slot, 0) for tier in (found.device, found.host, found.disk)] == [matched] * 3
    assert found.device[other] == held, "the others' blocks are of the index's size"
    index.set_engine_block_size(slot, 16, 16)
    assert index.match_prefix(range(20), 0.0).device == {slot: held, other: held}


def test_what_is_predicted_and_assumed_is_reused_in_whole_blocks_of_the_engine_too():
    index = BlockIndex()
    followed, silent = index.add_slot(), index.add_slot()
    index.set_followed(followed, True)
    for slot in (followed, silent):
        index.set_engine_block_size(slot, 64, 16)
        index.predict_blocks(slot, range(7), 0.0, tokenized=True)
    assert index.match_prefix(range(20), 0.0).device == {followed: 4, silent: 4}


def test_a_slot_used_again_has_no_block_size_of_the_worker_before():
    index = BlockIndex()
    slot = index.add_slot()
    index.set_engine_block_size(slot, 64, 16)
    index.remove_slot(slot)
    assert index.add_slot() == slot
    index.add_blocks(slot, [1, 2, 3])
    assert index.match_prefix([1, 2, 3], 0.0).device == {slot: 3}


class IndexMachine(RuleBasedStateMachine):
    """Events, decisions, newcomers and departures in any order. Workers 0 and 1 publish events."""

    def __init__(self) -> None:
        super().__init__()
        self.index = BlockIndex(assumed_blocks=20, predicted_s=5.0)
        self.now = 0.0
        self.slots: list[int] = []
        self.exact: list[dict[StorageTier, Counter]] = []
        self.sent: list[list[tuple[float, tuple[int, ...]]]] = []
        for number in range(WORKERS):
            self.slots.append(self.index.add_slot())
            self.exact.append({tier: Counter() for tier in StorageTier})
            self.sent.append([])
            self.index.set_followed(self.slots[number], number < 2)

    a_chain = st.tuples(st.sampled_from(CHAINS), st.integers(1, 12)).map(lambda drawn: drawn[0][: drawn[1]])
    some_blocks = st.lists(
        st.sampled_from([block for chain in CHAINS for block in chain]), max_size=8, unique=True
    )
    a_tier = st.sampled_from(StorageTier)

    @rule(number=st.integers(0, 1), blocks=some_blocks, tier=a_tier)
    def store(self, number, blocks, tier):
        self.index.add_blocks(self.slots[number], blocks, tier)
        for block in blocks:
            self.exact[number][tier][block] += 1

    @rule(number=st.integers(0, 1), blocks=some_blocks, tier=a_tier)
    def remove(self, number, blocks, tier):
        self.index.remove_blocks(self.slots[number], blocks, tier)
        for block in blocks:
            self.exact[number][tier][block] = max(0, self.exact[number][tier][block] - 1)

    @rule(number=st.integers(0, WORKERS - 1), blocks=a_chain)
    def send(self, number, blocks):
        self.index.predict_blocks(self.slots[number], blocks, self.now, tokenized=True)
        self.sent[number].append((self.now, blocks))

    @rule(number=st.integers(0, WORKERS - 1))
    def clear(self, number):
        self.index.clear_slot(self.slots[number])
        self.forget(number)

    @rule(number=st.integers(2, WORKERS - 1))
    def replace(self, number):
        self.index.remove_slot(self.slots[number])
        self.slots[number] = self.index.add_slot()
        self.forget(number)

    @rule(seconds=st.sampled_from([0.5, 3.0, 6.0]))
    def wait(self, seconds):
        self.now += seconds

    def forget(self, number):
        self.exact[number] = {tier: Counter() for tier in StorageTier}
        self.sent[number] = []

    @invariant()
    def it_is_consistent(self):
        self.index.check()

    @invariant()
    def events_are_kept_exactly(self):
        for slot, exact in zip(self.slots, self.exact, strict=True):
            for tier in StorageTier:
                assert self.index.blocks_in_tier(slot, tier) == {
                    block for block, copies in exact[tier].items() if copies
                }

    @precondition(lambda self: True)
    @rule(blocks=a_chain)
    def match(self, blocks):
        matches = self.index.match_prefix(blocks, self.now)
        for number, slot in enumerate(self.slots):
            device = {block for block, copies in self.exact[number][StorageTier.DEVICE].items() if copies}
            least = depth(blocks, device)
            recently = {b for at, sent in self.sent[number] if self.now - at <= 5.0 for b in sent}
            ever = {b for _, sent in self.sent[number] for b in sent}
            found = matches.device.get(slot, 0)
            if number < 2:
                assert least <= found <= depth(blocks, device | recently)
            else:
                assert found <= depth(blocks, ever)
                latest = self.sent[number][-1][1] if self.sent[number] else ()
                assert found >= depth(blocks, set(latest))
            assert found <= matches.host.get(slot, 0) <= matches.disk.get(slot, 0)


TestIndex = IndexMachine.TestCase
TestIndex.settings = settings(stateful_step_count=40, deadline=None)
