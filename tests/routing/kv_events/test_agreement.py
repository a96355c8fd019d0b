"""Whatever is lost on the way, the index ends as the union of what the workers truly hold."""

import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from radixway.core.work_slices import run_at_once
from radixway.routing import BlockIndex, KvEventsState
from radixway.routing.block_hash import hash_token_blocks, pack_tokens
from radixway.routing.block_index import StorageTier
from radixway.routing.kv_events import KvEventCounts
from radixway.routing.kv_events.service import WorkerKvFeed
from support.kv_publishers import CachingEngine, sglang_array, vllm_array

SIZE = 4
WORKERS = 3
ENGINE_SIZES = (4, 1, 8)
FORMS = (dict, sglang_array, vllm_array)
MEDIA = {"GPU": StorageTier.DEVICE, "CPU": StorageTier.HOST, "DISK": StorageTier.DISK}
PROMPTS = [
    tuple(range(100 * family, 100 * family + 8)) + tuple(range(tail, tail + 8))
    for family in range(3)
    for tail in (0, 50)
]

CONNECTED = object()
"""Among what is under way: the subscriber is connected anew, which it always gets to know."""


class Worker:
    """An engine, what of its batches is under way, and its follower."""

    def __init__(self, number, index):
        self.form, self.size = FORMS[number], ENGINE_SIZES[number]
        self.engine = CachingEngine(self.size)
        self.runs = 0
        self.live = []
        self.index, self.slot = index, index.add_slot()
        self.following = WorkerKvFeed(index, self.slot, SIZE, KvEventCounts(), can_replay=True)
        self.follower = self.following.sequencers[0]
        self.answers = None
        """`(attempt, batches still to come)` of the replay under way."""

    def publish(self, events):
        if events:
            self.live.append(self.engine.publish(events, self.form))

    def restart(self):
        """Its publisher's socket is a new one: what the new run sends is heard once that is connected."""
        self.live.append(CONNECTED)
        self.runs += 1
        self.engine = CachingEngine(self.size, first_hash=1 + 1000 * self.runs)

    def catch_up(self):
        """Everything under way arrives, whoever is asked answers, and after a while it is asked once more."""
        while self.live:
            self.hear()
        for _ in range(2):
            while self.follower.replay_from is not None:
                self.answer(None)
            self.follower.retry_replay()
            self.follower.verify_position()
        while self.follower.replay_from is not None:
            self.answer(None)

    def hear(self):
        first = self.live.pop(0)
        if first is CONNECTED:
            self.follower.on_connected()
        else:
            run_at_once(self.follower.on_live_batch(*first))
        run_at_once(self.following.sync_index())

    def answer(self, rng):
        """One replay, whole; `rng` shuffles it and makes some of it come twice."""
        attempt, answers = self.follower.attempt, self.engine.replay(self.follower.replay_from)
        if rng is not None:
            answers = answers + rng.sample(answers, len(answers) // 2)
            rng.shuffle(answers)
        for number, payload in answers:
            run_at_once(self.follower.on_replayed_batch(attempt, number, payload))
            run_at_once(self.following.sync_index())
        run_at_once(self.follower.on_replay_ended(attempt))
        run_at_once(self.following.sync_index())

    def truth(self, medium):
        """Names of the index blocks that the engine blocks it holds complete."""
        found = set()
        for prefix in self.engine.held(medium):
            names = hash_token_blocks(pack_tokens(prefix), SIZE)
            found |= set(names[(len(prefix) - self.size) // SIZE :])
        return found


class Agreement(RuleBasedStateMachine):
    """Stores, removals, tier moves, losses, restarts, and replays that come doubled and out of order."""

    def __init__(self) -> None:
        super().__init__()
        self.index = BlockIndex()
        self.workers = [Worker(number, self.index) for number in range(WORKERS)]

    a_worker = st.integers(0, WORKERS - 1)
    a_seed = st.integers(0, 2**16)

    @rule(number=a_worker, prompt=st.sampled_from(PROMPTS), length=st.integers(1, 16))
    def compute(self, number, prompt, length):
        worker = self.workers[number]
        worker.publish(worker.engine.cache(prompt[:length]))

    @rule(number=a_worker, medium=st.sampled_from(["CPU", "DISK"]), prompt=st.sampled_from(PROMPTS))
    def offload(self, number, medium, prompt):
        worker = self.workers[number]
        worker.publish(worker.engine.cache(prompt, medium))

    @rule(number=a_worker, seed=a_seed)
    def evict(self, number, seed):
        """A leaf goes, as engines evict them."""
        engine = self.workers[number].engine
        inner = {prefix[: -engine.block_size] for prefix in engine.prefixes.values()}
        leaves = [key for key in engine.copies if engine.prefixes[key[0]] not in inner]
        if leaves:
            self.workers[number].publish(engine.evict(*random.Random(seed).choice(leaves)))

    @rule(number=a_worker, seed=a_seed)
    def copy(self, number, seed):
        engine = self.workers[number].engine
        single = [key for key, copies in engine.copies.items() if copies == 1]
        if single:
            self.workers[number].publish(engine.copy(*random.Random(seed).choice(single)))

    @rule(number=a_worker)
    def clear(self, number):
        self.workers[number].publish(self.workers[number].engine.clear())

    @rule(number=a_worker)
    def restart(self, number):
        self.workers[number].restart()

    @rule(number=a_worker)
    def connect(self, number):
        self.workers[number].follower.on_connected()

    @rule(number=a_worker, count=st.integers(1, 3))
    def lose(self, number, count):
        live = self.workers[number].live
        for _ in range(count):
            batch = next((at for at, each in enumerate(live) if each is not CONNECTED), None)
            if batch is not None:
                del live[batch]

    @rule(number=a_worker, count=st.integers(1, 3))
    def hear(self, number, count):
        for _ in range(min(count, len(self.workers[number].live))):
            self.workers[number].hear()

    @rule(number=a_worker, seed=a_seed)
    def answer(self, number, seed):
        if self.workers[number].follower.replay_from is not None:
            self.workers[number].answer(random.Random(seed))

    @rule(number=a_worker)
    def fail_to_answer(self, number):
        follower = self.workers[number].follower
        follower.on_replay_failed(follower.attempt, "no answer")

    @rule()
    def be_still(self):
        for worker in self.workers:
            if worker.follower.state is KvEventsState.CONNECTING:
                worker.follower.on_connected()
            worker.catch_up()
            assert run_at_once(worker.following.sync_index()).state is KvEventsState.FOLLOWING
            for medium, tier in MEDIA.items():
                assert self.index.blocks_in_tier(worker.slot, tier) == worker.truth(medium)

    @invariant()
    def it_is_consistent(self):
        self.index.check()
        for worker in self.workers:
            worker.follower.blocks.check()

    def teardown(self):
        self.be_still()


TestAgreement = Agreement.TestCase
TestAgreement.settings = settings(stateful_step_count=40, deadline=None)
