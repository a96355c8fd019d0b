"""What every store of entries can do. Callers tell the time, in seconds since 1970."""

from __future__ import annotations

from typing import Protocol

from radixway.semantic_cache.entry import CacheEntry, EntryFilter, EntryMatch, Vector


class StoreFailedError(Exception):
    """The store cannot answer now; the text says which and why, never what is in it."""


class CacheStore(Protocol):
    """Entries by scope. Every method may raise StoreFailed; none of them returns what has expired."""

    name: str

    async def open_store(self) -> None:
        """Connect, and make what is missing. Nothing else may be called before."""
        ...

    async def find_exact(self, scope: str, exact: str, now: float) -> CacheEntry | None:
        """The newest entry of the scope with literally this question."""
        ...

    async def find_nearest(self, scope: str, vector: Vector, k: int, now: float) -> list[EntryMatch]:
        """At most `k` entries of the scope, nearest first. `vector`: [size], unit length."""
        ...

    async def put_entry(self, entry: CacheEntry, now: float) -> None:
        """Keep an entry. One of the same scope and question is replaced."""
        ...

    async def mark_used(self, entry: CacheEntry) -> None:
        """It was given as an answer: eviction counts that once."""
        ...

    async def remove_entries(self, which: EntryFilter) -> int:
        """Let go of entries; how many there were."""
        ...

    async def count_entries(self) -> int:
        """How many entries there are, expired ones that nobody met since included."""
        ...

    async def close_store(self) -> None:
        """Let go of connections. May be called again."""
        ...
