"""What every store of entries can do. Callers tell the time, in seconds since 1970."""

from __future__ import annotations

from typing import Protocol

from radixway.semantic_cache.entry import Entry, Filter, Match, Vector


class StoreFailed(Exception):
    """The store cannot answer now; the text says which and why, never what is in it."""


class Store(Protocol):
    """Entries by scope. Every method may raise StoreFailed; none of them returns what has expired."""

    name: str

    async def open(self) -> None:
        """Connect, and make what is missing. Nothing else may be called before."""
        ...

    async def find(self, scope: str, exact: str, now: float) -> Entry | None:
        """The newest entry of the scope with literally this question."""
        ...

    async def nearest(self, scope: str, vector: Vector, k: int, now: float) -> list[Match]:
        """At most `k` entries of the scope, nearest first. `vector`: [size], unit length."""
        ...

    async def put(self, entry: Entry, now: float) -> None:
        """Keep an entry. One of the same scope and question is replaced."""
        ...

    async def used(self, entry: Entry) -> None:
        """It was given as an answer: eviction counts that once."""
        ...

    async def remove(self, which: Filter) -> int:
        """Let go of entries; how many there were."""
        ...

    async def size(self) -> int:
        """How many entries there are, expired ones that nobody met since included."""
        ...

    async def close(self) -> None:
        """Let go of connections. May be called again."""
        ...
