"""The block index: which worker holds which prefix, and in which tier.

One dictionary per layer from a block's name (see `block_hash`) to the workers that hold it, a bit each. A
name stands for all that leads to its block, so no tree is needed: a prompt is looked up block by block, and a
worker's prefix ends at the first block it lacks, even if it holds later ones.

Three kinds of knowledge meet here::

    exact      KV events of the worker             until an event says otherwise
    assumed    our own decisions, for workers      as many blocks as the worker's cache holds,
               that publish nothing                least recently used first out
    predicted  our own decisions, for workers      for a few seconds, until the events of the first
               that publish                        of a burst have come
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import count

from radixway.core.work_slices import WorkSlices, run_at_once, split_items
from radixway.routing.prefix_matches import (
    EngineBlockSize,
    PrefixLookup,
    PrefixMatches,
    find_prefix_ends,
)
from radixway.routing.recent_blocks import RecentBlocks

_SLICE_BLOCKS = 1024
"""Blocks that are let go of in a slice: half a millisecond."""
_MAX_MASKS = 2**14


class StorageTier(IntEnum):
    """The memory that holds a block's KV, fastest first."""

    DEVICE = 0
    HOST = 1
    DISK = 2


@dataclass(slots=True)
class _IndexedWorker:
    capacity: int
    """Blocks that it is assumed to hold where its events do not tell."""
    followed: bool = False
    """The index follows all of its KV events."""
    assumed: RecentBlocks = field(default_factory=RecentBlocks)
    predicted: RecentBlocks = field(default_factory=RecentBlocks)
    outdated: list[RecentBlocks] = field(default_factory=list)
    """Guesses that are being dropped."""

    def is_guessed(self, block: int) -> bool:
        """Return whether it is assumed or predicted to hold `block`."""
        return block in self.assumed or block in self.predicted


