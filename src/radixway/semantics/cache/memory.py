"""The vectors of one scope, in one matrix: exact search is one product.

Entries in this process: exact search, bounded, evicted in a configured order.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from math import isinf

import numpy as np
from numpy.typing import NDArray

from radixway.semantics.cache.eviction import Policy, make_eviction_order
from radixway.semantics.cache.store import CacheEntry, EntryFilter, EntryMatch, Vector

_FIRST_ROWS = 4


class VectorMatrix:
    """Rows 0 … len-1 of a matrix that doubles; a row that goes is filled with the last one."""

    def __init__(self, size: int) -> None:
        self._matrix: NDArray[np.float32] = np.empty((_FIRST_ROWS, size), np.float32)
        self._ids: list[str] = []
        self._rows: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def add_vector(self, key: str, vector: Vector) -> None:
        """Raises ValueError for a vector of another size."""
        if vector.shape != (self._matrix.shape[1],):
            raise ValueError(f"a vector of {vector.shape}, where others have {self._matrix.shape[1]}")
        row = len(self._ids)
        if row == len(self._matrix):
            self._matrix = np.concatenate([self._matrix, np.empty_like(self._matrix)])
        self._matrix[row] = vector
        self._rows[key] = row
        self._ids.append(key)

    def drop_vector(self, key: str) -> None:
        row = self._rows.pop(key)
        last = self._ids.pop()
        if last != key:
            self._matrix[row] = self._matrix[len(self._ids)]
            self._ids[row] = last
            self._rows[last] = row

    def find_nearest(self, vector: Vector, k: int) -> list[tuple[str, float]]:
        """At most `k` (id, cosine), nearest first."""
        count = len(self._ids)
        if vector.shape != (self._matrix.shape[1],) or not count:
            return []
        cosines = self._matrix[:count] @ vector
        top = np.argpartition(-cosines, k - 1)[:k] if k < count else np.arange(count)
        top = top[np.argsort(-cosines[top], kind="stable")]
        return [(self._ids[row], min(float(cosines[row]), 1.0)) for row in top]


class MemoryStore:
    """The store that is always there. Belongs to one event loop; none of its methods waits."""

    name = "memory"

    def __init__(self, max_entries: int, eviction: Policy = "lru") -> None:
        self._max_entries = max_entries
        self._entries: dict[str, CacheEntry] = {}
        self._literal: dict[tuple[str, str], str] = {}
        self._shelves: dict[str, VectorMatrix] = {}
        self._order = make_eviction_order(eviction)
        self._ends: list[tuple[float, str]] = []
        """Times at which entries expire, a heap; entries that went before stay until their time."""
        self.evicted = 0
        """Entries that went because there was no room."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[CacheEntry]:
        return iter(self._entries.values())

    async def open_store(self) -> None:
        """Nothing to connect."""

    async def find_exact(self, scope: str, exact: str, now: float) -> CacheEntry | None:
        """See `CacheStore`."""
        self._drop_expired(now)
        key = self._literal.get((scope, exact))
        return None if key is None else self._entries[key]

    async def find_nearest(self, scope: str, vector: Vector, k: int, now: float) -> list[EntryMatch]:
        """See `CacheStore`."""
        self._drop_expired(now)
        shelf = self._shelves.get(scope)
        if shelf is None:
            return []
        return [
            EntryMatch(self._entries[key], similarity) for key, similarity in shelf.find_nearest(vector, k)
        ]

    async def put_entry(self, entry: CacheEntry, now: float) -> None:
        """See `CacheStore`. An entry that has expired already is not kept."""
        self._drop_expired(now)
        if not entry.is_fresh(now):
            return
        for old in (self._literal.get((entry.scope, entry.exact)), entry.id):
            if old is not None and old in self._entries:
                self._drop_entry(old)
        while len(self._entries) >= self._max_entries:
            self._drop_entry(self._order.next_victim())
            self.evicted += 1
        if entry.vector is not None:
            shelf = self._shelves.get(entry.scope) or VectorMatrix(len(entry.vector))
            shelf.add_vector(entry.id, entry.vector)
            self._shelves[entry.scope] = shelf
        self._entries[entry.id] = entry
        self._literal[entry.scope, entry.exact] = entry.id
        self._order.add_key(entry.id)
        if not isinf(entry.expires_at):
            heappush(self._ends, (entry.expires_at, entry.id))
            self._compact_expiries()

    async def mark_used(self, entry: CacheEntry) -> None:
        """See `CacheStore`."""
        self._order.mark_used(entry.id)

    async def remove_entries(self, which: EntryFilter) -> int:
        """See `CacheStore`."""
        gone = [entry.id for entry in self if which.matches(entry)]
        for key in gone:
            self._drop_entry(key)
        return len(gone)

    async def count_entries(self) -> int:
        """See `CacheStore`."""
        return len(self)

    async def close_store(self) -> None:
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

    def _drop_expired(self, now: float) -> None:
        while self._ends and self._ends[0][0] <= now:
            _, key = heappop(self._ends)
            entry = self._entries.get(key)
            if entry is not None and not entry.is_fresh(now):
                self._drop_entry(key)

    def _compact_expiries(self) -> None:
        if len(self._ends) > 2 * len(self._entries) + 64:
            self._ends = [end for end in self._ends if end[1] in self._entries]
            heapify(self._ends)

    def _drop_entry(self, key: str) -> None:
        entry = self._entries.pop(key)
        del self._literal[entry.scope, entry.exact]
        self._order.drop_key(key)
        if entry.vector is not None:
            shelf = self._shelves[entry.scope]
            shelf.drop_vector(key)
            if not len(shelf):
                del self._shelves[entry.scope]
