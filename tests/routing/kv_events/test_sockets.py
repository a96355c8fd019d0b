"""Over real sockets: publishers that restart, lose messages, come late and answer in their own dialects."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import replace

import pytest
import zmq
import zmq.asyncio

from radixway.core.config import KvEventsConfig, WorkerSettings
from radixway.engine.kv_events import BlockStored, ZmqEventPublisher
from radixway.routing import BlockIndex, KvEventsState, WorkerRegistry, WorkerState
from radixway.routing.block_hash import hash_token_blocks, pack_tokens
from radixway.routing.block_index import StorageTier
from radixway.routing.kv_events import KvEventCounts, KvEventService
from radixway.routing.kv_events.subscription import SubscriptionTimeouts
from radixway.routing.worker import ServerInfo
from support.kv_publishers import END, CachingEngine, batch, sglang_array, stored, vllm_array

SIZE = 4
TIMING = SubscriptionTimeouts(quiet_s=0.05, away_s=0.3, silent_s=5.0, replay_s=20.0, retry_s=0.05)


class Ear:
    """A gateway's part that hears KV events, and what it makes of them."""

    def __init__(self, timing=TIMING):
        self.registry = WorkerRegistry()
        self.index = BlockIndex()
        self.registry.on_add.append(self._enroll)
        self.events = KvEventService(self.registry, self.index, SIZE, KvEventCounts(), timing)
        self.events.open()
        self.events.on_change.append(lambda _: self._changed.set())
        self._changed = asyncio.Event()

    def _enroll(self, worker):
        if worker.slot < 0:
            worker.slot = self.index.add_slot()

    def add(self, name="http://w", **fields):
        return self.registry.add_worker(WorkerSettings(url=name, kv_events=KvEventsConfig(**fields)))

    def follower(self, worker):
        (subscriber,) = self.events._feeds[worker].worker_feed.sequencers
        return subscriber

    async def until(self, holds):
        async with asyncio.timeout(120):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    async def until_exact(self, worker, *engines):
        """Wait until the worker is followed and the index has what the engines hold."""
        want = {
            hash_token_blocks(pack_tokens(prefix), SIZE)[-1] for one in engines for prefix in one.held("GPU")
        }

        def exact():
            followed = worker.kv_events.state is KvEventsState.FOLLOWING
            return followed and self.index.blocks_in_tier(worker.slot) == want

        await self.until(exact)
        self.index.check()


@pytest.fixture
async def ear() -> AsyncIterator[Ear]:
    ear = Ear()
    yield ear
    await ear.events.stop_subscriptions()


@pytest.fixture
def closing():
    with ExitStack() as stack:
        yield stack


class Ours:
    """Our engine's real publisher, and what its cache holds."""

    def __init__(self, endpoint, replay, **more):
        self.cache = CachingEngine(SIZE)
        self.publisher = ZmqEventPublisher(endpoint, replay_endpoint=replay, **more)

    def compute(self, *prompt):
        for event in self.cache.cache(tuple(prompt)):
            del event["type"]
            self.publisher.publish_events([BlockStored(**event)])


def ipc(tmp_path):
    return {"endpoint": f"ipc://{tmp_path}/e", "replay_endpoint": f"ipc://{tmp_path}/r"}


async def test_a_late_joiner_learns_what_was_cached_before_it_came(ear, closing):
    engine = Ours("tcp://127.0.0.1:*", "tcp://127.0.0.1:*")
    closing.callback(engine.publisher.shutdown)
    for first in range(0, 1000, 100):
        engine.compute(*range(first, first + 8))
    told = engine.publisher.info
    worker = ear.add(endpoint=told.endpoint, replay_endpoint=told.replay_endpoint)
    await ear.until_exact(worker, engine.cache)
    engine.compute(*range(5000, 5008))
    await ear.until_exact(worker, engine.cache)


