"""Entries in this process: exact search over a matrix per scope, bounded, evicted in a configured order."""

from collections import OrderedDict
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from math import isinf
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from radixway.semantics.cache.store import CacheEntry, CacheStore, EntryFilter, EntryMatch, Vector

_FIRST_ROWS = 4


class _OldestFirst:
    """Keys in the order in which they are evicted: first in, first out."""

    def __init__(self) -> None:
        self._keys: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._keys)

    def add_key(self, key: str) -> None:
        self._keys[key] = None

    def mark_used(self, key: str) -> None:
        """Note a use of `key`; unknown keys are ignored."""

    def drop_key(self, key: str) -> None:
        del self._keys[key]

    def next_victim(self) -> str:
        return next(iter(self._keys))


class _LeastRecentlyUsed(_OldestFirst):
    def mark_used(self, key: str) -> None:
        if key in self._keys:
            self._keys.move_to_end(key)


class _LeastFrequentlyUsed:
    """Among keys of equally many uses the longest unused goes first. Keys are listed by count of uses."""

    def __init__(self) -> None:
        self._uses: dict[str, int] = {}
        self._keys: dict[int, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._uses)

    def add_key(self, key: str, uses: int = 0) -> None:
        self._uses[key] = uses
        self._keys.setdefault(uses, {})[key] = None

    def mark_used(self, key: str) -> None:
        if key in self._uses:
            self.add_key(key, self.drop_key(key) + 1)

    def drop_key(self, key: str) -> int:
        uses = self._uses.pop(key)
        del self._keys[uses][key]
        if not self._keys[uses]:
            del self._keys[uses]
        return uses

    def next_victim(self) -> str:
        return next(iter(self._keys[min(self._keys)]))


_EVICTION_ORDERS: dict[str, type[_OldestFirst] | type[_LeastFrequentlyUsed]] = {
    "fifo": _OldestFirst,
    "lru": _LeastRecentlyUsed,
    "lfu": _LeastFrequentlyUsed,
}


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
        """Return at most `k` (id, cosine), nearest first."""
        count = len(self._ids)
        if vector.shape != (self._matrix.shape[1],) or not count:
            return []
        cosines = self._matrix[:count] @ vector
        top = np.argpartition(-cosines, k - 1)[:k] if k < count else np.arange(count)
        top = top[np.argsort(-cosines[top], kind="stable")]
        return [(self._ids[row], min(float(cosines[row]), 1.0)) for row in top]


class MemoryStore(CacheStore):
    """The store that is always there. Belongs to one event loop; none of its methods waits."""

    name = "memory"

    def __init__(self, max_entries: int, eviction: Literal["fifo", "lru", "lfu"] = "lru") -> None:
        self._max_entries = max_entries
        self._entries: dict[str, CacheEntry] = {}
        self._literal: dict[tuple[str, str], str] = {}
        self._matrices: dict[str, VectorMatrix] = {}
        self._order = _EVICTION_ORDERS[eviction]()
        self._ends: list[tuple[float, str]] = []
        """Heap of expiry times; removed entries stay until theirs."""
        self.evicted = 0  # entries that had to make room

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[CacheEntry]:
        return iter(self._entries.values())

    async def find_exact(self, scope: str, exact: str, now: float) -> CacheEntry | None:
        self._drop_expired(now)
        key = self._literal.get((scope, exact))
        return None if key is None else self._entries[key]

    async def find_nearest(self, scope: str, vector: Vector, k: int, now: float) -> list[EntryMatch]:
        self._drop_expired(now)
        matrix = self._matrices.get(scope)
        if matrix is None:
            return []
        return [
            EntryMatch(self._entries[key], similarity) for key, similarity in matrix.find_nearest(vector, k)
        ]

    async def put_entry(self, entry: CacheEntry, now: float) -> None:
        """An entry that has expired already is not kept."""
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
            matrix = self._matrices.get(entry.scope) or VectorMatrix(len(entry.vector))
            matrix.add_vector(entry.id, entry.vector)
            self._matrices[entry.scope] = matrix
        self._entries[entry.id] = entry
        self._literal[entry.scope, entry.exact] = entry.id
        self._order.add_key(entry.id)
        if not isinf(entry.expires_at):
            heappush(self._ends, (entry.expires_at, entry.id))
            self._compact_expiries()

    async def mark_used(self, entry: CacheEntry) -> None:
        self._order.mark_used(entry.id)

    async def remove_entries(self, which: EntryFilter) -> int:
        gone = [entry.id for entry in self if which.matches(entry)]
        for key in gone:
            self._drop_entry(key)
        return len(gone)

    async def count_entries(self) -> int:
        return len(self)

    def check(self) -> None:
        """Recount everything from the entries. Raises AssertionError."""
        assert len(self._entries) <= self._max_entries
        assert len(self._order) == len(self._entries)
        assert {(e.scope, e.exact): e.id for e in self} == self._literal
        with_vector = sum(len(matrix) for matrix in self._matrices.values())
        assert with_vector == sum(entry.vector is not None for entry in self)
        assert all(len(matrix) for matrix in self._matrices.values())
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
            matrix = self._matrices[entry.scope]
            matrix.drop_vector(key)
            if not len(matrix):
                del self._matrices[entry.scope]