class BlockIndex:
    """Maps blocks to the workers that hold them. For one thread; no I/O; the caller has the clock.

    What lets go of many blocks is passed to `defer`; until it is done some of them are still found. Copies
    are counted, so the order in which blocks come and go does not matter.
    """

    def __init__(self, *, assumed_blocks: int = 2**16, predicted_s: float = 5.0) -> None:
        """`assumed_blocks`: the capacity of a worker that does not report one."""
        self._assumed_blocks = assumed_blocks
        self._predicted_s = predicted_s
        self._tiers: tuple[dict[int, int], ...] = ({}, {}, {})
        self._more: dict[tuple[int, StorageTier], dict[int, int]] = {}
        """Further copies of a block in one tier of a worker."""
        self._guessed: dict[int, int] = {}
        self._predictions: deque[tuple[float, int]] = deque()
        self._workers: dict[int, _IndexedWorker] = {}
        self._large_blocks: dict[int, EngineBlockSize] = {}
        self._new_slots = count()
        self._free_slots: list[int] = []
        self.defer: Callable[[WorkSlices[None]], None] = run_at_once
        """Does such work: at once, or in slices of an event loop."""
        self._deferred: dict[int, int] = {}  # by slot, which is not reused before
        self._masks: dict[int, int] = {}
        """One shared object per set of workers; cleared when it has grown."""

    def __len__(self) -> int:
        """Blocks known exactly, counted once per tier."""
        return sum(map(len, self._tiers))

    def add_slot(self) -> int:
        """Return a slot for a new worker."""
        slot = self._free_slots.pop() if self._free_slots else next(self._new_slots)
        self._workers[slot] = _IndexedWorker(self._assumed_blocks)
        return slot

    def remove_slot(self, slot: int) -> None:
        """Forget the worker at `slot`; the slot is reused."""
        self.clear_slot(slot)
        del self._workers[slot]
        self._large_blocks.pop(slot, None)
        if slot not in self._deferred:
            self._free_slots.append(slot)

    def set_followed(self, slot: int, followed: bool) -> None:
        """Set whether events describe the worker at `slot`. A change drops what was guessed of it before."""
        worker = self._workers[slot]
        if worker.followed != followed:
            self.drop_guesses(slot)
            worker.followed = followed

    def set_capacity(self, slot: int, capacity: int | None) -> None:
        """Assume at most `capacity` blocks at `slot`, the size of its cache; None: the default size."""
        worker, blocks = self._workers[slot], max(1, capacity or self._assumed_blocks)
        if blocks == worker.capacity:
            return
        worker.capacity = blocks
        self._discard_guesses(worker.assumed.drop_surplus(worker.capacity), 1 << slot)

    def set_engine_block_size(self, slot: int, engine_tokens: int, index_tokens: int) -> None:
        """Match prefixes of the worker at `slot` in whole blocks of `engine_tokens`, as its engine does.

        `index_tokens`: tokens of this index's blocks.
        """
        if index_tokens % engine_tokens:
            self._large_blocks[slot] = EngineBlockSize(engine_tokens, index_tokens)
        else:
            self._large_blocks.pop(slot, None)

    def assumed(self, slot: int) -> int:
        """Return the number of blocks that the worker at `slot` is assumed to hold."""
        return len(self._workers[slot].assumed)

    def assumed_uses(self, slot: int) -> Iterator[list[int]]:
        """Return those blocks by their latest uses, oldest first; replaying them restores the state."""
        return self._workers[slot].assumed.iter_uses()

    def add_blocks(self, slot: int, blocks: Iterable[int], tier: StorageTier = StorageTier.DEVICE) -> None:
        """The worker holds a copy of each of `blocks`, or one copy more."""
        layer, bit, shared = self._tiers[tier], 1 << slot, self._sharing()
        get_mask = layer.get
        for block in blocks:
            mask = get_mask(block, 0)
            if mask & bit:
                more = self._more.setdefault((slot, tier), {})
                more[block] = more.get(block, 0) + 1
            else:
                layer[block] = shared(mask | bit, mask | bit)

    def remove_blocks(self, slot: int, blocks: Iterable[int], tier: StorageTier = StorageTier.DEVICE) -> None:
        """Remove one copy of each of `blocks`; blocks that it did not hold are skipped.

        With its last copy in device memory a block is not predicted any more either.
        """
        layer, bit = self._tiers[tier], 1 << slot
        more, gone = self._more.get((slot, tier), {}), []
        for block in blocks:
            mask = layer.get(block, 0)
            if not mask & bit:
                continue
            if block in more:
                more[block] -= 1
                if not more[block]:
                    del more[block]
            else:
                self._clear_bit(layer, block, mask & ~bit)
                gone.append(block)
        if self._predictions and tier is StorageTier.DEVICE and slot in self._workers:
            worker = self._workers[slot]
            wrong = worker.predicted.discard_blocks(gone)
            self._discard_guesses([block for block in wrong if block not in worker.assumed], bit)

    def discard_blocks(self, slot: int, pieces: Iterable[tuple[StorageTier, Iterable[int]]]) -> None:
        """Defer `remove_blocks` of `pieces`, blocks of a tier each, which must not change."""

        def discard() -> WorkSlices[None]:
            for tier, blocks in pieces:
                self.remove_blocks(slot, blocks, tier)
                yield

        self._defer(slot, discard())

    def drop_guesses(self, slot: int) -> None:
        """Drop what is guessed of the worker at `slot` now, but not what is guessed of it from now on."""
        worker = self._workers[slot]

        def drop(recent: RecentBlocks) -> WorkSlices[None]:
            bit, guessed = 1 << slot, self._guessed
            for blocks in split_items(recent.block_set(), _SLICE_BLOCKS):
                for block in blocks:
                    if (mask := guessed.get(block, 0)) & bit and not worker.is_guessed(block):
                        self._clear_bit(guessed, block, mask & ~bit)
                yield
            worker.outdated.remove(recent)

        old = [recent for recent in (worker.assumed, worker.predicted) if len(recent)]
        worker.assumed, worker.predicted = RecentBlocks(), RecentBlocks()
        worker.outdated += old
        for recent in old:
            self._defer(slot, drop(recent))

    def clear_slot(self, slot: int) -> None:
        """Forget all blocks of the worker at `slot`, of which no events may come until that is done."""

        def clear(tier: StorageTier, blocks: Sequence[int]) -> WorkSlices[None]:
            layer, bit = self._tiers[tier], 1 << slot
            for start in range(0, len(blocks), _SLICE_BLOCKS):
                for block in blocks[start : start + _SLICE_BLOCKS]:
                    if (mask := layer.get(block, 0)) & bit:
                        self._clear_bit(layer, block, mask & ~bit)
                yield

        for tier, layer in zip(StorageTier, self._tiers, strict=True):
            self._more.pop((slot, tier), None)
            if layer:
                self._defer(slot, clear(tier, list(layer)))
        self.drop_guesses(slot)

    def predict_blocks(
        self, slot: int, blocks: Sequence[int], now: float, *, tokenized: bool, known: int = 0
    ) -> None:
        """A prompt of `blocks` goes to the worker: it will hold them soon. `now`: monotonic seconds.

        `tokenized`: the blocks are named as in its events; if not, they are names of our own.
        `known`: a match just made says that it holds so many of them.
        """
        worker, bit = self._workers[slot], 1 << slot
        assumed = worker.assumed
        if worker.followed and tokenized:
            new = worker.predicted.touch_blocks(blocks[known:], now)
            self._predictions.append((now, slot))
        else:
            new = assumed.touch_blocks(blocks, now)
        guessed = self._guessed
        if guessed.keys().isdisjoint(new):  # in C: most that is new here is new everywhere
            guessed.update(dict.fromkeys(new, self._sharing()(bit, bit)))
        else:
            shared = self._sharing()
            for block in new:
                mask = guessed.get(block, 0) | bit
                guessed[block] = shared(mask, mask)
        if len(assumed) > worker.capacity:
            self._discard_guesses(assumed.drop_surplus(worker.capacity), bit)

    def match_prefix(self, blocks: Sequence[int], now: float) -> PrefixMatches:
        """Return how many of `blocks` each worker holds from the first on. `now`: monotonic seconds."""
        return self.lookup_prefix(blocks, now).matches()

    def lookup_prefix(self, blocks: Sequence[int], now: float) -> PrefixLookup:
        """Like `match_prefix`, but leaves sorting by worker, which costs time for each, to the caller."""
        if self._predictions:
            self._expire_predictions(now - self._predicted_s)
        device, host, disk = self._tiers
        layers = [layer for layer in (device, self._guessed) if layer]
        first = find_prefix_ends(layers, blocks)
        second = find_prefix_ends([*layers, host], blocks) if host else first
        third = find_prefix_ends([*layers, *([host] if host else []), disk], blocks) if disk else second
        return PrefixLookup(first, second, third, self._large_blocks)

    def find_holders(self, block: int) -> dict[int, StorageTier | None]:
        """Return the slots that hold `block` with their fastest tier; None where assumed or predicted."""
        found: dict[int, StorageTier | None] = dict.fromkeys(_slots(self._guessed.get(block, 0)))
        for tier in reversed(StorageTier):
            found |= dict.fromkeys(_slots(self._tiers[tier].get(block, 0)), tier)
        return found

    def blocks_in_tier(self, slot: int, tier: StorageTier = StorageTier.DEVICE) -> set[int]:
        """Return all blocks that events report in a tier of the worker. Reads the whole index."""
        bit = 1 << slot
        return {block for block, mask in self._tiers[tier].items() if mask & bit}

    def check(self) -> None:
        """Recompute all counts. Raises AssertionError with the difference."""
        enrolled = sum(1 << slot for slot in {*self._workers, *self._deferred})
        for layer in (*self._tiers, self._guessed):
            for mask in layer.values():
                assert mask, "a block without a holder is in the index"
                assert not mask & ~enrolled, "a block is held by a worker that is not enrolled"
        for slot, worker in self._workers.items():
            supposed = {block for block, mask in self._guessed.items() if mask >> slot & 1}
            for recent in (worker.assumed, worker.predicted):
                recent.check()
            guesses = worker.assumed.block_set() | worker.predicted.block_set()
            outdated = {block for recent in worker.outdated for block in recent.block_set()}
            assert guesses <= supposed <= guesses | outdated, "a worker's guesses are not those in the index"
            assert len(worker.assumed) <= worker.capacity, "more is assumed than the worker can hold"
        for (slot, tier), more in self._more.items():
            assert more.keys() <= self.blocks_in_tier(slot, tier), "a second copy of a block that is not held"
            assert all(copies > 0 for copies in more.values()), "no copies, and yet counted"

    def _expire_predictions(self, than: float) -> None:
        queue = self._predictions
        while queue and queue[0][0] < than:
            slot = queue.popleft()[1]
            if (worker := self._workers.get(slot)) is not None:
                self._discard_guesses(worker.predicted.drop_older(than), 1 << slot)

    def _discard_guesses(self, blocks: Sequence[int], bit: int) -> None:
        if not blocks:
            return
        guessed = self._guessed
        if list(map(guessed.get, blocks)).count(bit) == len(blocks):  # in C: most are one worker's alone
            deque(map(guessed.__delitem__, blocks), maxlen=0)
            return
        shared, others = self._sharing(), ~bit
        for block in blocks:
            mask = guessed[block] & others
            if mask:
                guessed[block] = shared(mask, mask)
            else:
                del guessed[block]

    def _sharing(self) -> Callable[[int, int], int]:
        """Return a function that maps a mask to its shared object."""
        if len(self._masks) > _MAX_MASKS:
            self._masks.clear()
        return self._masks.setdefault

    def _clear_bit(self, layer: dict[int, int], block: int, mask: int) -> None:
        if mask:
            layer[block] = self._masks.setdefault(mask, mask)
        else:
            del layer[block]

    def _defer(self, slot: int, work: WorkSlices[None]) -> None:
        """Do `work` later; until it is done no new worker gets `slot`."""

        def do() -> WorkSlices[None]:
            try:
                yield from work
            finally:
                self._deferred[slot] -= 1
                if not self._deferred[slot]:
                    del self._deferred[slot]
                    if slot not in self._workers:
                        self._free_slots.append(slot)

        self._deferred[slot] = self._deferred.get(slot, 0) + 1
        self.defer(do())


def _slots(mask: int) -> Iterator[int]:
    while mask:
        slot = mask.bit_length() - 1
        yield slot
        mask ^= 1 << slot