async def test_the_size_of_an_engines_blocks_is_learnt_from_its_events(ear, closing):
    engine = Ours("tcp://127.0.0.1:*", "tcp://127.0.0.1:*")
    engine.cache = CachingEngine(4 * SIZE)
    closing.callback(engine.publisher.shutdown)
    engine.compute(*range(8 * SIZE))
    worker = ear.add(
        endpoint=engine.publisher.info.endpoint, replay_endpoint=engine.publisher.info.replay_endpoint
    )
    assert worker.block_tokens == 1
    await ear.until(lambda: worker.kv_events.blocks == 2)
    assert worker.block_tokens == worker.describe()["block_tokens"] == 4 * SIZE
    names = hash_token_blocks(pack_tokens(range(7 * SIZE)), SIZE)
    assert ear.index.match_prefix(names, 0.0).device == {worker.slot: 4}
    ear.registry.update_info(worker, ServerInfo(kv_tokens=1000))
    assert ear.follower(worker).blocks.kv_tokens == 1000
    ear.registry.remove_worker(worker.url)
    assert worker.block_tokens == 1


async def test_the_size_of_blocks_that_a_worker_reports_counts_where_it_publishes_nothing(ear):
    worker = ear.registry.add_worker(WorkerSettings(url="http://w"))
    ear.index.predict_blocks(worker.slot, range(7), 0.0, tokenized=True)
    assert ear.index.match_prefix(range(9), 0.0).device == {worker.slot: 7}
    ear.registry.update_info(worker, ServerInfo(block_tokens=4 * SIZE))
    assert ear.index.match_prefix(range(9), 0.0).device == {worker.slot: 4}


async def test_a_publisher_that_is_restarted_is_followed_anew(ear, closing, tmp_path):
    where = ipc(tmp_path)
    first = Ours(where["endpoint"], where["replay_endpoint"])
    with ExitStack() as living:
        living.callback(first.publisher.shutdown)
        worker = ear.add(**where)
        first.compute(1, 2, 3, 4, 5, 6, 7, 8)
        first.compute(*range(100, 120))
        await ear.until_exact(worker, first.cache)
    second = Ours(where["endpoint"], where["replay_endpoint"])
    closing.callback(second.publisher.shutdown)
    second.compute(9, 9, 9, 9)
    await ear.until_exact(worker, second.cache)
    assert ear.events.counts.restarts + ear.events.counts.degradations


async def test_a_publisher_that_stays_away_is_not_trusted(ear, tmp_path):
    where = ipc(tmp_path)
    engine = Ours(where["endpoint"], where["replay_endpoint"])
    with ExitStack() as living:
        living.callback(engine.publisher.shutdown)
        engine.compute(1, 2, 3, 4)
        worker = ear.add(**where)
        await ear.until_exact(worker, engine.cache)
    await ear.until(lambda: worker.kv_events.state is KvEventsState.DEGRADED)
    assert not ear.index.blocks_in_tier(worker.slot) and "away" in worker.kv_events.reason


class Dialect:
    """A hand-made publisher as other engines have it, that loses what it is told to lose."""

    def __init__(self, context, form, *, topic="", with_topic=False, size=SIZE, connect_to=None):
        self.cache = CachingEngine(size, history_steps=50)
        self.form, self.topic, self.with_topic = form, topic.encode(), with_topic
        self.socket = context.socket(zmq.PUB)
        self.replays = context.socket(zmq.ROUTER)
        self.replays.sndhwm = 0  # a ROUTER drops what is not taken quickly
        self.replay_endpoint = f"tcp://127.0.0.1:{self.replays.bind_to_random_port('tcp://127.0.0.1')}"
        if connect_to is None:
            self.endpoint = f"tcp://127.0.0.1:{self.socket.bind_to_random_port('tcp://127.0.0.1')}"
        else:
            self.socket.connect(connect_to)
        self.asked: list[int] = []
        self.answering = asyncio.create_task(self.answer())

    async def compute(self, *prompt, lose=False):
        if events := self.cache.cache(tuple(prompt)):
            await self.tell(events, lose=lose)

    async def tell(self, events, *, lose=False):
        number, payload = self.cache.publish(events, self.form)
        if not lose:
            await self.socket.send_multipart((self.topic, number.to_bytes(8, "big"), payload))

    async def answer(self):
        while True:
            *envelope, start = await self.replays.recv_multipart()
            self.asked.append(int.from_bytes(start, "big"))
            topic = [self.topic] if self.with_topic else []
            for number, payload in self.cache.replay(self.asked[-1]):
                await self.replays.send_multipart((*envelope, *topic, number.to_bytes(8, "big"), payload))
            await self.replays.send_multipart((*envelope, *topic, END, b""))


