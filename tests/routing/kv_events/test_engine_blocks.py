"""From an engine's blocks to the index's, whatever their sizes, tiers, copies and namespaces."""

import random
import tracemalloc

import pytest

from radixway.core.work_slices import run_at_once
from radixway.routing import BlockIndex
from radixway.routing.block_hash import hash_token_blocks, namespace_seed, pack_tokens
from radixway.routing.block_index import StorageTier
from radixway.routing.kv_events import KvEventCounts
from radixway.routing.kv_events import engine_blocks as blocks_module
from radixway.routing.kv_events.engine_blocks import EngineBlockTracker
from support.kv_publishers import batch, decode, removed, stored

SIZE = 4
TOKENS = list(range(100, 132))


def names(tokens, **namespace):
    return hash_token_blocks(pack_tokens(tokens), SIZE, namespace_seed(**namespace))


class Engine:
    """Blocks that tell an index."""

    def __init__(self):
        self.index = BlockIndex()
        self.slot = self.index.add_slot()
        self.index.set_followed(self.slot, True)
        self.counts = KvEventCounts()
        self.blocks = EngineBlockTracker(self.index, self.slot, SIZE, self.counts)
        self.blocks.updates_index = True

    def apply(self, *events):
        decoded = decode(batch(*events))
        assert not decoded.unreadable
        for event in decoded.events:
            run_at_once(self.blocks.apply_event(event))

    def hear(self, *events):
        self.apply(*events)
        self.blocks.check()
        self.index.check()
        for tier in StorageTier:
            assert self.held(tier) == self.blocks.blocks_in_tier(tier)

    def held(self, tier=StorageTier.DEVICE):
        return self.index.blocks_in_tier(self.slot, tier)


@pytest.fixture
def engine():
    return Engine()


@pytest.mark.parametrize("engine_size", [1, 2, 3, 4, 6, 8, 16, 32])
def test_blocks_of_any_size_are_named_by_the_tokens_along_their_parents(engine, engine_size):
    parent = None
    for end in range(engine_size, len(TOKENS) + 1, engine_size):
        engine.hear(stored([end], TOKENS[end - engine_size : end], parent))
        parent = end
        assert engine.held() == set(names(TOKENS[:end]))
    whole = Engine()
    count = len(TOKENS) // engine_size
    whole.hear(stored(list(range(1, count + 1)), TOKENS[: count * engine_size]))
    assert whole.held() == engine.held()


@pytest.mark.parametrize("engine_size", [1, 2, 3, 6, 8, 16])
def test_an_index_block_goes_with_the_engine_block_that_completes_it(engine, engine_size):
    count = len(TOKENS) // engine_size
    engine.hear(stored(list(range(1, count + 1)), TOKENS[: count * engine_size]))
    for last in range(count, 0, -1):
        engine.hear(removed([last]))
        assert engine.held() == set(names(TOKENS[: (last - 1) * engine_size]))
    assert not len(engine.blocks)


def test_an_unknown_parent_is_waited_for_and_never_taken_for_the_beginning(engine):
    engine.hear(stored([3], TOKENS[8:12], 2), stored([4], TOKENS[12:16], 3))
    assert not engine.held() and engine.blocks.orphans == 2
    engine.hear(stored([1, 2], TOKENS[:8]))
    assert engine.held() == set(names(TOKENS[:16])) and not engine.blocks.orphans


def test_orphans_that_went_away_before_their_parent_came_stay_away(engine):
    engine.hear(stored([3, 4], TOKENS[8:16], 2), stored([5], TOKENS[16:20], 4), removed([4]))
    engine.hear(stored([1, 2], TOKENS[:8]))
    first = names(TOKENS[:20])
    assert engine.held() == {first[0], first[1], first[2], first[4]}


def test_a_long_chain_of_orphans_is_attached(engine):
    tokens = list(range(20_000))
    for number in range(4999, 0, -1):
        engine.apply(stored([number], tokens[4 * number : 4 * number + 4], number - 1 or 10**6))
    engine.hear(stored([10**6], tokens[:4]))
    assert len(engine.held()) == 5000


