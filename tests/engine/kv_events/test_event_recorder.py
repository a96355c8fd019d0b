"""What is published is what is cached: hashes anyone can recompute, and no page too many or too few."""

import struct
from array import array
from hashlib import sha256
from random import Random

import pytest

from radixway.core.radix import Order, lfu, lru, priority, slru
from radixway.engine.engine_request import EngineRequest
from radixway.engine.kv_cache_manager import KVCacheManager
from radixway.engine.kv_events import (
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    KVCacheEvent,
    KVEventRecorder,
)
from radixway.engine.kv_events.event_recorder import encode_batch
from radixway.engine.page_pool import PagePool
from radixway.engine.sampling_params import SamplingParams
from radixway.engine.scheduler import Scheduler
from support.following import Follower, events_of

PAGE = 2


class Run:
    """A scheduler with an imagined model, whose cache is followed step by step by its events alone."""

    def __init__(self, pages: int, eviction: Order = lru) -> None:
        self.sent: list[list[KVCacheEvent]] = []
        self.events = KVEventRecorder(PAGE, self.sent.append)
        cache = KVCacheManager(PagePool(pages), PAGE, eviction=eviction, observer=self.events)
        self.scheduler = Scheduler(cache, max_running=6, max_batch_tokens=16)
        self.follower = Follower()
        self.arrived = 0

    def add(self, prompt: list[int], most: int = 1, salt: str = "", rank: int = 0) -> EngineRequest:
        self.arrived += 1
        request = EngineRequest(
            id=f"r{self.arrived}",
            tokens=array("i", prompt),
            params=SamplingParams(max_tokens=most),
            arrival=self.arrived,
            namespace=salt,
            priority=rank,
        )
        self.scheduler.add_request(request)
        return request

    def step(self, followed: bool = True) -> list[KVCacheEvent]:
        """One step and its events, which are followed."""
        work = self.scheduler.schedule()
        samples = [item.request for item in work if item.reaches_end]
        self.scheduler.update_after_step(work)
        for request in samples:
            request.tokens.append(sum(request.tokens) % 3)
            if len(request.tokens) >= request.max_len:
                self.scheduler.finish_request(request)
        return self.hand_over(followed)

    def hand_over(self, followed: bool = True) -> list[KVCacheEvent]:
        """What has happened since the last time; the follower now knows what the tree has."""
        self.sent.clear()
        self.events.flush_step()
        assert len(self.sent) <= 1, "one batch for a step, or none"
        for batch in self.sent if followed else ():
            self.follower.apply(events_of(encode_batch(0.0, batch, "map")))
        assert not followed or self.follower.sequences() == self._cached()
        return self.sent[0] if self.sent else []

    def finish(self, followed: bool = True) -> list[KVCacheEvent]:
        events = []
        while self.scheduler.running or self.scheduler.waiting:
            events += self.step(followed)
        return events

    def _cached(self) -> set[tuple[tuple[str, ...], tuple[int, ...]]]:
        """The same of the tree itself."""
        tree = self.scheduler.cache._tree
        found = set()
        for namespace, root in tree._roots.items():
            todo = [(root, b"")]
            while todo:
                node, above = todo.pop()
                key = above + node.key
                for end in range(node.start + 1, node.end + 1):
                    tokens = array("i", key[: end * tree.width])
                    found.add((tuple(filter(None, [namespace])), tuple(tokens)))
                todo += [(child, key) for child in node.children.values()]
        return found


@pytest.mark.parametrize("eviction", [lru, lfu, slru, priority])
@pytest.mark.parametrize("seed", range(4))
def test_events_alone_tell_what_is_cached_after_every_step_of_a_random_run(
    seed: int, eviction: Order
) -> None:
    random, run = Random(seed), Run(pages=24, eviction=eviction)
    kinds = set()
    for _ in range(400):
        if random.random() < 0.6:
            prompt = random.choices(range(3), k=random.randint(1, 24))
            run.add(prompt, random.randint(0, 20), random.choice(["", "", "tenant"]), random.randint(0, 2))
        inside = [*run.scheduler.running.values(), *run.scheduler.waiting]
        if inside and random.random() < 0.1:
            run.scheduler.finish_request(random.choice(inside))
        if not run.scheduler.running and random.random() < 0.3:
            run.scheduler.cache.reset_prefix_cache()
        kinds |= {type(event).__name__ for event in run.step()}
    run.finish()
    run.scheduler.cache.reset_prefix_cache()
    run.hand_over()
    assert not run.follower.blocks
    assert kinds == {"BlockStored", "BlockRemoved", "AllBlocksCleared"} and run.scheduler.preemptions


