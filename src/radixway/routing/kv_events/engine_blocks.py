"""The blocks that one engine holds: its own hashes, and the index's names for them.

The index names blocks of its own size (see `block_hash`), the engine has a size of its own. Tokens are
collected along the parents, and an index block belongs to the engine block that completes it::

    engine, 24 tokens   |-----------a-----------|-----------b-----------|
    index, 16 tokens    |-------1-------|-------2-------|-------3-------|     a: 1   b: 2, 3

An engine may hold a block twice, and tells of each copy when it comes and when it goes. It may also tell
again of what it holds (vLLM's `kv_cache_report_mode: full`). Both look alike, but copies are of what a
request computes anew: the block with its last token, answers. So a beginning of several blocks that are all
known is taken to be told again, of a single one there are two copies at most, and never more copies are
counted than the engine's memory holds.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple, Self, TypeAlias

from xxhash import xxh3_64_intdigest

from radixway.core.work_slices import WorkSlices, split_items
from radixway.routing.block_hash import hash_token_blocks, namespace_seed
from radixway.routing.block_index import BlockIndex, StorageTier
from radixway.routing.kv_events.event_decoder import (
    BlocksCleared,
    BlocksRemoved,
    BlocksStored,
    KvCacheEvent,
    KvEventCounts,
)

MAX_ORPHANS = 16_384
"""Blocks with an unknown parent that are held; the oldest go first."""

_SLICE_BLOCKS = 1024
_TOKEN_BYTES = 4
_PLAIN_SEED = namespace_seed()
_COPY_BITS = 16
"""Copies of a block are counted in so many bits per tier, the device's lowest."""
_MAX_COPIES = (1 << _COPY_BITS) - 1
_ONE_ON_DEVICE = 1
"""The commonest count, which is not stored."""


class _UnalignedBlock(NamedTuple):
    """An engine block that does not end with an index block."""

    names: tuple[int, ...]
    """The index blocks it completes."""
    before: int | None
    """The last index block completed up to its end."""
    rest: bytes
    """The tokens after that one, packed."""

    def pack(self) -> bytes:
        """Return it as bytes, which the garbage collector need not look at: there may be a million."""
        blocks = self.names if self.before is None else (*self.names, self.before)
        size = len(self.names) << 1 | (self.before is not None)
        return array("Q", (size, *blocks)).tobytes() + self.rest

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        """Return what `pack` packed."""
        size = int.from_bytes(packed[:8], sys.byteorder)
        end = 8 * (1 + (size >> 1) + (size & 1))
        blocks = array("Q", packed[8:end]).tolist()
        before = blocks.pop() if size & 1 else None
        return cls(tuple(blocks), before, packed[end:])


_BlockNames: TypeAlias = int | bytes
"""A single name for most engine blocks, else a packed `_UnalignedBlock`."""


@dataclass(slots=True, eq=False)
class _OrphanedBlocks:
    """Blocks of an unknown parent, and those removed while waiting for it."""

    event: BlocksStored
    gone: list[int] = field(default_factory=list)


