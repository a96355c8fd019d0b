"""What each replica has seen, by the names of prompts' blocks: never more than there is room for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from radixway.routing import BlockIndex
from radixway.scale.prefix_routing.prompts import BLOCK_BYTES
from radixway.scale.prefix_routing.settings import PrefixSettings


class SeenPrefixes:
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

    def add(self, replica: str) -> int:
        """A new replica, which has seen nothing; its slot in the index."""
        slot = self._slots[replica] = self.index.enroll()
        self._share()
        return slot

    def remove(self, replica: str) -> None:
        """The replica is gone; one that is not known is passed over."""
        slot = self._slots.pop(replica, None)
        if slot is not None:
            self.index.dismiss(slot)
            self._share()

    def use(self, replica: str, blocks: Sequence[int], now: float) -> None:
        """A prompt of `blocks` goes to the replica; one that is not known is passed over. `now`: seconds."""
        slot = self._slots.get(replica)
        if slot is not None and blocks:
            self.index.sent(slot, blocks, now, told=False)
        if self.settings.do_eviction and now >= self._next_eviction:
            self._next_eviction = now + self.settings.eviction_interval_secs
            self._evict()

    def change(self, settings: PrefixSettings) -> None:
        """Other limits from now on."""
        self.settings = settings
        self._share()

    def uses(self) -> Iterator[tuple[str, list[int]]]:
        """All that is remembered: used again in this order, it is the same."""
        for replica, slot in self._slots.items():
            for blocks in self.index.assumed_uses(slot):
                yield replica, blocks

    def check(self) -> None:
        """Recompute what can be. Raises AssertionError in words."""
        self.index.check()
        assert len(self) <= self.settings.most_blocks, "more is remembered than there is room for"

    def _share(self) -> None:
        for slot in self._slots.values():
            self.index.resize(slot, self._share_of_one())

    def _share_of_one(self) -> int:
        return self.settings.most_blocks // max(1, len(self._slots))

    def _evict(self) -> None:
        settings = self.settings
        for slot in self._slots.values():
            if self.index.assumed(slot) * BLOCK_BYTES > settings.eviction_threshold_chars:
                self.index.resize(slot, settings.eviction_target_chars // BLOCK_BYTES or 1)
                self.index.resize(slot, self._share_of_one())
