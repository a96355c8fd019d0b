"""One publisher's batches: gaps, replays, restarts, late joins, and when nothing is certain any more."""

import asyncio

import pytest

from radixway.core.work_slices import run_at_once, run_in_slices
from radixway.routing import BlockIndex, KvEventsState
from radixway.routing.block_hash import hash_token_blocks, pack_tokens
from radixway.routing.block_index import StorageTier
from radixway.routing.kv_events import KvEventCounts
from radixway.routing.kv_events.service import WorkerKvFeed
from support.kv_publishers import CLEARED, CachingEngine, batch, removed, stored

SIZE = 4


class Hearing:
    """A gateway's ear at one engine, whose every batch goes where the test says."""

    def __init__(self, *, can_replay=True, ranks=1, history_steps=10_000):
        self.index = BlockIndex()
        self.slot = self.index.add_slot()
        self.counts = KvEventCounts()
        self.following = WorkerKvFeed(
            self.index, self.slot, SIZE, self.counts, ranks=ranks, can_replay=can_replay
        )
        self.follower = self.following.sequencers[0]
        self.engine = CachingEngine(SIZE, history_steps)
        self.prompts = 0

    def compute(self, heard=True):
        """The engine caches one more prompt and publishes it."""
        self.prompts += 1
        sent = self.engine.publish(
            self.engine.cache(tuple(range(self.prompts * 100, self.prompts * 100 + 8)))
        )
        if heard:
            self.live(*sent)
        return sent

    def live(self, number, payload):
        run_at_once(self.follower.on_live_batch(number, payload))
        self.settle()

    def settle(self):
        status = run_at_once(self.following.sync_index())
        self.index.check()
        for follower in self.following.sequencers:
            follower.blocks.check()
        return status

    def connect(self):
        self.follower.on_connected()
        self.settle()

    def answer(self, *, end=True, once=False):
        """The engine answers what is asked, until nothing is."""
        while (start := self.follower.replay_from) is not None:
            attempt = self.follower.attempt
            for number, payload in self.engine.replay(start):
                run_at_once(self.follower.on_replayed_batch(attempt, number, payload))
                self.settle()
            if not end:
                return
            run_at_once(self.follower.on_replay_ended(attempt))
            self.settle()
            if once:
                return

    def restart(self):
        """The engine begins anew; it hashes its blocks otherwise."""
        self.engine = CachingEngine(SIZE, self.engine.history_steps, first_hash=5000 + self.prompts)

    def agrees(self):
        want = {hash_token_blocks(pack_tokens(prefix), SIZE)[-1] for prefix in self.engine.held("GPU")}
        return self.index.blocks_in_tier(self.slot) == want

    @property
    def state(self):
        return self.settle().state


def following(hearing):
    return hearing.state is KvEventsState.FOLLOWING and hearing.agrees()


def degraded(hearing):
    """Nothing is claimed of the worker, and it goes by our own decisions."""
    hearing.settle()
    assert not hearing.index.blocks_in_tier(hearing.slot)
    hearing.index.predict_blocks(hearing.slot, [1], 0.0, tokenized=True)
    assert hearing.index.match_prefix([1], 1e9).device == {hearing.slot: 1}
    return hearing.state is KvEventsState.DEGRADED


def test_a_late_joiner_learns_everything_from_the_first_batch_on():
    hearing = Hearing()
    for _ in range(3):
        hearing.compute(heard=False)
    hearing.connect()
    assert hearing.state is KvEventsState.REPLAYING and hearing.follower.replay_from == 0
    hearing.answer()
    assert following(hearing)


def test_an_engine_that_has_published_nothing_is_followed_too():
    hearing = Hearing()
    hearing.connect()
    hearing.answer()
    assert following(hearing)
    hearing.compute()
    assert following(hearing)


def test_until_the_replay_has_ended_nothing_is_claimed():
    hearing = Hearing()
    hearing.compute(heard=False)
    hearing.connect()
    hearing.answer(end=False)
    assert not hearing.index.blocks_in_tier(hearing.slot)


def test_what_was_missed_is_asked_for_and_what_comes_meanwhile_is_kept():
    hearing = Hearing()
    hearing.connect()
    hearing.answer()
    hearing.compute()
    hearing.compute(heard=False)
    hearing.compute(heard=False)
    hearing.compute()
    assert hearing.follower.replay_from == 0  # the last one applied, to see that it is the same publisher
    assert hearing.state is KvEventsState.REPLAYING
    hearing.compute()
    hearing.answer()
    assert following(hearing) and hearing.counts.gaps == 1


