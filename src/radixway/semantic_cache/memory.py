"""Entries in this process: exact search, bounded, evicted in a configured order."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from math import isinf

from radixway.semantic_cache.entry import Entry, Filter, Match, Vector
from radixway.semantic_cache.eviction import Policy, order_of
from radixway.semantic_cache.shelf import Shelf


class MemoryStore:
    """The store that is always there. Belongs to one event loop; none of its methods waits."""

    name = "memory"

    def __init__(self, max_entries: int, eviction: Policy = "lru") -> None:
        self._max_entries = max_entries
        self._entries: dict[str, Entry] = {}
        self._literal: dict[tuple[str, str], str] = {}
        self._shelves: dict[str, Shelf] = {}
        self._order = order_of(eviction)
        self._ends: list[tuple[float, str]] = []
        """Times at which entries expire, a heap; entries that went before stay until their time."""
        self.evicted = 0
        """Entries that went because there was no room."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    async def open(self) -> None:
        """Nothing to connect."""

    async def find(self, scope: str, exact: str, now: float) -> Entry | None:
        """See `Store`."""
        self._expire(now)
        key = self._literal.get((scope, exact))
        return None if key is None else self._entries[key]

    async def nearest(self, scope: str, vector: Vector, k: int, now: float) -> list[Match]:
        """See `Store`."""
        self._expire(now)
        shelf = self._shelves.get(scope)
        if shelf is None:
            return []
        return [Match(self._entries[key], similarity) for key, similarity in shelf.nearest(vector, k)]

    async def put(self, entry: Entry, now: float) -> None:
        """See `Store`. An entry that has expired already is not kept."""
        self._expire(now)
        if not entry.is_fresh(now):
            return
        for old in (self._literal.get((entry.scope, entry.exact)), entry.id):
            if old is not None and old in self._entries:
                self._drop(old)
        while len(self._entries) >= self._max_entries:
            self._drop(self._order.first())
            self.evicted += 1
        if entry.vector is not None:
            shelf = self._shelves.get(entry.scope) or Shelf(len(entry.vector))
            shelf.add(entry.id, entry.vector)
            self._shelves[entry.scope] = shelf
        self._entries[entry.id] = entry
        self._literal[entry.scope, entry.exact] = entry.id
        self._order.add(entry.id)
        if not isinf(entry.expires_at):
            heappush(self._ends, (entry.expires_at, entry.id))
            self._tidy_ends()

    async def used(self, entry: Entry) -> None:
        """See `Store`."""
        self._order.use(entry.id)

    async def remove(self, which: Filter) -> int:
        """See `Store`."""
        gone = [entry.id for entry in self if which.matches(entry)]
        for key in gone:
            self._drop(key)
        return len(gone)

    async def size(self) -> int:
        """See `Store`."""
        return len(self)

    async def close(self) -> None:
        """Nothing to let go of."""

    def check(self) -> None:
        """Recount everything from the entries. Raises AssertionError."""
        assert len(self._entries) <= self._max_entries
        assert len(self._order) == len(self._entries)
        assert {(e.scope, e.exact): e.id for e in self} == self._literal
        on_shelves = sum(len(shelf) for shelf in self._shelves.values())
        assert on_shelves == sum(entry.vector is not None for entry in self)
        assert all(len(shelf) for shelf in self._shelves.values())
        ends = {key for _, key in self._ends}
        assert all(isinf(entry.expires_at) or entry.id in ends for entry in self)

    def _expire(self, now: float) -> None:
        while self._ends and self._ends[0][0] <= now:
            _, key = heappop(self._ends)
            entry = self._entries.get(key)
            if entry is not None and not entry.is_fresh(now):
                self._drop(key)

    def _tidy_ends(self) -> None:
        if len(self._ends) > 2 * len(self._entries) + 64:
            self._ends = [end for end in self._ends if end[1] in self._entries]
            heapify(self._ends)

    def _drop(self, key: str) -> None:
        entry = self._entries.pop(key)
        del self._literal[entry.scope, entry.exact]
        self._order.drop(key)
        if entry.vector is not None:
            shelf = self._shelves[entry.scope]
            shelf.drop(key)
            if not len(shelf):
                del self._shelves[entry.scope]
