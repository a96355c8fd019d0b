"""Blocks of the prompts sent to one worker lately, in the order of their latest use."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

_SLACK = 4096
"""Superseded blocks that may be kept besides as many current ones."""


class RecentBlocks:
    """An LRU of blocks. A use is one entry, however long the prompt; a block counts from its latest one."""

    __slots__ = ("_clock", "_stamps", "_use_stamps", "_used_at", "_uses", "_written")

    def __init__(self) -> None:
        self._stamps: dict[int, int] = {}
        """Latest use by block."""
        self._uses: deque[tuple[int, ...]] = deque()
        """Blocks of each, oldest first. Of numbers alone, like the next two: the garbage collector looks at
        none of them twice."""
        self._use_stamps: deque[int] = deque()
        self._used_at: deque[float] = deque()
        self._written = 0
        """Blocks in `_uses`, superseded ones included."""
        self._clock = 0

    def __len__(self) -> int:
        return len(self._stamps)

    def __contains__(self, block: int) -> bool:
        return block in self._stamps

    @property
    def entry_count(self) -> int:
        """Blocks written down, those of uses that later ones have replaced too."""
        return self._written

    def block_set(self) -> set[int]:
        """Return all blocks."""
        return set(self._stamps)

    def iter_uses(self) -> Iterator[list[int]]:
        """Yield the blocks that each use still determines, oldest first; replaying them rebuilds the LRU."""
        stamps = self._stamps
        for stamp, blocks in zip(self._use_stamps, self._uses, strict=True):
            if left := [block for block in blocks if stamps.get(block) == stamp]:
                yield left

    def touch_blocks(self, blocks: Sequence[int], now: float) -> list[int]:
        """Note a use; returns the blocks that were not here."""
        stamps = self._stamps
        if stamps.keys().isdisjoint(blocks):  # in C: most prompts are new
            new = list(blocks)
        else:
            new = [block for block in blocks if block not in stamps]
        self._clock += 1
        stamps.update(dict.fromkeys(blocks, self._clock))
        self._append_use(self._clock, now, blocks)
        if self._written > 2 * len(stamps) + _SLACK:
            self._drop_superseded()
        return new

    def discard_blocks(self, blocks: Iterable[int]) -> list[int]:
        """Let go of those of `blocks` that are here; returns them."""
        stamps = self._stamps
        return [block for block in blocks if stamps.pop(block, None) is not None]

    def drop_older(self, than: float) -> list[int]:
        """Let go of all that was used before that time; returns it."""
        gone: list[int] = []
        while self._used_at and self._used_at[0] < than:
            self._drop_oldest_use(gone, len(self._stamps))
        return gone

    def drop_surplus(self, capacity: int) -> list[int]:
        """Let go of the least recently used beyond `capacity`, a prompt's end before its start."""
        gone: list[int] = []
        while (surplus := len(self._stamps) - capacity) > 0:
            self._drop_oldest_use(gone, surplus)
        return gone

    def check(self) -> None:
        """Recompute all counts. Raises AssertionError with the difference."""
        uses = list(zip(self._use_stamps, self._uses, self._used_at, strict=True))
        assert self._written == sum(len(blocks) for _, blocks, _ in uses), "uses are miscounted"
        latest = {block: stamp for stamp, blocks, _ in uses for block in blocks}
        assert latest.items() >= self._stamps.items(), "a block counts from a use that is not its latest"

    def _drop_oldest_use(self, gone: list[int], limit: int) -> None:
        stamp, when, blocks = (
            self._use_stamps.popleft(),
            self._used_at.popleft(),
            self._uses.popleft(),
        )
        self._written -= len(blocks)
        stamps = self._stamps
        if len(blocks) <= limit and list(map(stamps.get, blocks)).count(stamp) == len(blocks):
            gone.extend(reversed(blocks))  # in C: most prompts go whole
            deque(map(stamps.__delitem__, blocks), maxlen=0)
            return
        for at in range(len(blocks) - 1, -1, -1):
            if stamps.get(blocks[at]) != stamp:
                continue
            if not limit:
                self._use_stamps.appendleft(stamp)
                self._used_at.appendleft(when)
                self._uses.appendleft(blocks[: at + 1])
                self._written += at + 1
                return
            limit -= 1
            del stamps[blocks[at]]
            gone.append(blocks[at])

    def _drop_superseded(self) -> None:
        """Forget superseded blocks of each use, which repeated prompts would pile up."""
        stamps = self._stamps
        uses = zip(self._use_stamps, self._used_at, self._uses, strict=True)
        self._uses, self._use_stamps, self._used_at, self._written = deque(), deque(), deque(), 0
        for stamp, when, blocks in uses:
            if left := [block for block in blocks if stamps.get(block) == stamp]:
                self._append_use(stamp, when, left)

    def _append_use(self, stamp: int, when: float, blocks: Sequence[int]) -> None:
        self._uses.append(tuple(blocks))
        self._use_stamps.append(stamp)
        self._used_at.append(when)
        self._written += len(blocks)