def test_batches_that_the_replay_brings_before_they_are_heard_are_no_restart():
    hearing = Hearing()
    sent = [hearing.compute(heard=False) for _ in range(4)]
    hearing.connect()
    hearing.answer()
    for one in sent:
        hearing.live(*one)
        assert following(hearing)
    assert not hearing.counts.restarts


@pytest.mark.parametrize("heard", [1, 3])
def test_a_restart_is_noticed_by_its_first_batch(heard):
    hearing = Hearing()
    hearing.connect()
    hearing.answer()
    for _ in range(heard):
        hearing.compute()
    hearing.restart()
    hearing.compute()
    assert following(hearing) and hearing.counts.restarts == 1


def test_a_restart_of_which_the_first_batches_were_missed_is_noticed_by_a_lower_number():
    hearing = Hearing()
    hearing.connect()
    hearing.answer()
    for _ in range(5):
        hearing.compute()
    hearing.restart()
    hearing.compute(heard=False)
    hearing.compute()
    assert not hearing.index.blocks_in_tier(hearing.slot)
    hearing.answer()
    assert following(hearing)


def test_a_restart_that_has_overtaken_the_old_numbers_is_noticed_by_the_replay():
    hearing = Hearing()
    hearing.connect()
    hearing.answer()
    hearing.compute()
    hearing.compute()
    hearing.restart()
    for _ in range(6):
        hearing.compute(heard=False)
    hearing.compute()  # to the follower this is a gap
    hearing.answer()
    assert following(hearing) and hearing.counts.restarts == 1


def test_a_restart_after_a_replay_only_is_noticed_though_its_numbers_were_never_heard():
    hearing = Hearing()
    for _ in range(9):
        hearing.compute(heard=False)
    hearing.connect()
    hearing.answer()
    hearing.restart()
    hearing.compute(heard=False)
    hearing.compute()
    hearing.answer()
    assert following(hearing)


@pytest.mark.parametrize("computed", [0, 1])
def test_what_is_still_under_way_from_before_a_restart_is_dropped(computed):
    hearing = Hearing()
    for _ in range(3):
        hearing.compute(heard=False)
    late = hearing.compute(heard=False)
    hearing.restart()
    for _ in range(computed):
        hearing.compute(heard=False)
    hearing.connect()
    hearing.live(*late)
    asked = 0
    while hearing.follower.replay_from is not None:
        hearing.answer(once=True)
        asked += 1
        assert asked < 5
    assert following(hearing) and not hearing.counts.degradations


def test_a_degraded_worker_that_is_restarted_is_asked_for_the_first_batches_that_were_missed():
    hearing = Hearing(history_steps=2)
    for _ in range(5):
        hearing.compute(heard=False)
    hearing.connect()
    hearing.answer()
    hearing.compute()
    assert degraded(hearing)
    hearing.restart()
    hearing.compute(heard=False)
    hearing.compute()
    hearing.answer()
    assert following(hearing)


def test_a_restart_in_the_middle_of_a_replay_begins_another():
    hearing = Hearing()
    for _ in range(3):
        hearing.compute(heard=False)
    hearing.connect()
    hearing.answer(end=False)
    late = hearing.follower.attempt
    hearing.restart()
    hearing.compute()
    run_at_once(hearing.follower.on_replayed_batch(late, 3, batch(stored([1], [1, 2, 3, 4]))))
    run_at_once(hearing.follower.on_replay_ended(late))
    assert following(hearing)


def test_an_idle_engine_that_was_restarted_is_noticed_when_it_is_asked():
    hearing = Hearing()
    hearing.connect()
    hearing.answer()
    hearing.compute()
    hearing.restart()
    hearing.follower.verify_position()
    hearing.answer()
    assert following(hearing) and not hearing.index.blocks_in_tier(hearing.slot)


def test_the_loss_of_the_last_batch_is_noticed_when_it_is_asked():
    hearing = Hearing()
    hearing.connect()
    hearing.answer()
    hearing.compute()
    hearing.compute(heard=False)
    assert not hearing.agrees()
    hearing.follower.verify_position()
    assert hearing.state is KvEventsState.FOLLOWING  # nothing says that anything is wrong
    hearing.answer()
    assert following(hearing)


def test_asking_whether_that_was_all_does_no_harm_if_nobody_answers():
    hearing = Hearing()
    hearing.connect()
    hearing.answer()
    hearing.compute()
    hearing.follower.verify_position()
    hearing.follower.on_replay_failed(hearing.follower.attempt, "no answer")
    assert following(hearing) and hearing.settle().reason == "no answer"


