"""Prefixes that each replica has seen, by block names, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from radixway.cluster.prefix_router.call_prompt import BLOCK_BYTES
from radixway.cluster.prefix_router.prefix_tiers import PrefixSettings
from radixway.routing import BlockIndex


class ReplicaPrefixes:
    """A block index under two limits: the published ones per replica, and one for all of them together.

    Every replica may have the same share of `max_chars`; of more, what was used least recently is let go at
    once. Routers and the actor that outlives them keep one each.
    """

    def __init__(self, settings: PrefixSettings, index: BlockIndex) -> None:
        self.settings = settings
        self.index = index
        self._slots: dict[str, int] = {}
        self._next_eviction = 0.0

    def __contains__(self, replica: str) -> bool:
        return replica in self._slots

    def __len__(self) -> int:
        """Blocks remembered, those of several replicas once for each."""
        return sum(map(self.index.assumed, self._slots.values()))

    @property
    def replicas(self) -> tuple[str, ...]:
        """All that are known."""
        return tuple(self._slots)

    def add_replica(self, replica: str) -> int:
        """A new replica, which has seen nothing; its slot in the index."""
        slot = self._slots[replica] = self.index.add_slot()
        self._resize_slots()
        return slot

    def remove_replica(self, replica: str) -> None:
        """The replica is gone; one that is not known is passed over."""
        slot = self._slots.pop(replica, None)
        if slot is not None:
            self.index.remove_slot(slot)
            self._resize_slots()

    def record_prompt(self, replica: str, blocks: Sequence[int], now: float) -> None:
        """A prompt of `blocks` goes to the replica; one that is not known is passed over. `now`: seconds."""
        slot = self._slots.get(replica)
        if slot is not None and blocks:
            self.index.predict_blocks(slot, blocks, now, told=False)
        if self.settings.do_eviction and now >= self._next_eviction:
            self._next_eviction = now + self.settings.eviction_interval_secs
            self._evict_surplus()

    def apply_settings(self, settings: PrefixSettings) -> None:
        """Other limits from now on."""
        self.settings = settings
        self._resize_slots()

    def iter_uses(self) -> Iterator[tuple[str, list[int]]]:
        """All that is remembered: used again in this order, it is the same."""
        for replica, slot in self._slots.items():
            for blocks in self.index.assumed_uses(slot):
                yield replica, blocks

    def check(self) -> None:
        """Recompute what can be. Raises AssertionError in words."""
        self.index.check()
        assert len(self) <= self.settings.most_blocks, "more is remembered than there is room for"

    def _resize_slots(self) -> None:
        for slot in self._slots.values():
            self.index.set_capacity(slot, self._slot_capacity())

    def _slot_capacity(self) -> int:
        return self.settings.most_blocks // max(1, len(self._slots))

    def _evict_surplus(self) -> None:
        settings = self.settings
        for slot in self._slots.values():
            if self.index.assumed(slot) * BLOCK_BYTES > settings.eviction_threshold_chars:
                self.index.set_capacity(slot, settings.eviction_target_chars // BLOCK_BYTES or 1)
                self.index.set_capacity(slot, self._slot_capacity())
