"""KV events of all workers: who is followed where, as workers come, tell of themselves, and go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from radixway.core.config import KvEventsConfig
from radixway.core.work_slices import DeferredWork, WorkSlices, run_at_once, run_in_slices
from radixway.routing.block_index import BlockIndex
from radixway.routing.kv_events.batch_sequencer import BatchSequencer
from radixway.routing.kv_events.engine_blocks import EngineBlockTracker
from radixway.routing.kv_events.event_decoder import KvEventCounts
from radixway.routing.kv_events.subscription import SubscriptionTimeouts, publisher_addresses
from radixway.routing.worker import KvEventsState, KvEventsStatus, Worker, WorkerState
from radixway.routing.worker_registry import WorkerRegistry

if TYPE_CHECKING:
    import zmq.asyncio

    from radixway.routing.kv_events.subscriber import KvEventSubscriber


log = logging.getLogger(__name__)

_WORST_FIRST = (
    KvEventsState.DEGRADED,
    KvEventsState.CONNECTING,
    KvEventsState.REPLAYING,
    KvEventsState.FOLLOWING,
)


class WorkerKvFeed:
    """A worker's followers, a data-parallel rank each, and its slot in the index.

    While any of them is in doubt, the index treats the worker as not followed: it drops its blocks and goes
    by our own decisions. The others continue, and the index gets all their blocks when that is over.

    `lock` is held while a batch is applied or the index is updated, which is done in slices.
    """

    def __init__(
        self,
        index: BlockIndex,
        slot: int,
        block_size: int,
        counts: KvEventCounts,
        *,
        ranks: int = 1,
        can_replay: bool,
    ) -> None:
        """`block_size`: tokens of the index's blocks."""
        self._index = index
        self._slot = slot
        self._followed = False
        self._stopped = False
        self.lock = asyncio.Lock()
        self.sequencers = [
            BatchSequencer(EngineBlockTracker(index, slot, block_size, counts), counts, can_replay=can_replay)
            for _ in range(ranks)
        ]

    def sync_index(self) -> WorkSlices[KvEventsStatus]:
        """Update the index after a follower changed."""
        exact = all(follower.exact for follower in self.sequencers)
        if exact != self._followed:
            self._followed = exact
            self._index.set_followed(self._slot, exact)
            for follower in self.sequencers:
                if not self._stopped:
                    yield from follower.blocks.index_all() if exact else follower.blocks.unindex_all()
        return self.status()

    def status(self) -> KvEventsStatus:
        """Return the worst of the followers' states, and what they know together."""
        worst = min(self.sequencers, key=lambda follower: _WORST_FIRST.index(follower.state))
        return KvEventsStatus(
            state=worst.state,
            reason=worst.reason,
            last_batch=worst.last if worst.last >= 0 else None,
            blocks=sum(len(follower.blocks) for follower in self.sequencers),
            orphans=sum(follower.blocks.orphans for follower in self.sequencers),
            block_tokens=max(follower.blocks.block_tokens or 0 for follower in self.sequencers) or None,
        )

    def stop_feed(self) -> None:
        """Stop following the worker's events; what is under way does not reach the index any more."""
        self._stopped = True
        for follower in self.sequencers:
            follower.blocks.clear_blocks()
            follower.blocks.updates_index = False
        if self._followed:
            self._followed = False
            self._index.set_followed(self._slot, False)


_REPLAYS_AT_ONCE = 8


@dataclass(slots=True)
class _WorkerSubscriptions:
    section: KvEventsConfig
    worker_feed: WorkerKvFeed
    subscribers: list[KvEventSubscriber]
    tasks: list[asyncio.Task[None]]