def test_history_that_is_gone_leaves_it_degraded_and_the_index_to_our_own_decisions():
    hearing = Hearing(history_steps=2)
    for _ in range(5):
        hearing.compute(heard=False)
    hearing.connect()
    hearing.answer()
    assert degraded(hearing) and "batches 0 to 2 are gone" in hearing.settle().reason
    hearing.compute()
    assert degraded(hearing)


def test_a_gap_longer_than_the_history_leaves_it_degraded():
    hearing = Hearing(history_steps=2)
    hearing.connect()
    hearing.answer()
    hearing.compute()
    for _ in range(4):
        hearing.compute(heard=False)
    hearing.compute()
    hearing.answer()
    assert degraded(hearing)


@pytest.mark.parametrize("way_out", ["clear", "restart"])
def test_a_degraded_worker_is_exact_again_after_it_is_cleared_or_restarted(way_out):
    hearing = Hearing(history_steps=2)
    for _ in range(5):
        hearing.compute(heard=False)
    hearing.connect()
    hearing.answer()
    hearing.compute()
    if way_out == "clear":
        hearing.live(*hearing.engine.publish(hearing.engine.clear()))
    else:
        hearing.restart()
    hearing.compute()
    assert following(hearing)


def test_a_late_history_is_enough_if_the_engine_was_cleared_in_it():
    hearing = Hearing(history_steps=3)
    for _ in range(5):
        hearing.compute(heard=False)
    hearing.engine.publish(hearing.engine.clear())
    hearing.compute(heard=False)
    hearing.connect()
    hearing.answer()
    assert following(hearing)


def test_a_replay_that_fails_leaves_it_degraded_until_the_next_one():
    hearing = Hearing()
    hearing.compute(heard=False)
    hearing.connect()
    hearing.follower.on_replay_failed(hearing.follower.attempt, "no answer in 5 s")
    assert degraded(hearing) and hearing.follower.worth_retrying
    hearing.follower.retry_replay()
    hearing.answer()
    assert following(hearing)


def test_a_publisher_that_is_gone_is_trusted_no_more_until_it_is_back():
    hearing = Hearing()
    hearing.connect()
    hearing.answer()
    hearing.compute()
    hearing.follower.on_disconnected("away")
    assert degraded(hearing)
    hearing.connect()
    hearing.answer()
    assert following(hearing)


def test_without_replay_it_is_exact_from_the_first_batch_on_or_not_at_all():
    hearing = Hearing(can_replay=False)
    hearing.connect()
    assert hearing.state is KvEventsState.CONNECTING
    hearing.compute()
    hearing.compute()
    assert following(hearing)
    hearing.compute(heard=False)
    hearing.compute()
    assert degraded(hearing) and "batches 2 to 2 were missed" in hearing.settle().reason

    late = Hearing(can_replay=False)
    late.compute(heard=False)
    late.connect()
    late.compute()
    assert degraded(late) and "joined at batch 1" in late.settle().reason
    late.live(*late.engine.publish(late.engine.clear()))
    assert following(late)


def test_without_replay_a_reconnect_leaves_it_degraded():
    hearing = Hearing(can_replay=False)
    hearing.connect()
    hearing.compute()
    hearing.connect()
    assert degraded(hearing)


def test_a_batch_that_cannot_be_read_leaves_it_degraded():
    hearing = Hearing()
    hearing.connect()
    hearing.answer()
    hearing.live(0, b"\xc1")
    assert degraded(hearing) and "batch 0 cannot be read" in hearing.settle().reason


def test_one_rank_in_doubt_puts_the_worker_in_doubt_and_the_others_are_not_forgotten():
    hearing = Hearing(ranks=2)
    first, second = hearing.following.sequencers
    for follower, token in ((first, 1), (second, 2)):
        follower.on_connected()
        run_at_once(follower.on_replayed_batch(follower.attempt, 0, batch(stored([token], [token] * SIZE))))
        assert hearing.state is not KvEventsState.FOLLOWING
        run_at_once(follower.on_replay_ended(follower.attempt))
    both = {hash_token_blocks(pack_tokens([token] * SIZE), SIZE)[0] for token in (1, 2)}
    assert hearing.state is KvEventsState.FOLLOWING and hearing.index.blocks_in_tier(hearing.slot) == both
    second.on_disconnected("away")
    assert hearing.state is KvEventsState.DEGRADED and not hearing.index.blocks_in_tier(hearing.slot)
    run_at_once(second.on_live_batch(1, batch(CLEARED, stored([2], [2] * SIZE))))
    assert hearing.state is KvEventsState.FOLLOWING and hearing.index.blocks_in_tier(hearing.slot) == both