def test_orphans_are_bounded_and_the_oldest_go_first(engine, monkeypatch):
    monkeypatch.setattr(blocks_module, "MAX_ORPHANS", 3)
    for number in range(5):
        engine.hear(stored([10 + number], TOKENS[4:8], number))
    assert engine.blocks.orphans == 3
    engine.hear(stored([0], [7, 7, 7, 7]), stored([4], TOKENS[:4]))
    assert names(TOKENS[:8])[1] in engine.held() and len(engine.held()) == 3


def test_every_tier_is_told_apart(engine):
    engine.hear(stored([1, 2], TOKENS[:8]))
    engine.hear(stored([1, 2], TOKENS[:8], medium="CPU"), removed([2]))
    one, two = names(TOKENS[:8])
    assert (engine.held(), engine.held(StorageTier.HOST)) == ({one}, {one, two})
    engine.hear(removed([1, 2], "CPU"), stored([3], TOKENS[8:12], 1, medium="DISK"))
    assert (engine.held(), engine.held(StorageTier.HOST)) == ({one}, set())
    assert engine.held(StorageTier.DISK) == {names(TOKENS[:4] + TOKENS[8:12])[1]}


def test_an_offloaded_block_without_tokens_is_the_one_that_is_known(engine):
    engine.hear(stored([1, 2], TOKENS[:8]))
    offloaded = {"type": "BlockStored", "block_hashes": [2, 99], "parent_block_hash": None, "token_ids": []}
    engine.hear(offloaded | {"block_size": 4, "medium": "CPU"})
    assert engine.held(StorageTier.HOST) == {names(TOKENS[:8])[1]}
    engine.hear(offloaded | {"block_size": 16, "medium": "DISK"})  # a chunk of several blocks
    assert not engine.held(StorageTier.DISK)
    engine.hear(removed([2]))
    engine.hear(removed([2], "CPU"))
    assert engine.held() == {names(TOKENS[:4])[0]} and not engine.held(StorageTier.HOST)


def test_a_block_with_two_copies_goes_with_the_second(engine):
    for _ in range(3):  # no more than two are counted
        engine.hear(stored([1], TOKENS[:4]))
    engine.hear(removed([1]))
    assert engine.held() == set(names(TOKENS[:4]))
    engine.hear(removed([1]))
    assert not engine.held() and not len(engine.blocks)


@pytest.mark.parametrize("count", [2, 8, 700])
def test_blocks_that_are_told_again_from_the_beginning_are_no_copies(engine, count):
    tokens = [number % 977 for number in range(4 * count)]
    hashes = list(range(1, count + 1))
    for _ in range(3):
        engine.hear(stored(hashes, tokens))
    engine.hear(removed(hashes))
    assert not engine.held() and not len(engine.blocks)


def test_a_beginning_that_is_known_in_part_or_in_another_tier_is_not_told_again(engine):
    engine.hear(stored([1, 2], TOKENS[:8]))
    engine.hear(stored([1, 2], TOKENS[:8], medium="CPU"))
    engine.hear(stored([1, 2, 3], TOKENS[:12]), removed([1, 2, 3]))
    one, two = names(TOKENS[:8])
    assert engine.held() == {one, two} == engine.held(StorageTier.HOST)


def test_copies_of_an_answers_blocks_count_although_a_beginning_told_again_does_not(engine):
    engine.hear(stored([1, 2], TOKENS[:8]), stored([3], TOKENS[8:12], 2))
    engine.hear(stored([1, 2], TOKENS[:8]), stored([3], TOKENS[8:12], 2))
    engine.hear(removed([3, 2, 1]))
    assert engine.held() == {names(TOKENS[:12])[2]}


def test_as_many_copies_count_behind_a_parent_as_there_are(engine):
    engine.hear(stored([1], TOKENS[:4]))
    for _ in range(5):
        engine.hear(stored([2], TOKENS[4:8], 1))
    for _ in range(4):
        engine.hear(removed([2]))
        assert engine.held() == set(names(TOKENS[:8]))
    engine.hear(removed([2]))
    assert engine.held() == set(names(TOKENS[:4]))