@pytest.fixture
async def context() -> AsyncIterator[zmq.asyncio.Context]:
    made = zmq.asyncio.Context()
    yield made
    made.destroy(linger=0)


DIALECTS = {
    "vLLM": {"form": dict, "topic": "kv@10.0.0.1:8000@model", "with_topic": True},
    "vLLM up to 0.23": {"form": vllm_array},
    "SGLang": {"form": sglang_array},
}


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
async def test_other_engines_are_followed_through_losses_and_restarts(ear, context, dialect):
    engine = Dialect(context, **dialect)
    await engine.compute(*range(8))
    worker = ear.add(
        endpoint=engine.endpoint, replay_endpoint=engine.replay_endpoint, topic=dialect.get("topic", "")
    )
    await ear.until_exact(worker, engine.cache)
    await engine.compute(*range(100, 112))
    await ear.until_exact(worker, engine.cache)
    for first in (200, 300, 400):  # a range is dropped
        await engine.compute(*range(first, first + 8), lose=True)
    await engine.compute(*range(500, 508))
    await ear.until_exact(worker, engine.cache)
    await engine.compute(*range(600, 608), lose=True)  # the last one, behind which nothing follows
    await ear.until_exact(worker, engine.cache)
    engine.cache = CachingEngine(SIZE, first_hash=7000)  # another process, with the same sockets
    await engine.compute(*range(8))
    await ear.until_exact(worker, engine.cache)
    engine.answering.cancel()


async def test_a_history_that_is_gone_degrades_until_the_engine_is_cleared(ear, context):
    engine = Dialect(context, dict)
    for first in range(0, 8000, 100):  # more batches than it keeps
        await engine.compute(*range(first, first + 4), lose=True)
    worker = ear.add(endpoint=engine.endpoint, replay_endpoint=engine.replay_endpoint)
    await ear.until(lambda: worker.kv_events.state is KvEventsState.DEGRADED)
    assert "gone from its history" in worker.kv_events.reason and not ear.index.blocks_in_tier(worker.slot)
    await engine.tell(engine.cache.clear())
    await engine.compute(*range(8))
    await ear.until_exact(worker, engine.cache)
    engine.answering.cancel()


async def test_an_engine_with_pages_of_one_token_is_followed(ear, context):
    engine = Dialect(context, sglang_array, size=1)
    worker = ear.add(endpoint=engine.endpoint, replay_endpoint=engine.replay_endpoint)
    await engine.compute(*range(14))
    want = set(hash_token_blocks(pack_tokens(range(14)), SIZE))
    await ear.until(lambda: ear.index.blocks_in_tier(worker.slot) == want)
    engine.answering.cancel()


async def test_an_engine_that_connects_to_the_gateway_is_heard(ear, context, free_port):
    engine = Dialect(context, vllm_array, connect_to=f"tcp://127.0.0.1:{free_port}")
    worker = ear.add(endpoint=f"tcp://*:{free_port}", replay_endpoint=engine.replay_endpoint)
    await ear.until(lambda: worker.kv_events.state is KvEventsState.FOLLOWING)
    await engine.compute(*range(8))
    await ear.until_exact(worker, engine.cache)
    engine.answering.cancel()


async def test_data_parallel_ranks_are_one_worker(ear, closing, free_port, other_free_port):
    engines = [
        Ours(f"tcp://*:{free_port + rank}", f"tcp://127.0.0.1:{other_free_port + rank}") for rank in (0, 1)
    ]
    for engine in engines:
        closing.callback(engine.publisher.shutdown)
    worker = ear.add(
        endpoint=f"tcp://127.0.0.1:{free_port}",
        replay_endpoint=f"tcp://127.0.0.1:{other_free_port}",
        ranks=2,
    )
    engines[0].compute(1, 2, 3, 4)
    engines[1].compute(5, 6, 7, 8)
    await ear.until_exact(worker, *(engine.cache for engine in engines))