def test_what_one_rank_drops_another_may_still_hold():
    hearing = Hearing(ranks=3)
    same = batch(stored([1], [1] * SIZE), stored([2], [2] * SIZE, medium="CPU"))
    for follower in hearing.following.sequencers:
        run_at_once(follower.on_live_batch(0, same))
    assert hearing.state is KvEventsState.FOLLOWING
    first, second, third = hearing.following.sequencers
    run_at_once(first.on_live_batch(1, batch(CLEARED)))
    hearing.settle()
    run_at_once(
        second.on_live_batch(1, batch({"type": "BlockRemoved", "block_hashes": [1], "medium": "GPU"}))
    )
    hearing.settle()
    assert (
        len(hearing.index.blocks_in_tier(hearing.slot))
        == len(hearing.index.blocks_in_tier(hearing.slot, StorageTier.HOST))
        == 1
    )
    run_at_once(third.on_live_batch(1, batch(CLEARED)))
    hearing.settle()
    assert not hearing.index.blocks_in_tier(hearing.slot) and hearing.index.blocks_in_tier(
        hearing.slot, StorageTier.HOST
    )


def test_two_ranks_at_one_endpoint_are_refused_in_words():
    hearing = Hearing()
    hearing.live(0, batch(rank=0))
    hearing.live(1, batch(rank=1))
    assert degraded(hearing) and "ranks 0 and 1" in hearing.settle().reason


def test_stopping_leaves_nothing_behind():
    hearing = Hearing()
    hearing.connect()
    hearing.compute(heard=False)
    hearing.answer()
    assert following(hearing)
    hearing.following.stop_feed()
    assert not hearing.index.blocks_in_tier(hearing.slot)


def long_event(blocks, first=1, **more):
    """A sequence of `blocks` blocks as one event."""
    return stored(list(range(first, first + blocks)), list(range(first, first + blocks * SIZE)), **more)


def test_a_long_event_comes_into_the_index_in_slices_that_grow_its_prefix():
    hearing = Hearing()
    hearing.connect()
    hearing.answer()
    names = hash_token_blocks(pack_tokens(range(1, 1 + 20_000 * SIZE)), SIZE)
    held = [0]
    for _ in hearing.follower.on_live_batch(0, batch(long_event(20_000))):
        held.append(hearing.index.match_prefix(names, 0.0).device.get(hearing.slot, 0))
        assert held[-1] == len(hearing.index) and held[-1] - held[-2] <= 512
    hearing.settle()
    assert held[-1] == 20_000 and hearing.counts.stored == 1


def test_a_long_history_is_removed_and_cleared_in_slices():
    hearing = Hearing()
    hearing.connect()
    hearing.answer()
    hearing.live(0, batch(long_event(20_000)))
    left = [20_000]
    for _ in hearing.follower.on_live_batch(1, batch(removed(list(range(1, 10_001))))):
        left.append(len(hearing.index))
        assert left[-2] - left[-1] <= 512
    assert left[-1] == 10_000 and hearing.counts.removed == 1
    waiting = []
    hearing.index.defer = waiting.append
    hearing.live(2, batch(CLEARED, long_event(3, medium="CPU")))
    assert len(hearing.follower.blocks) == 3
    hearing.live(3, batch(long_event(1_000, first=50_000)))  # what comes back meanwhile stays
    sizes = [len(hearing.index)]
    for work in waiting:
        for _ in work:
            sizes.append(len(hearing.index))
            assert sizes[-2] - sizes[-1] <= 1024
    assert len(hearing.index) == 1_003
    hearing.index.check()


def test_a_worker_that_leaves_amid_a_batch_leaves_nothing():
    hearing = Hearing()
    hearing.connect()
    hearing.answer()
    applying = hearing.follower.on_live_batch(0, batch(long_event(5_000)))
    while not len(hearing.index):
        next(applying)
    hearing.following.stop_feed()
    run_at_once(applying)
    assert not len(hearing.index)
    hearing.index.remove_slot(hearing.slot)
    hearing.index.check()


async def test_the_event_loop_turns_while_a_batch_is_applied():
    hearing = Hearing()
    hearing.connect()
    hearing.answer()
    turns = 0

    async def count_turns():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    await run_in_slices(hearing.follower.on_live_batch(0, batch(long_event(20_000))), slice_s=0)
    counting.cancel()
    assert turns > 20_000 // 512