def test_hashes_are_a_chain_that_anyone_can_compute() -> None:
    run = Run(pages=20)
    run.add([1, 2, 3, 4, 5, 6])
    (stored,) = run.finish()
    assert isinstance(stored, BlockStored)
    digest, expected = b"", []
    for page in ((1, 2), (3, 4), (5, 6)):
        digest = sha256(digest + struct.pack("<2I", *page)).digest()
        expected.append(struct.unpack(">Q", digest[:8])[0])
    assert stored.block_hashes == expected
    assert stored.parent_block_hash is None and stored.token_ids == [1, 2, 3, 4, 5, 6]
    assert stored.medium == "GPU" and stored.block_size == PAGE and stored.extra_keys is None


def test_what_follows_names_its_parent_and_a_split_says_nothing() -> None:
    run = Run(pages=20)
    run.add([1, 2, 3, 4, 5, 6])
    (first,) = run.finish()
    run.add([1, 2, 3, 4, 9, 9, 8])
    (second,) = run.finish()
    assert len(run.scheduler.cache._tree) == 3, "the edge was split"
    assert second.parent_block_hash == first.block_hashes[1]
    assert second.token_ids == [9, 9] and len(second.block_hashes) == 1


def test_a_salt_makes_other_hashes_and_is_told_where_the_sequence_begins() -> None:
    run = Run(pages=20)
    run.add([1, 2, 3, 4])
    run.add([1, 2, 3, 4], salt="tenant")
    plain, salted = run.finish()
    assert not set(plain.block_hashes) & set(salted.block_hashes)
    assert salted.extra_keys == [("tenant",), None]
    run.add([1, 2, 3, 4, 5, 6], salt="tenant")
    (more,) = run.finish()
    assert more.parent_block_hash == salted.block_hashes[-1] and more.extra_keys is None


def test_two_that_computed_the_same_are_told_once() -> None:
    run = Run(pages=20)
    run.add([1], most=4)
    run.add([1], most=4)
    told = [block for event in run.finish() for block in event.block_hashes]
    assert len(told) == len(set(told)) == 2


def test_evictions_of_a_step_come_before_what_took_their_place() -> None:
    run = Run(pages=4)
    run.add([1, 2, 3, 4])
    run.finish()
    run.add([5, 6, 7, 8, 9, 10])
    removed, stored = run.finish()
    assert isinstance(removed, BlockRemoved) and isinstance(stored, BlockStored)


def test_a_step_without_news_sends_nothing() -> None:
    run = Run(pages=20)
    run.add([1, 2, 3], most=4)
    assert run.step()
    assert run.step() and not run.step(), "only every second token completes a page"


def test_kv_of_earlier_weights_is_gone_for_routers_though_running_requests_keep_it() -> None:
    run = Run(pages=20)
    kept = run.add([1, 2, 3], most=8)
    run.step()
    run.events.start_epoch("second\0")
    (cleared,) = run.hand_over(followed=False)
    assert isinstance(cleared, AllBlocksCleared)
    run.add([1, 2, 3, 4], salt="second\0")
    run.add([1, 2, 3, 4], salt="second\0tenant")
    told = run.finish(followed=False)
    assert len(kept.tokens) == 11 and run.scheduler.cache._tree.size > 5
    plain, salted = told
    assert plain.extra_keys is None and salted.extra_keys == [("tenant",), None]
    again = Run(pages=20)
    again.add([1, 2, 3, 4])
    assert again.finish()[0].block_hashes == plain.block_hashes, "the epoch is in no hash"
    run.add(list(range(10, 49)), salt="second\0")
    removed = {
        block for e in run.finish(followed=False) if isinstance(e, BlockRemoved) for block in e.block_hashes
    }
    assert removed and removed <= {*plain.block_hashes, *salted.block_hashes}


def test_clearing_makes_what_happened_before_it_in_the_step_moot() -> None:
    run = Run(pages=20)
    run.add([1, 2, 3, 4])
    while run.scheduler.running or run.scheduler.waiting:
        work = run.scheduler.schedule()
        run.scheduler.update_after_step(work)
        for request, _ in work:
            run.scheduler.finish_request(request)
    run.scheduler.cache.reset_prefix_cache()
    assert [type(event) for event in run.hand_over()] == [AllBlocksCleared]
