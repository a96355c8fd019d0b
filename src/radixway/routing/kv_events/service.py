"""KV events of all workers: who is followed where, as workers come, tell of themselves, and go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from radixway.config import KvEventsSection
from radixway.routing.block_index import BlockIndex
from radixway.routing.kv_events.addresses import feeds
from radixway.routing.kv_events.counts import KvEventCounts
from radixway.routing.kv_events.following import Following
from radixway.routing.kv_events.timing import Timing
from radixway.routing.registry import Registry
from radixway.routing.worker import KvEventsState, KvEventsStatus, Worker, WorkerState

if TYPE_CHECKING:
    import zmq.asyncio

    from radixway.routing.kv_events.subscriber import Subscriber

log = logging.getLogger(__name__)

_REPLAYS_AT_ONCE = 8


@dataclass(slots=True)
class _Feed:
    """One worker's subscriptions."""

    section: KvEventsSection
    following: Following
    subscribers: list[Subscriber]
    tasks: list[asyncio.Task[None]]


class KvEvents:
    """Keeps the index exact for every worker that publishes. Lives in one event loop."""

    def __init__(
        self,
        registry: Registry,
        index: BlockIndex,
        block_size: int,
        counts: KvEventCounts,
        timing: Timing = Timing(),  # noqa: B008
    ) -> None:
        """`block_size`: tokens of the index's blocks. Workers must be enrolled before this hears of them."""
        self.counts = counts
        self.on_change: list[Callable[[Worker], None]] = []
        """Called whenever something was heard from a worker's publishers."""
        self._index = index
        self._block_size = block_size
        self._timing = timing
        self._feeds: dict[Worker, _Feed] = {}
        self._context: zmq.asyncio.Context | None = None
        self._replays = asyncio.Semaphore(_REPLAYS_AT_ONCE)
        self._registry = registry

    def open(self) -> None:
        """Follow the workers that publish, from when they are added on."""
        self._registry.on_add.append(self._look_at)
        self._registry.on_learn.append(self._look_at)
        self._registry.on_state.append(self._reconcile)
        self._registry.on_remove.append(self._drop)

    async def close(self) -> None:
        """Hear nothing more."""
        tasks = [task for feed in self._feeds.values() for task in feed.tasks]
        for worker in list(self._feeds):
            self._drop(worker)
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._context is not None:
            self._context.destroy(linger=0)

    def _look_at(self, worker: Worker) -> None:
        """Follow the worker where it publishes now."""
        given = worker.given.kv_events
        section = worker.told.kv_events if given == "auto" else None if given == "off" else given
        feed = self._feeds.get(worker)
        if feed is not None and feed.section == section:
            return
        self._drop(worker)
        if section is not None:
            self._follow(worker, section)
        else:
            worker.kv_events = KvEventsStatus(reason=_why_off(worker))

    def _follow(self, worker: Worker, section: KvEventsSection) -> None:
        from radixway.routing.kv_events.subscriber import Subscriber

        context = self._context = self._context or _new_context()
        following = Following(
            self._index,
            worker.slot,
            self._block_size,
            self.counts,
            ranks=section.ranks,
            can_replay=section.replay_endpoint is not None,
        )

        def settle() -> None:
            self._show(worker, following.settle())

        subscribers = [
            Subscriber(address, follower, settle, context, self._replays, self._timing)
            for address, follower in zip(feeds(section), following.followers, strict=True)
        ]
        loop = asyncio.get_running_loop()
        tasks = [
            loop.create_task(subscriber.run(), name=f"KV events {worker.name}") for subscriber in subscribers
        ]
        self._feeds[worker] = _Feed(section, following, subscribers, tasks)
        settle()

    def _show(self, worker: Worker, status: KvEventsStatus) -> None:
        before, worker.kv_events = worker.kv_events, status
        if (before.state, before.reason) != (status.state, status.reason):
            level = logging.WARNING if status.state is KvEventsState.DEGRADED else logging.INFO
            because = f": {status.reason}" if status.reason else ""
            log.log(level, "KV events of worker %s: %s%s", worker.name, status.state.value, because)
        for tell in tuple(self.on_change):
            tell(worker)

    def _reconcile(self, worker: Worker) -> None:
        """A worker that is back may be another process, and an idle one sends nothing that would tell."""
        if worker.state is WorkerState.READY and (feed := self._feeds.get(worker)) is not None:
            for subscriber in feed.subscribers:
                subscriber.verify()

    def _drop(self, worker: Worker) -> None:
        feed = self._feeds.pop(worker, None)
        if feed is not None:
            for task in feed.tasks:
                task.cancel()
            feed.following.stop()
            worker.kv_events = KvEventsStatus()


def _why_off(worker: Worker) -> str:
    if worker.given.kv_events == "off":
        return "switched off"
    return worker.told.kv_events_problem or "it tells of no publisher"


def _new_context() -> zmq.asyncio.Context:
    import zmq.asyncio

    return zmq.asyncio.Context()