def test_no_more_copies_are_counted_than_the_engines_memory_holds(engine):
    engine.blocks.kv_tokens = 4 * SIZE
    engine.hear(stored([1], TOKENS[:4]), stored([1], TOKENS[:4]))
    engine.hear(stored([2], TOKENS[4:8], 1), stored([1], TOKENS[:4], medium="CPU"))
    engine.hear(stored([3], TOKENS[8:12], 2))  # with the copy the memory is full
    engine.hear(removed([1]))
    assert engine.held() == set(names(TOKENS[:12]))
    engine.hear(stored([1], TOKENS[:4]), stored([4], TOKENS[12:16], 3))  # so that copy cannot be
    engine.hear(removed([1, 2, 3, 4]))
    assert not engine.held()
    assert engine.held(StorageTier.HOST) == {names(TOKENS[:4])[0]}


def test_removing_what_is_not_there_changes_nothing(engine):
    engine.hear(stored([1], TOKENS[:4]), removed([5]), removed([1], "CPU"))
    assert engine.held() == set(names(TOKENS[:4]))


def test_salt_and_adapter_are_inherited_along_the_parents(engine):
    engine.hear(stored([1], TOKENS[:4], extra_keys=[["salt"]]))
    engine.hear(stored([2], TOKENS[4:8], 1))
    engine.hear(stored([3], TOKENS[:4], lora_name="ada", extra_keys=[["ada"]]))
    engine.hear(stored([4], TOKENS[4:8], 3, lora_name="ada", extra_keys=[["ada"]]))
    engine.hear(stored([5, 6], TOKENS[:8]))
    salted, adapted = names(TOKENS[:8], cache_salt="salt"), names(TOKENS[:8], lora="ada")
    assert engine.held() == {*salted, *adapted, *names(TOKENS[:8])}


def test_an_image_keeps_its_blocks_and_all_behind_them_apart(engine):
    plain = names(TOKENS[:12])
    image = [None, [["image", 0]], None]
    engine.hear(stored([1, 2, 3], TOKENS[:12], extra_keys=image))
    first = engine.held()
    assert plain[0] in first and not {plain[1], plain[2]} & first and len(first) == 3
    engine.hear(stored([4], TOKENS[12:16], 3))
    assert names(TOKENS[:16])[3] not in engine.held()
    other = Engine()
    other.hear(stored([1, 2, 3], TOKENS[:12], extra_keys=[None, [["picture", 0]], None]))
    assert other.held() & first == {plain[0]}


def test_only_the_first_main_attention_group_counts(engine):
    full, window = {"kv_cache_spec_kind": "full_attention"}, {"kv_cache_spec_kind": "sliding_window"}
    engine.hear(stored([1], TOKENS[:4], group_idx=1, **full), stored([1], TOKENS[:4], group_idx=0, **window))
    engine.hear(stored([9], TOKENS[4:8], 1, group_idx=2, **full))
    engine.hear(removed([1], group_idx=0), removed([1], group_idx=2))
    assert engine.held() == set(names(TOKENS[:4]))
    engine.hear(removed([1], group_idx=1))
    assert not engine.held()


def test_what_was_learnt_untold_is_told_together(engine):
    engine.blocks.updates_index = False
    engine.apply(stored([1, 2], TOKENS[:8]), stored([1], TOKENS[:4], medium="CPU"))
    assert not engine.held()
    run_at_once(engine.blocks.index_all())
    assert (engine.held(), engine.held(StorageTier.HOST)) == (set(names(TOKENS[:8])), set(names(TOKENS[:4])))


@pytest.mark.slow
def test_a_million_blocks_would_fit_in_300_mb(engine):
    rng, count = random.Random(5), 100_000
    tracemalloc.start()
    for _ in range(count // 100):
        tokens = [rng.randrange(150_000) for _ in range(100 * SIZE)]
        event = stored([rng.getrandbits(64) for _ in range(100)], tokens)
        engine.apply(event)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(engine.index) == count and taken < 300 * count


def test_random_sizes_of_events_and_blocks_name_what_a_prompt_names():
    rng = random.Random(3)
    for _ in range(200):
        engine, size = Engine(), rng.randint(1, 9)
        tokens = [rng.randrange(2**32) for _ in range(size * rng.randint(1, 12))]
        hashes = [rng.getrandbits(64) for _ in range(len(tokens) // size)]
        at = 0
        while at < len(hashes):
            stop = rng.randint(at + 1, len(hashes))
            engine.hear(
                stored(hashes[at:stop], tokens[at * size : stop * size], hashes[at - 1] if at else None)
            )
            at = stop
        assert engine.held() == set(names(tokens))
