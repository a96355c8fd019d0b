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

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import repeat
from operator import or_

_CHUNK = 128


class Tier(IntEnum):
    """Where a block's KV lies, fastest first."""

    DEVICE = 0
    HOST = 1
    DISK = 2


@dataclass(frozen=True, slots=True)
class Matches:
    """How much of a prompt each worker holds, by the worker's slot. Blocks from the start of the prompt.

    device  [0, device)    in device memory
    host    [0, host)      in device or host memory
    disk    [0, disk)      in any tier
    """

    device: dict[int, int]
    host: dict[int, int]
    disk: dict[int, int]

    def credit(self, slot: int, host_credit: float, disk_credit: float) -> float:
        """What the worker holds, in blocks, those of slower tiers at a part of their worth."""
        device = self.device.get(slot, 0)
        if self.disk is self.device:
            return device
        host = self.host.get(slot, 0)
        return device + host_credit * (host - device) + disk_credit * (self.disk.get(slot, 0) - host)


NO_MATCHES = Matches({}, {}, {})


@dataclass(slots=True)
class _Guesses:
    """What we suppose of one worker, from what we sent there."""

    capacity: int | None
    """Blocks; None while its events tell what it holds, and a guess need last only for `lifetime_s`."""
    lifetime_s: float
    stamps: dict[int, int] = field(default_factory=dict)
    """Each block's latest use."""
    uses: deque[tuple[int, float, Sequence[int]]] = field(default_factory=deque)
    """`(stamp, time, blocks)`, oldest first."""
    clock: int = 0


