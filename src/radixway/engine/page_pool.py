"""Page ids of the KV cache: which are free (`PagePool`), and those of a tree's edge (`PageSpan`).

Plain numbers; the tensors behind them are in `kv_store.py`. `KVCacheManager` decides who gets a page and when
it is freed.
"""

from array import array
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np


@dataclass(slots=True, frozen=True)
class PageSpan:
    """The payload of a tree's edge: one page id per stride."""

    ids: "array[int]"

    def split(self, at: int) -> tuple["PageSpan", "PageSpan"]:
        """The first `at` pages and the rest."""
        return PageSpan(self.ids[:at]), PageSpan(self.ids[at:])

    def join(self, more: "PageSpan") -> "PageSpan":
        """These pages and then `more`."""
        return PageSpan(self.ids + more.ids)


class PagePool:
    """Allocates page ids 1 … total, neighbours where it can: those are read in place, others are copied.

    Page 0 is never allocated: it pads tables to a common length.
    """

    def __init__(self, total: int, allocated: Collection[int] = ()) -> None:
        """`allocated`: pages in use from the start."""
        if total < 1:
            raise ValueError(f"a pool has at least one page, not {total}")
        self.total = total
        self._free = FreeRunIndex()
        before = 0
        for page in (*sorted(allocated), total + 1):
            if before + 1 < page:
                self._free.add_run(before + 1, page)
            before = page

    @property
    def num_free(self) -> int:
        """Pages that are not allocated."""
        return self._free.count

    def allocate_pages(self, count: int, *, after: int = 0, skip: int = 0) -> "array[int]":
        """Allocate `count` pages; the caller must check that they are free.

        They follow the page `after` if possible. Otherwise they come from the longest free run, `skip` pages
        from its beginning, so that the owner of the page before it can continue there.
        """
        if count > self.num_free:
            raise ValueError(f"{count} pages wanted, {self.num_free} free: evict first")
        pages = array("i")
        if after and (length := self._free.run_length(after + 1)):
            pages.extend(self._free.take_from_run(after + 1, 0, min(count, length)))
        while missing := count - len(pages):
            start = self._free.longest_run()
            length = self._free.run_length(start)
            skipped = max(0, min(skip, (length - missing) // 2))
            pages.extend(self._free.take_from_run(start, skipped, min(missing, length)))
        return pages

    def free_pages(self, pages: Iterable[int]) -> None:
        """Free `pages`, which the caller will not read again."""
        start = stop = 0
        for page in pages:
            if page != stop:
                if start < stop:
                    self._free.add_run(start, stop)
                start = page
            stop = page + 1
        if start < stop:
            self._free.add_run(start, stop)

    def check(self, *allocated: Iterable[int]) -> None:
        """Verify that every page is free or in exactly one of `allocated`: free + cached + in use = total."""
        owned = np.fromiter((page for pages in allocated for page in pages), dtype=np.int64)
        owners = np.bincount(owned, minlength=self.total + 1)
        owners[0] += 1
        for start, stop in self._free:
            owners[start:stop] += 1
        wrong = {int(page): int(owners[page]) for page in np.flatnonzero(owners[1:] != 1) + 1}
        if wrong or owners[0] != 1:
            raise AssertionError(f"pages not owned exactly once (page: owners): {wrong}")


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
        """Free [start, stop), none of which was free."""
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
        """Length of the free run that begins at `start`; 0 if none does."""
        return self._stop.get(start, start) - start

    def longest_run(self) -> int:
        """The beginning of the longest run. There must be one."""
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
