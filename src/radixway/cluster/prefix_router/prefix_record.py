"""The record that outlives routers: prefixes that replicas have seen, and the latest uses in order."""

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

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
        """Return all known replicas."""
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
            self.index.predict_blocks(slot, blocks, now, tokenized=False)
        if self.settings.do_eviction and now >= self._next_eviction:
            self._next_eviction = now + self.settings.eviction_interval_secs
            self._evict_surplus()

    def apply_settings(self, settings: PrefixSettings) -> None:
        """Other limits from now on."""
        self.settings = settings
        self._resize_slots()

    def iter_uses(self) -> Iterator[tuple[str, list[int]]]:
        """Yield all uses; applied in this order they restore the state."""
        for replica, slot in self._slots.items():
            for blocks in self.index.assumed_uses(slot):
                yield replica, blocks

    def check(self) -> None:
        """Recompute what can be. Raises AssertionError with the difference."""
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


PrefixUse = tuple[str, bytes]
"""A replica, and the names of a prompt's blocks that it has seen (`pack`)."""

UNKNOWN_AFTER_S = 60.0
"""A replica that routers do not list is dropped unless it was reported more recently than this."""
_MAX_LATEST_USES = 2**16
_MAX_GONE_REPLICAS = 1024


def pack_blocks(blocks: Sequence[int]) -> bytes:
    """Names of blocks, 8 bytes each."""
    return array("Q", blocks).tobytes()


def unpack_blocks(packed: bytes) -> list[int]:
    """The names again."""
    return array("Q", packed).tolist()


@dataclass(slots=True)
class RouterReport:
    """A router's report to the actor."""

    router: str
    uses: list[PrefixUse] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    replicas: list[str] | None = None
    """All that Ray says there are, where that has changed."""


@dataclass(slots=True)
class PrefixUpdate:
    """Uses that a router has not received yet."""

    life: str
    """Life of the actor; a new one knows only what routers report again."""
    upto: int
    """Number from which to continue."""
    uses: list[PrefixUse]
    all: bool = False
    """These are all uses there are, not only the latest."""


class PrefixRecord:
    """Pure and for one thread; `clock` gives monotonic seconds."""

    def __init__(self, life: str, settings: PrefixSettings, clock: Callable[[], float]) -> None:
        self.life = life
        self.seen = ReplicaPrefixes(settings, BlockIndex())
        self._clock = clock
        self._latest: deque[tuple[int, str, PrefixUse]] = deque()
        """`(number, router, use)`."""
        self._latest_blocks = 0
        self.last_number = 0
        """The number of the latest use."""
        self._reported_at: dict[str, float] = {}
        self._gone: dict[str, None] = {}
        """Dead replicas: reports of routers that have not noticed yet are ignored."""

    def apply_settings(self, settings: PrefixSettings) -> None:
        """Other limits from now on: the latest router knows."""
        if settings != self.seen.settings:
            self.seen.apply_settings(settings)

    def apply_report(self, report: RouterReport) -> None:
        """Apply a router's `report`."""
        now = self._clock()
        for replica in report.gone:
            self._drop_replica(replica)
            self._gone[replica] = None
        while len(self._gone) > _MAX_GONE_REPLICAS:
            del self._gone[next(iter(self._gone))]
        for replica, packed in report.uses:
            self._record_use(report.router, (replica, packed), now)
        if report.replicas is not None:
            for replica in self.seen.replicas:
                if replica not in report.replicas and self._reported_at[replica] < now - UNKNOWN_AFTER_S:
                    self._drop_replica(replica)

    def updates_since(self, router: str, life: str | None, since: int) -> PrefixUpdate | None:
        """Return what routers other than `router` reported after number `since`; None if nothing."""
        first = self._latest[0][0] if self._latest else self.last_number + 1
        if life != self.life or since < first - 1:
            return PrefixUpdate(self.life, self.last_number, list(iter_all_uses(self.seen)), all=True)
        if since == self.last_number:
            return None
        uses = []
        for number, reporter, use in reversed(self._latest):
            if number <= since:
                break
            if reporter != router:
                uses.append(use)
        return PrefixUpdate(self.life, self.last_number, uses[::-1]) if uses else None

    def check(self) -> None:
        """Recompute what can be. Raises AssertionError with the difference."""
        self.seen.check()
        blocks = sum(len(use[1]) // 8 for _, _, use in self._latest)
        assert blocks == self._latest_blocks, "the latest blocks are miscounted"
        assert not set(self._gone) & set(self.seen.replicas), "a removed replica has prefixes"

    def _record_use(self, router: str, use: PrefixUse, now: float) -> None:
        replica, packed = use
        if replica in self._gone:
            return
        if replica not in self.seen:
            self.seen.add_replica(replica)
        self._reported_at[replica] = now
        self.seen.record_prompt(replica, unpack_blocks(packed), now)
        self.last_number += 1
        self._latest.append((self.last_number, router, use))
        self._latest_blocks += len(packed) // 8
        while self._latest_blocks > _MAX_LATEST_USES:
            self._latest_blocks -= len(self._latest.popleft()[2][1]) // 8

    def _drop_replica(self, replica: str) -> None:
        self.seen.remove_replica(replica)
        self._reported_at.pop(replica, None)


def iter_all_uses(seen: ReplicaPrefixes) -> Iterable[PrefixUse]:
    """Everything, as a router tells an actor that has forgotten it."""
    return ((replica, pack_blocks(blocks)) for replica, blocks in seen.iter_uses())
