"""Which numbers are free, as runs of neighbours: so that what belongs together can lie together."""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush


class FreeRunIndex:
    """Runs [start, stop) of free numbers, none of which touch. Every operation takes logarithmic time."""

    def __init__(self) -> None:
        self.count = 0
        """How many numbers are free."""
        self._stop: dict[int, int] = {}
        self._start: dict[int, int] = {}  # the same runs by their ends
        self._longest: list[tuple[int, int]] = []  # a heap of (-length, start); also of runs that are gone

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._stop.items())

    def add_run(self, start: int, stop: int) -> None:
        """[start, stop) is free from now on; nothing of it was."""
        self.count += stop - start
        if start in self._start:
            start = self._start.pop(start)
            del self._stop[start]
        if stop in self._stop:
            stop = self._stop.pop(stop)
            del self._start[stop]
        self._set_run(start, stop)

    def take_from_run(self, start: int, skip: int, count: int) -> range:
        """`count` numbers of the run that begins at `start`, after its first `skip`, which stay free."""
        stop = self._stop.pop(start)
        del self._start[stop]
        first, last = start + skip, start + skip + count
        if skip:
            self._set_run(start, first)
        if last < stop:
            self._set_run(last, stop)
        self.count -= count
        return range(first, last)

    def run_length(self, start: int) -> int:
        """Of the run that begins at `start`; 0 if none does."""
        return self._stop.get(start, start) - start

    def longest_run(self) -> int:
        """Where the longest run begins. There must be one."""
        while self.run_length(self._longest[0][1]) != -self._longest[0][0]:
            heappop(self._longest)
        return self._longest[0][1]

    def _set_run(self, start: int, stop: int) -> None:
        self._stop[start], self._start[stop] = stop, start
        if len(self._longest) > 2 * len(self._stop) + 64:
            self._longest = [(first - end, first) for first, end in self._stop.items()]
            heapify(self._longest)
        else:
            heappush(self._longest, (start - stop, start))
