"""What is kept in great numbers is not looked at by the garbage collector: full collections stay short."""

import gc
import random
from collections.abc import Iterator

import pytest

from radixway.core.telemetry import Journal, JournalStore
from radixway.core.work_slices import run_at_once
from radixway.routing import BlockIndex
from radixway.routing.kv_events import KvEventCounts
from radixway.routing.kv_events.service import WorkerKvFeed
from support.kv_publishers import batch, stored


@pytest.fixture(autouse=True)
def no_collections() -> Iterator[None]:
    """All count as they were made: a collection untracks tuples of numbers."""
    gc.collect()
    gc.freeze()  # what is there by now is not counted again and again
    gc.disable()
    yield
    gc.enable()


def tracked() -> int:
    return len(gc.get_objects())


@pytest.mark.parametrize("engine_size", [16, 32, 24, 8])
def test_kv_events_of_a_hundred_thousand_blocks_leave_nothing_to_look_at(engine_size):
    index, draw = BlockIndex(), random.Random(1)
    feed = WorkerKvFeed(index, index.add_slot(), 16, KvEventCounts(), can_replay=False)
    (follower,) = feed.sequencers
    batches = []
    for number in range(100):
        hashes = [draw.getrandbits(64) for _ in range(1000)]
        tokens = [draw.randrange(150_000) for _ in range(1000 * engine_size)]
        batches.append((number, batch(stored(hashes, tokens))))
    before = tracked()
    for number, payload in batches:
        run_at_once(follower.on_live_batch(number, payload))
        run_at_once(feed.sync_index())
    assert len(follower.blocks) == 100_000 and len(index) >= 50_000
    assert tracked() - before < 1_000


@pytest.mark.parametrize("tokenized", [False, True])
def test_prompts_that_were_routed_leave_nothing_to_look_at(tokenized):
    index, draw = BlockIndex(assumed_blocks=100_000), random.Random(1)
    slot = index.add_slot()
    index.set_followed(slot, tokenized)
    before = tracked()
    for number in range(10_000):
        blocks = [draw.getrandbits(64) for _ in range(10)]
        index.predict_blocks(slot, blocks, number / 1e6, tokenized=tokenized)
    del blocks
    gc.collect(0)
    assert tracked() - before < 1_000


def test_ten_thousand_journals_leave_nothing_to_look_at():
    store = JournalStore(10_000)
    before = tracked()
    for number in range(10_000):
        journal = Journal(f"request-{number}")
        journal.tenant = f"tenant-{number % 7}"
        journal.add("receive", surface="openai.chat", bytes=number)
        store.save_journal(journal)
    del journal
    assert len(store) == 10_000
    gc.collect(0)
    gc.collect(1)
    assert tracked() - before < 1_000
