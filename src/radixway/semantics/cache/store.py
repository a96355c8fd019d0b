"""One kept answer, and which of them a purge means.

What every store of entries can do. Callers tell the time, in seconds since 1970.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import inf
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class CacheEntry:
    """A question that was answered."""

    id: str
    scope: str
    exact: str
    """Digest of the question (see `scope.normalise`)."""
    question: str
    vector: Vector | None
    """[size], unit length; None where the encoder had no time: then only literal repeats are answered."""
    answer: bytes
    """What `answers.encode` made of it."""
    tenant: str
    user: str | None
    model: str
    """As the client named it."""
    created_at: float
    """Seconds since 1970."""
    expires_at: float = inf

    def is_fresh(self, now: float) -> bool:
        """Whether it may still be given."""
        return now < self.expires_at


@dataclass(frozen=True, slots=True)
class EntryMatch:
    """An entry near a question."""

    entry: CacheEntry
    similarity: float
    """Cosine, at most 1."""


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """Which entries: all that agree with every field that is given. Without any it means all."""

    id: str | None = None
    tenant: str | None = None
    user: str | None = None
    model: str | None = None
    exact: str | None = None

    def given_fields(self) -> dict[str, str]:
        """The fields that are given."""
        named = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: value for name, value in named if value is not None}

    def matches(self, entry: CacheEntry) -> bool:
        """Whether the entry is one of them."""
        return all(getattr(entry, name) == value for name, value in self.given_fields().items())


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