class BlockIndex:
    """Which of the enrolled workers hold which blocks. Belongs to one thread; no I/O; the caller has the clock."""

    def __init__(self, *, assumed_blocks: int = 2**16, predicted_s: float = 5.0) -> None:
        """`assumed_blocks`: the capacity of a worker that neither publishes events nor told how much it holds."""
        self._assumed_blocks = assumed_blocks
        self._predicted_s = predicted_s
        self._tiers: tuple[dict[int, int], ...] = ({}, {}, {})
        self._twice: dict[tuple[int, Tier], set[int]] = {}
        """Blocks of which a worker holds a second copy in one tier."""
        self._guessed: dict[int, int] = {}
        self._guesses: dict[int, _Guesses] = {}
        self._free_slots: list[int] = []
        self._masks: dict[int, int] = {}
        """One object for each set of workers, however many blocks have it."""

    def __len__(self) -> int:
        """Blocks known exactly, counted once per tier."""
        return sum(map(len, self._tiers))

    @property
    def guessed(self) -> int:
        """Blocks assumed or predicted."""
        return len(self._guessed)

    def enroll(self) -> int:
        """A slot for a new worker."""
        slot = self._free_slots.pop() if self._free_slots else len(self._guesses)
        self._guesses[slot] = _Guesses(self._assumed_blocks, self._predicted_s)
        return slot

    def dismiss(self, slot: int) -> None:
        """The worker is gone; its slot is for the next one."""
        self.clear(slot)
        del self._guesses[slot]
        self._free_slots.append(slot)

    def expect_events(self, slot: int, publishes: bool, capacity: int | None = None) -> None:
        """Whether the worker's events are followed; if not, how many blocks it holds as far as is known."""
        guesses = self._guesses[slot]
        guesses.capacity = None if publishes else capacity or self._assumed_blocks

    def stored(self, slot: int, blocks: Iterable[int], tier: Tier = Tier.DEVICE) -> None:
        """The worker holds `blocks` now. One that it held already has two copies there."""
        layer, bit, shared = self._tiers[tier], 1 << slot, self._masks.setdefault
        held = layer.get
        for block in blocks:
            mask = held(block, 0)
            if mask & bit:
                self._twice.setdefault((slot, tier), set()).add(block)
            else:
                mask |= bit
                layer[block] = shared(mask, mask)

    def removed(self, slot: int, blocks: Iterable[int], tier: Tier = Tier.DEVICE) -> None:
        """One copy of each of `blocks` is gone; blocks that it did not hold are passed over."""
        layer, bit = self._tiers[tier], 1 << slot
        twice = self._twice.get((slot, tier), ())
        for block in blocks:
            mask = layer.get(block, 0)
            if not mask & bit:
                continue
            if block in twice:
                self._twice[slot, tier].discard(block)
            else:
                self._drop(layer, block, mask & ~bit)

    def clear(self, slot: int) -> None:
        """Nothing is known of what the worker holds."""
        for tier, layer in zip(Tier, self._tiers, strict=True):
            self._twice.pop((slot, tier), None)
            self._wipe(layer, slot)
        guesses = self._guesses[slot]
        guesses.stamps.clear()
        guesses.uses.clear()
        self._wipe(self._guessed, slot)

    def sent(self, slot: int, blocks: Sequence[int], now: float) -> None:
        """A prompt of `blocks` goes to the worker: it will hold them soon. `now`: monotonic seconds."""
        guesses = self._guesses[slot]
        if guesses.capacity is None:
            exact, bit = self._tiers[Tier.DEVICE].get, 1 << slot
            blocks = [block for block in blocks if not exact(block, 0) & bit]
        if blocks:
            guessed, bit, stamps = self._guessed, 1 << slot, guesses.stamps
            for block in blocks:
                if block not in stamps:
                    guessed[block] = guessed.get(block, 0) | bit
            guesses.clock += 1
            stamps.update(dict.fromkeys(blocks, guesses.clock))
            guesses.uses.append((guesses.clock, now, blocks))
        self._expire(slot, guesses, now)

    def match(self, blocks: Sequence[int], now: float) -> Matches:
        """How much of a prompt of `blocks` each worker holds. `now`: monotonic seconds."""
        for slot, guesses in self._guesses.items():
            if guesses.uses and guesses.capacity is None:
                self._expire(slot, guesses, now)
        device, host, disk = self._tiers
        layers = [layer for layer in (device, self._guessed) if layer]
        first = _depths(layers, blocks)
        second = _depths([*layers, host], blocks) if host else first
        third = _depths([*layers, *([host] if host else []), disk], blocks) if disk else second
        return Matches(first, second, third)

    def held(self, slot: int, tier: Tier = Tier.DEVICE) -> set[int]:
        """All blocks that the worker is known to hold in a tier, by its events. Reads the whole index."""
        bit = 1 << slot
        return {block for block, mask in self._tiers[tier].items() if mask & bit}

    def check(self) -> None:
        """Recompute what can be. Raises AssertionError in words."""
        enrolled = sum(1 << slot for slot in self._guesses)
        for layer in (*self._tiers, self._guessed):
            for mask in layer.values():
                assert mask, "a block that nobody holds is in the index"
                assert not mask & ~enrolled, "a block is held by a worker that is not enrolled"
        for slot, guesses in self._guesses.items():
            bit = 1 << slot
            supposed = {block for block, mask in self._guessed.items() if mask & bit}
            assert supposed == set(guesses.stamps), "a worker's guesses are not those in the index"
        for (slot, tier), blocks in self._twice.items():
            assert blocks <= self.held(slot, tier), "a second copy of a block that is not held"

    def _expire(self, slot: int, guesses: _Guesses, now: float) -> None:
        """Let go of guesses that are too old or too many: oldest use first, a prompt's end before its start."""
        uses, stamps, bit = guesses.uses, guesses.stamps, 1 << slot
        if guesses.capacity is None:
            while uses and now - uses[0][1] > guesses.lifetime_s:
                self._forget_oldest(guesses, bit, 0)
        else:
            while len(stamps) > guesses.capacity and len(uses) > 1:
                self._forget_oldest(guesses, bit, guesses.capacity)

    def _forget_oldest(self, guesses: _Guesses, bit: int, keep: int) -> None:
        stamp, when, blocks = guesses.uses.popleft()
        stamps, guessed = guesses.stamps, self._guessed
        for at in range(len(blocks) - 1, -1, -1):
            if len(stamps) <= keep:
                guesses.uses.appendleft((stamp, when, blocks[: at + 1]))
                return
            block = blocks[at]
            if stamps.get(block) == stamp:
                del stamps[block]
                self._drop(guessed, block, guessed[block] & ~bit)

    def _drop(self, layer: dict[int, int], block: int, mask: int) -> None:
        if mask:
            layer[block] = self._masks.setdefault(mask, mask)
        else:
            del layer[block]

    def _wipe(self, layer: dict[int, int], slot: int) -> None:
        bit = 1 << slot
        for block in [block for block, mask in layer.items() if mask & bit]:
            self._drop(layer, block, layer[block] & ~bit)


def _depths(layers: Sequence[dict[int, int]], blocks: Sequence[int]) -> dict[int, int]:
    """By slot, how many of `blocks` from the first one on a worker has in any of `layers`; none: left out."""
    depths: dict[int, int] = {}
    if not layers or not blocks:
        return depths
    lookups = [layer.get for layer in layers]
    alive = _masks(lookups, blocks[:1])[0]
    for start in range(0, len(blocks), _CHUNK):
        masks = _masks(lookups, blocks[start : start + _CHUNK])
        if masks.count(alive) == len(masks):  # in C: most prompts lose no worker in most chunks
            continue
        for at, mask in enumerate(masks, start):
            if mask != alive and (lost := alive & ~mask):
                _settle(depths, lost, at)
                alive &= mask
                if not alive:
                    return depths
    _settle(depths, alive, len(blocks))
    return depths


def _masks(lookups: Sequence[Callable[..., int]], blocks: Sequence[int]) -> list[int]:
    masks = map(lookups[0], blocks, repeat(0))
    for lookup in lookups[1:]:
        masks = map(or_, masks, map(lookup, blocks, repeat(0)))
    return list(masks)


def _settle(depths: dict[int, int], mask: int, depth: int) -> None:
    """The workers of `mask` hold `depth` blocks."""
    while depth and mask:
        low = mask & -mask
        depths[low.bit_length() - 1] = depth
        mask ^= low