async def test_a_replay_endpoint_that_does_not_answer_degrades_in_words(context, free_port):
    ear = Ear(replace(TIMING, silent_s=0.1))
    engine = Dialect(context, dict)
    worker = ear.add(endpoint=engine.endpoint, replay_endpoint=f"tcp://127.0.0.1:{free_port}")
    await ear.until(lambda: worker.kv_events.state is KvEventsState.DEGRADED)
    assert str(free_port) in worker.kv_events.reason
    engine.answering.cancel()
    await ear.events.stop_subscriptions()


async def test_a_worker_that_comes_back_is_asked_at_once(context):
    ear = Ear(SubscriptionTimeouts(quiet_s=3600.0, away_s=3600.0))
    engine = Dialect(context, dict)
    worker = ear.add(endpoint=engine.endpoint, replay_endpoint=engine.replay_endpoint)
    await engine.compute(*range(8))
    await ear.until_exact(worker, engine.cache)
    await engine.compute(*range(100, 108), lose=True)
    ear.registry.set_state(worker, WorkerState.DOWN)
    ear.registry.set_state(worker, WorkerState.READY)
    await ear.until_exact(worker, engine.cache)
    engine.answering.cancel()
    await ear.events.stop_subscriptions()


async def test_a_worker_that_is_removed_or_switched_off_leaves_nothing_behind(ear, context):
    engine = Dialect(context, dict)
    fields = {"endpoint": engine.endpoint, "replay_endpoint": engine.replay_endpoint}
    worker = ear.add(**fields)
    await engine.compute(*range(8))
    await ear.until_exact(worker, engine.cache)
    ear.registry.add_worker(WorkerSettings(url="http://w", kv_events="off"))
    assert not ear.index.blocks_in_tier(worker.slot) and worker.kv_events.state is KvEventsState.OFF
    assert worker.kv_events.reason == "switched off"
    ear.add(**fields)
    await ear.until_exact(worker, engine.cache)
    ear.registry.remove_worker("http://w")
    assert not len(ear.index) and not ear.index.blocks_in_tier(worker.slot, StorageTier.HOST)
    engine.answering.cancel()


async def test_a_foreign_message_is_passed_over(ear, context):
    engine = Dialect(context, dict)
    worker = ear.add(endpoint=engine.endpoint, replay_endpoint=engine.replay_endpoint)
    await ear.until(lambda: worker.kv_events.state is KvEventsState.FOLLOWING)
    await engine.socket.send_multipart((b"", b"seven", b"what?"))
    await engine.socket.send(b"alone")
    await engine.compute(*range(8))
    await ear.until_exact(worker, engine.cache)
    engine.answering.cancel()


class FloodingReplay(Dialect):
    """Its answer to a replay lies ready as a whole, so that reading it never waits."""

    batches = 3_000

    async def answer(self):
        while True:
            *envelope, _ = await self.replays.recv_multipart()
            for number in range(self.batches):
                event = stored([number], [1, 2, 3, 4], parent=None)
                await self.replays.send_multipart((*envelope, number.to_bytes(8, "big"), batch(event)))
            await self.replays.send_multipart((*envelope, END, b""))


async def test_others_get_their_turn_while_a_long_history_is_replayed(ear, context):
    engine = FloodingReplay(context, dict)
    try:
        worker = ear.add(endpoint=engine.endpoint, replay_endpoint=engine.replay_endpoint)
        seen = set()
        async with asyncio.timeout(120):
            while worker.kv_events.state is not KvEventsState.FOLLOWING:
                seen.add(ear.follower(worker).last)
                await asyncio.sleep(0)
        assert worker.kv_events.last_batch == engine.batches - 1
        assert len(seen - {-1, engine.batches - 1}) >= 2
    finally:
        engine.answering.cancel()