class KvEventService:
    """Keeps the index exact for every worker that publishes. Lives in one event loop."""

    def __init__(
        self,
        registry: WorkerRegistry,
        index: BlockIndex,
        block_size: int,
        counts: KvEventCounts,
        timing: SubscriptionTimeouts = SubscriptionTimeouts(),  # noqa: B008
    ) -> None:
        """`block_size`: tokens of the index's blocks. Workers must be enrolled before this hears of them."""
        self.counts = counts
        self.on_change: list[Callable[[Worker], None]] = []
        """Called with every message of a worker's publishers."""
        self._index = index
        self._block_size = block_size
        self._timing = timing
        self._feeds: dict[Worker, _WorkerSubscriptions] = {}
        self._context: zmq.asyncio.Context | None = None
        self._replays = asyncio.Semaphore(_REPLAYS_AT_ONCE)
        self._registry = registry
        self._deferred = DeferredWork()

    def open(self) -> None:
        """Follow the workers that publish, from when they are added on."""
        self._index.defer = self._deferred
        self._registry.on_add.append(self._update_subscription)
        self._registry.on_learn.append(self._update_subscription)
        self._registry.on_state.append(self._verify_position)
        self._registry.on_remove.append(self._unsubscribe)

    async def stop_subscriptions(self) -> None:
        """Hear nothing more."""
        tasks = [task for feed in self._feeds.values() for task in feed.tasks]
        for worker in list(self._feeds):
            self._unsubscribe(worker)
        await asyncio.gather(*tasks, return_exceptions=True)
        self._index.defer = run_at_once
        await self._deferred.finish_work()
        if self._context is not None:
            self._context.destroy(linger=0)

    def _update_subscription(self, worker: Worker) -> None:
        self._update_cache_size(worker)
        given = worker.config.kv_events
        section = worker.info.kv_events if given == "auto" else None if given == "off" else given
        feed = self._feeds.get(worker)
        if feed is not None and feed.section == section:
            return
        self._unsubscribe(worker)
        if section is not None:
            self._subscribe(worker, section)
        else:
            worker.kv_events = KvEventsStatus(reason=_explain_off(worker))

    def _subscribe(self, worker: Worker, section: KvEventsConfig) -> None:
        from radixway.routing.kv_events.subscriber import KvEventSubscriber

        context = self._context = self._context or _new_context()
        following = WorkerKvFeed(
            self._index,
            worker.slot,
            self._block_size,
            self.counts,
            ranks=section.ranks,
            can_replay=section.replay_endpoint is not None,
        )

        async def settle() -> None:
            self._set_status(worker, await run_in_slices(following.sync_index()))

        subscribers = [
            KvEventSubscriber(address, follower, settle, following.lock, context, self._replays, self._timing)
            for address, follower in zip(publisher_addresses(section), following.sequencers, strict=True)
        ]
        loop = asyncio.get_running_loop()
        tasks = [
            loop.create_task(subscriber.run_subscription(), name=f"KV events {worker.name}")
            for subscriber in subscribers
        ]
        self._feeds[worker] = _WorkerSubscriptions(section, following, subscribers, tasks)
        self._update_cache_size(worker)
        self._set_status(worker, following.status())

    def _set_status(self, worker: Worker, status: KvEventsStatus) -> None:
        before, worker.kv_events = worker.kv_events, status
        if before.block_tokens != status.block_tokens:
            self._update_cache_size(worker)
        if (before.state, before.reason) != (status.state, status.reason):
            level = logging.WARNING if status.state is KvEventsState.DEGRADED else logging.INFO
            because = f": {status.reason}" if status.reason else ""
            log.log(level, "KV events of worker %s: %s%s", worker.name, status.state.value, because)
        for tell in tuple(self.on_change):
            tell(worker)

    def _update_cache_size(self, worker: Worker) -> None:
        self._index.set_engine_block_size(worker.slot, worker.block_tokens, self._block_size)
        if (feed := self._feeds.get(worker)) is not None:
            for follower in feed.worker_feed.sequencers:
                follower.blocks.kv_tokens = worker.kv_tokens

    def _verify_position(self, worker: Worker) -> None:
        """Verify the position of a returning worker: it may be another process, and an idle one sends
        nothing."""
        if worker.state is WorkerState.READY and (feed := self._feeds.get(worker)) is not None:
            for subscriber in feed.subscribers:
                subscriber.verify_position()

    def _unsubscribe(self, worker: Worker) -> None:
        feed = self._feeds.pop(worker, None)
        if feed is not None:
            for task in feed.tasks:
                task.cancel()
            feed.worker_feed.stop_feed()
            worker.kv_events = KvEventsStatus()


def _explain_off(worker: Worker) -> str:
    if worker.config.kv_events == "off":
        return "switched off"
    return worker.info.kv_events_problem or "it tells of no publisher"


def _new_context() -> zmq.asyncio.Context:
    import zmq.asyncio

    return zmq.asyncio.Context()
