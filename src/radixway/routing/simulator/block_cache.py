"""The KV cache of a simulated engine: blocks by name, in use, idle or reserved."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence

OnBlocksChanged = Callable[[bool, Sequence[int]], None]
"""Called with blocks that an engine's cache has stored (True) or evicted, as KV events would tell."""


class BlockCache:
    """Blocks by name, least recently used first out, those in use never. Counted in blocks."""

    def __init__(self, capacity: int, on_change: OnBlocksChanged) -> None:
        self._capacity = capacity
        self._on_change = on_change
        self._idle: OrderedDict[int, None] = OrderedDict()
        self._uses: dict[int, int] = {}
        self._reserved = 0

    def __contains__(self, block: int) -> bool:
        return block in self._uses or block in self._idle

    def __iter__(self) -> Iterator[int]:
        yield from self._uses
        yield from self._idle

    def match_prefix(self, blocks: Sequence[int]) -> int:
        """Return how many of `blocks` are cached, from the first one on."""
        uses, idle = self._uses, self._idle
        for depth, block in enumerate(blocks):
            if block not in uses and block not in idle:
                return depth
        return len(blocks)

    @property
    def available(self) -> int:
        """Blocks that no running request needs, free or idle."""
        return self._capacity - len(self._uses) - self._reserved

    def allocate_blocks(self, blocks: Sequence[int], depth: int, extra: int, spare: int = 0) -> bool:
        """Take the first `depth` of `blocks` in use, and room for the others and for `extra` blocks more.

        False, and nothing changes, if there is no room now, or fewer than `spare` blocks would be left.
        """
        fresh = len(blocks) - depth + extra
        awakened = sum(1 for block in blocks[:depth] if block not in self._uses)
        if awakened + fresh + spare > self.available:
            return False
        for block in blocks[:depth]:
            if block in self._uses:
                self._uses[block] += 1
            else:
                del self._idle[block]
                self._uses[block] = 1
        self._reserved += fresh
        self._evict_blocks()
        return True

    def insert_blocks(self, blocks: Sequence[int]) -> None:
        """Insert computed `blocks`, whose space is reserved."""
        new = []
        for block in blocks:
            self._reserved -= 1
            if block in self._idle:  # computed twice at the same time
                del self._idle[block]
                self._uses[block] = 1
            elif block in self._uses:
                self._uses[block] += 1
            else:
                self._uses[block] = 1
                new.append(block)
        if new:
            self._on_change(True, new)

    def reserve_blocks(self, blocks: int) -> None:
        """Take `blocks` more for answers, of those that are `available`."""
        if blocks:
            self._reserved += blocks
            self._evict_blocks()

    def free_blocks(self, blocks: Sequence[int], extra: int) -> None:
        """A request is over: its blocks are no longer in use, the `extra` ones are free."""
        self._reserved -= extra
        uses, idle = self._uses, self._idle
        for block in reversed(blocks):  # the end of a prompt goes before its beginning
            if uses[block] == 1:
                del uses[block]
                idle[block] = None
            else:
                uses[block] -= 1

    def check(self, running: Iterable[tuple[Sequence[int], int]]) -> None:
        """Recompute every count from the running requests' blocks in use and those reserved for them.

        Raises AssertionError with the difference.
        """
        uses: Counter[int] = Counter()
        reserved = 0
        for blocks, blocks_reserved in running:
            uses.update(blocks)
            reserved += blocks_reserved
        assert uses == self._uses, "the blocks in use are not those of the running requests"
        assert reserved == self._reserved, "the reserved blocks are not those of the running requests"
        assert not self._uses.keys() & self._idle.keys(), "a block is both in use and idle"
        total = len(self._uses) + len(self._idle) + self._reserved
        assert total <= self._capacity, f"{total} blocks are used or reserved, of {self._capacity}"

    def _evict_blocks(self) -> None:
        gone = []
        while len(self._uses) + len(self._idle) + self._reserved > self._capacity:
            gone.append(self._idle.popitem(last=False)[0])
        if gone:
            self._on_change(False, gone)