class EngineBlockTracker:
    """An engine's blocks, by its events. Updates the index while `updates_index` is set."""

    def __init__(
        self,
        index: BlockIndex,
        slot: int,
        block_size: int,
        counts: KvEventCounts,
    ) -> None:
        self.updates_index = False
        self.clears = 0
        """How often the engine has said that it holds nothing any more."""
        self._index = index
        self._slot = slot
        self._width = block_size * _TOKEN_BYTES
        self._block_size = block_size
        self._counts = counts
        self._group: int | None = None
        self.block_tokens: int | None = None
        """Tokens in a block of the engine."""
        self.kv_tokens: int | None = None
        """Tokens that the device memory of the engine holds; None: not known."""
        self._is_told_again = False
        """Whether the latest event told again of known blocks."""
        self._reset()

    def _reset(self) -> None:
        self._names: dict[int, _BlockNames] = {}
        self._seeds: dict[int, int] = {}
        """Seeds of blocks in namespaces."""
        self._copies: dict[int, int] = {}
        """Copies of blocks that are not exactly once on the device."""
        self._device_copies = 0
        """Copies in device memory, and the blocks that have several there."""
        self._copied: set[int] = set()
        self._orphans: dict[int, list[_OrphanedBlocks]] = {}
        """By parent."""
        self._orphaned: dict[tuple[int, StorageTier], _OrphanedBlocks] = {}

    def __len__(self) -> int:
        """Engine blocks."""
        return len(self._names)

    @property
    def orphans(self) -> int:
        """Engine blocks whose parent is not known."""
        return len(self._orphaned)

    def apply_event(self, event: KvCacheEvent) -> WorkSlices[None]:
        """Apply one event, in the order in which they were sent."""
        match event:
            case BlocksStored():
                yield from self._apply_stored(event)
            case BlocksRemoved() if event.group not in (None, self._group):
                self._counts.ignored += not event.is_continued
            case BlocksRemoved():
                self._counts.removed += not event.is_continued
                self._remove_blocks(event.hashes, event.tier)
            case BlocksCleared():
                self._counts.cleared += 1
                self.clears += 1
                self.clear_blocks()

    def clear_blocks(self) -> None:
        """Clear all blocks: the engine holds none, or none that are known. The index follows in slices."""
        if self.updates_index:
            self._index.drop_guesses(self._slot)
            if self._names:
                self._index.discard_blocks(self._slot, self._pieces())
        if self._names or self._orphaned:
            self._reset()

    def index_all(self) -> WorkSlices[None]:
        """Tell the index of everything, and of what comes from now on."""
        self.updates_index = True
        for tier, blocks in self._pieces():
            if self.updates_index:  # the worker may have left meanwhile
                self._index.add_blocks(self._slot, blocks, tier)
            yield

    def unindex_all(self) -> WorkSlices[None]:
        """Take everything out of the index, and tell it nothing more."""
        self.updates_index = False
        for tier, blocks in self._pieces():
            self._index.remove_blocks(self._slot, blocks, tier)
            yield

    def blocks_in_tier(self, tier: StorageTier) -> set[int]:
        """The names of all index blocks held in a tier."""
        return {block for held_in, blocks in self._pieces() if held_in is tier for block in blocks}

    def check(self) -> None:
        """Recompute all counts. Raises AssertionError with the difference."""
        assert self._seeds.keys() <= self._names.keys(), "a seed of a block that is not held"
        assert self._copies.keys() <= self._names.keys(), "copies of a block that is not held"
        assert all(self._copies.values()), "a block without a copy is held"
        counts = {name: self._count_copies(name, StorageTier.DEVICE) for name in self._names}
        assert self._device_copies == sum(counts.values()), "copies on the device are miscounted"
        assert self._copied == {name for name, count in counts.items() if count > 1}, "a copy is not noted"
        assert len(self._orphaned) <= MAX_ORPHANS, "too many orphans"
        waiting = [orphan for orphans in self._orphans.values() for orphan in orphans]
        assert all(orphan in waiting for orphan in self._orphaned.values()), "an orphan waits for no parent"

    # What is stored.

    def _apply_stored(self, event: BlocksStored) -> WorkSlices[None]:
        if self._group is None:
            self._group = event.group
        if event.group != self._group:
            self._counts.ignored += not event.is_continued
            return
        self._counts.stored += not event.is_continued
        if not event.tokens:
            self._add_copies(event)
            return
        if self.block_tokens is None or event.tier is StorageTier.DEVICE:
            self.block_tokens = event.block_size
        self._is_told_again = self._tells_again(event)
        if self._is_told_again:
            return
        ready, gone = [event], []
        while ready:  # an orphan that finds its parent may be the parent of others
            one = ready.pop()
            if not self._attach_to_parent(one):
                self._hold_orphan(one)
                continue
            for name in one.hashes:
                for orphan in self._orphans.pop(name, ()):
                    self._drop_orphan(orphan)
                    ready.append(orphan.event)
                    gone += [(name, orphan.event.tier) for name in orphan.gone]
            yield
        for name, tier in gone:
            self._remove_blocks([name], tier)

    def _tells_again(self, event: BlocksStored) -> bool:
        """Return whether the event, or the one it continues, begins a sequence with known blocks alone."""
        may_be = self._is_told_again if event.is_continued else event.parent is None and len(event.hashes) > 1
        return may_be and all(self._count_copies(name, event.tier) for name in event.hashes)

    def _add_copies(self, event: BlocksStored) -> None:
        """Count known blocks in one more tier; unknown ones have no tokens to name them by."""
        if event.block_size not in (0, self.block_tokens):  # chunks of several blocks under one hash
            self._counts.ignored += not event.is_continued
            return
        added = [name for name in event.hashes if name in self._names and self._add_copy(name, event.tier)]
        self._index_blocks(added, event.tier)

    def _attach_to_parent(self, event: BlocksStored) -> bool:
        """Name the event's blocks; return False if the parent is unknown."""
        if event.parent is None:
            seed, before, rest = namespace_seed(event.lora, event.salt), None, b""
        elif (parent := self._names.get(event.parent)) is not None:
            seed = self._seeds.get(event.parent, _PLAIN_SEED)
            before, rest = _UnalignedBlock.unpack(parent)[1:] if isinstance(parent, bytes) else (parent, b"")
        else:
            return False
        new: list[int] = []
        for name, names, own_seed in self._name_blocks(event, seed, before, rest):
            if name in self._names:
                if self._add_copy(name, event.tier, 2 if event.parent is None else _MAX_COPIES):
                    new.append(name)
                continue
            self._names[name] = names
            if own_seed != _PLAIN_SEED:
                self._seeds[name] = own_seed
            if event.tier is StorageTier.DEVICE:
                self._device_copies += 1
            else:
                self._copies[name] = 1 << _COPY_BITS * event.tier
            new.append(name)
        self._drop_impossible_copies()
        self._index_blocks(new, event.tier)
        return True

    def _name_blocks(
        self, event: BlocksStored, seed: int, before: int | None, rest: bytes
    ) -> Iterator[tuple[int, _BlockNames, int]]:
        """Yield each engine block's names and seed, which changes with extra keys."""
        starts = sorted({0, *event.marks})
        width = event.block_size * _TOKEN_BYTES
        for start, stop in zip(starts, [*starts[1:], len(event.hashes)], strict=True):
            if start in event.marks:
                seed = xxh3_64_intdigest(event.marks[start], seed)
            tokens = rest + event.tokens[start * width : stop * width]
            names = hash_token_blocks(tokens, self._block_size, seed, parent=before)
            if width == self._width and not rest:
                for name, one in zip(event.hashes[start:stop], names, strict=True):
                    yield name, one, seed
            else:
                end, done = len(rest), 0
                for name in event.hashes[start:stop]:
                    end += width
                    first, done = done, end // self._width
                    last = names[done - 1] if done else before
                    left = tokens[done * self._width : end]
                    yield name, _UnalignedBlock(tuple(names[first:done]), last, left).pack(), seed
                rest = tokens[len(names) * self._width :]
            before = names[-1] if names else before

    # What is removed.

    def _remove_blocks(self, hashes: Iterable[int], tier: StorageTier) -> None:
        lost: list[int] = []
        for name in hashes:
            names = self._names.get(name)
            if names is None:
                if (orphan := self._orphaned.pop((name, tier), None)) is not None:
                    orphan.gone.append(name)
                continue
            if not self._drop_copy(name, tier):
                continue
            lost.extend(_index_names(names))
        if self.updates_index and lost:
            self._index.remove_blocks(self._slot, lost, tier)

    # Copies.

    def _count_copies(self, name: int, tier: StorageTier) -> int:
        if name not in self._names:
            return 0
        return self._copies.get(name, _ONE_ON_DEVICE) >> _COPY_BITS * tier & _MAX_COPIES

    def _add_copy(self, name: int, tier: StorageTier, most: int = _MAX_COPIES) -> bool:
        """Count a copy, unless there are `most`; return True for the first in that tier."""
        there = self._count_copies(name, tier)
        if there < most:
            self._copies[name] = self._copies.get(name, _ONE_ON_DEVICE) + (1 << _COPY_BITS * tier)
            if tier is StorageTier.DEVICE:
                self._device_copies += 1
                if there:
                    self._copied.add(name)
        return not there

    def _drop_copy(self, name: int, tier: StorageTier) -> bool:
        """Drop a copy; return True for the last in that tier. A block without copies is forgotten."""
        copies = self._copies.pop(name, _ONE_ON_DEVICE)
        there = copies >> _COPY_BITS * tier & _MAX_COPIES
        if there:
            copies -= 1 << _COPY_BITS * tier
            if tier is StorageTier.DEVICE:
                self._device_copies -= 1
                if there == 2:
                    self._copied.discard(name)
        if not copies:
            del self._names[name]
            self._seeds.pop(name, None)
        elif copies != _ONE_ON_DEVICE:
            self._copies[name] = copies
        return there == 1

    def _drop_impossible_copies(self) -> None:
        """Count each block once if the engine has no memory for all the copies."""
        tokens = self._device_copies * (self.block_tokens or 0)
        if not self._copied or self.kv_tokens is None or tokens <= self.kv_tokens:
            return
        for name in self._copied:
            extra = self._count_copies(name, StorageTier.DEVICE) - 1
            self._device_copies -= extra
            if (copies := self._copies.pop(name) - extra) != _ONE_ON_DEVICE:
                self._copies[name] = copies
        self._copied.clear()

    # Orphans.

    def _hold_orphan(self, event: BlocksStored) -> None:
        assert event.parent is not None
        keys = [(name, event.tier) for name in event.hashes]
        if any(key in self._orphaned for key in keys):
            return
        self._counts.orphaned += not event.is_continued
        orphan = _OrphanedBlocks(event)
        self._orphans.setdefault(event.parent, []).append(orphan)
        self._orphaned.update(dict.fromkeys(keys, orphan))
        while len(self._orphaned) > MAX_ORPHANS:
            parent, (oldest, *others) = next(iter(self._orphans.items()))
            if others:
                self._orphans[parent] = others
            else:
                del self._orphans[parent]
            self._drop_orphan(oldest)

    def _drop_orphan(self, orphan: _OrphanedBlocks) -> None:
        for name in orphan.event.hashes:
            self._orphaned.pop((name, orphan.event.tier), None)

    # The index.

    def _index_blocks(self, hashes: Iterable[int], tier: StorageTier) -> None:
        if self.updates_index:
            names = chain.from_iterable(_index_names(self._names[name]) for name in hashes)
            self._index.add_blocks(self._slot, names, tier)

    def _pieces(self) -> Iterator[tuple[StorageTier, list[int]]]:
        """Return all index blocks held now, a slice's at a time: `clear_blocks` does not end it."""
        return _iter_index_blocks(self._names, self._copies)


def _iter_index_blocks(
    by_hash: Mapping[int, _BlockNames], copies: Mapping[int, int]
) -> Iterator[tuple[StorageTier, list[int]]]:
    for hashes in split_items(by_hash, _SLICE_BLOCKS):
        for tier in StorageTier if copies else (StorageTier.DEVICE,):
            shift = _COPY_BITS * tier
            held = (name for name in hashes if copies.get(name, _ONE_ON_DEVICE) >> shift & _MAX_COPIES)
            yield tier, list(chain.from_iterable(_index_names(by_hash[name]) for name in held))


def _index_names(names: _BlockNames) -> tuple[int, ...]:
    return _UnalignedBlock.unpack(names).names if isinstance(names, bytes) else (names,)
