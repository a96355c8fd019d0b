"""Matches of a prompt: where the prefixes end that workers hold of its blocks."""

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from operator import or_
from typing import NamedTuple

import msgspec

_CHUNK = 64


class PrefixMatches(msgspec.Struct, gc=False):
    """Blocks of a prompt that each worker holds, counted from its start, by the worker's slot.

    device  [0, device)    in device memory
    host    [0, host)      in device or host memory
    disk    [0, disk)      in any tier

    Where an engine's blocks are larger than these, only those that its whole blocks cover.
    """

    device: dict[int, int]
    host: dict[int, int]
    disk: dict[int, int]

    def credit(self, slot: int, host_credit: float, disk_credit: float) -> float:
        """Return the blocks held at `slot`, weighted in slower tiers by `host_credit` and `disk_credit`."""
        device = self.device.get(slot, 0)
        if self.disk is self.device:
            return device
        host = self.host.get(slot, 0)
        return device + host_credit * (host - device) + disk_credit * (self.disk.get(slot, 0) - host)


_NOTHING_HELD: dict[int, int] = {}
NO_MATCHES = PrefixMatches(_NOTHING_HELD, _NOTHING_HELD, _NOTHING_HELD)


class EngineBlockSize(NamedTuple):
    """Tokens in a block of a worker's engine, and in one of the index."""

    engine_tokens: int
    index_tokens: int

    def floor_blocks(self, blocks: int) -> int:
        """Return how many of an index's first `blocks` the engine's whole blocks cover."""
        return floor_to_engine_blocks(blocks * self.index_tokens, *self) // self.index_tokens


def floor_to_engine_blocks(tokens: int, engine_tokens: int, index_tokens: int) -> int:
    """Return how many of the first `tokens` an engine reuses, in whole blocks of its own and of the index."""
    return tokens // engine_tokens * engine_tokens // index_tokens * index_tokens


PrefixEnds = list[tuple[int, int]]
"""Ends of prefixes: `(depth, mask of the workers that end there)`, shortest first."""


class PrefixLookup(msgspec.Struct, gc=False):
    """The result of `BlockIndex.lookup_prefix`; `matches` sorts it by worker."""

    device: PrefixEnds
    host: PrefixEnds
    disk: PrefixEnds
    large_blocks: Mapping[int, EngineBlockSize]
    """By slot, the engines whose blocks are not whole parts of the index's."""

    def matches(self, among: int = -1) -> PrefixMatches:
        """Return matches for the workers in the mask `among`; by default for all."""
        if not (self.device or self.host or self.disk):
            return NO_MATCHES
        device = self._by_slot(self.device, among)
        host = device if self.host is self.device else self._by_slot(self.host, among)
        return PrefixMatches(
            device, host, host if self.disk is self.host else self._by_slot(self.disk, among)
        )

    def deepest(self, count: int, among: int) -> list[int]:
        """The slots of `count` workers of `among` that hold most; fewer if fewer hold any."""
        slots: list[int] = []
        for _, mask in reversed(self.disk):
            mask &= among
            while mask and len(slots) < count:
                slots.append(mask.bit_length() - 1)
                mask ^= 1 << slots[-1]
        return slots

    def _by_slot(self, ends: PrefixEnds, among: int) -> dict[int, int]:
        depths: dict[int, int] = {}
        for depth, mask in ends:
            mask &= among
            while mask:
                slot = mask.bit_length() - 1
                depths[slot] = depth
                mask ^= 1 << slot
        if self.large_blocks:
            for slot in self.large_blocks.keys() & depths.keys():
                depths[slot] = self.large_blocks[slot].floor_blocks(depths[slot])
        return depths


def find_prefix_ends(layers: Sequence[dict[int, int]], blocks: Sequence[int]) -> PrefixEnds:
    """Return where prefixes of `blocks` end that workers hold in any of `layers`."""
    ends: PrefixEnds = []
    alive = 0
    if blocks:
        first = blocks[0]
        for layer in layers:
            alive |= layer.get(first, 0)
    if not alive:
        return ends
    lookups = [layer.get for layer in layers]
    for start in range(0, len(blocks), _CHUNK):
        masks = _masks(lookups, blocks[start : start + _CHUNK])
        if masks.count(alive) == len(masks):  # in C: most prompts lose no worker in most chunks
            continue
        for at, mask in enumerate(masks, start):
            if mask != alive and (lost := alive & ~mask):
                ends.append((at, lost))
                alive &= mask
                if not alive:
                    return ends
    ends.append((len(blocks), alive))
    return ends


def _masks(lookups: Sequence[Callable[..., int]], blocks: Sequence[int]) -> list[int]:
    masks = map(lookups[0], blocks, repeat(0))
    for lookup in lookups[1:]:
        masks = map(or_, masks, map(lookup, blocks, repeat(0)))
    return list(masks)
