"""Follows all publishers of one worker: the index has its blocks exactly while none of them is in doubt."""

from __future__ import annotations

from radixway.routing.block_index import BlockIndex
from radixway.routing.kv_events.batch_sequencer import BatchSequencer
from radixway.routing.kv_events.counts import KvEventCounts
from radixway.routing.kv_events.engine_blocks import EngineBlockTracker
from radixway.routing.worker import KvEventsState, KvEventsStatus

_WORST_FIRST = (
    KvEventsState.DEGRADED,
    KvEventsState.CONNECTING,
    KvEventsState.REPLAYING,
    KvEventsState.FOLLOWING,
)


class WorkerKvFeed:
    """One worker's followers, a data-parallel rank each, and its slot in the index.

    While any of them is in doubt the index is told that the worker is not followed, knows none of its blocks,
    and goes by our own decisions; the others go on, and the index hears of all they know when it is over.
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
        self.sequencers = [
            BatchSequencer(
                EngineBlockTracker(index, slot, block_size, counts, self._on_rank_cleared),
                counts,
                can_replay=can_replay,
            )
            for _ in range(ranks)
        ]

    def sync_index(self) -> KvEventsStatus:
        """To be called after a follower was told something: tells the index what follows from it."""
        exact = all(follower.exact for follower in self.sequencers)
        if exact != self._followed:
            self._followed = exact
            self._index.set_followed(self._slot, exact)
            for follower in self.sequencers:
                follower.blocks.told = exact
                if exact:
                    follower.blocks.index_all()
        worst = min(self.sequencers, key=lambda follower: _WORST_FIRST.index(follower.state))
        return KvEventsStatus(
            state=worst.state,
            reason=worst.reason,
            last_batch=worst.last if worst.last >= 0 else None,
            blocks=sum(len(follower.blocks) for follower in self.sequencers),
            orphans=sum(follower.blocks.orphans for follower in self.sequencers),
        )

    def stop_feed(self) -> None:
        """The worker's events are heard no more."""
        if self._followed:
            self._followed = False
            self._index.set_followed(self._slot, False)

    def _on_rank_cleared(self, which: EngineBlockTracker) -> None:
        """One rank holds nothing any more; the index knows blocks by worker."""
        if not which.told:
            return
        self._index.clear_slot(self._slot)
        for follower in self.sequencers:
            if follower.blocks is not which:
                follower.blocks.index_all()
