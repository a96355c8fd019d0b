"""The contract of stores of answers: an entry, a filter of entries, and what every store can do."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from math import inf

import numpy as np
from numpy.typing import NDArray

from radixway.semantics.cache.cache_question import blake_digest

Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class CacheEntry:
    """A question that was answered."""

    id: str
    scope: str
    exact: str
    """Digest of the question (see `cache_question.normalize_question`)."""
    question: str
    vector: Vector | None
    """[size], unit length; None where the encoder had no time: then only literal repeats are answered."""
    answer: bytes
    """As `stored_answers.encode_answer` writes it."""
    tenant: str
    user: str | None
    model: str
    created_at: float
    expires_at: float = inf

    def is_fresh(self, now: float) -> bool:
        """Return whether the entry has not expired at `now`."""
        return now < self.expires_at


ENTRY_FIELDS = tuple(field.name for field in fields(CacheEntry))
HASHED_FIELDS = ("tenant", "user", "model")
"""Names that a database sees as digests alone: they are only compared."""


def stored_value(field: str, value: str) -> str:
    """Return the `value` of a `field` of an entry as databases keep it."""
    return blake_digest(value.encode("utf-8", "replace")) if field in HASHED_FIELDS else value


@dataclass(frozen=True, slots=True)
class EntryMatch:
    """An entry near a question."""

    entry: CacheEntry
    similarity: float
    """Cosine, at most 1."""


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """Selects the entries that agree with every given field; without any, all."""

    id: str | None = None
    tenant: str | None = None
    user: str | None = None
    model: str | None = None
    exact: str | None = None

    def given_fields(self) -> dict[str, str]:
        """Return the fields that are not None, by name."""
        named = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: value for name, value in named if value is not None}

    def matches(self, entry: CacheEntry) -> bool:
        """Return whether `entry` agrees with every given field."""
        return all(getattr(entry, name) == value for name, value in self.given_fields().items())


class StoreFailedError(Exception):
    """The store cannot answer now; the text says which and why, never what is in it."""


class CacheStore(ABC):
    """Entries by scope. `now` is in seconds since 1970.

    Every method may raise StoreFailedError; none of them returns what has expired.
    """

    name: str

    async def open_store(self) -> None:
        """Connect, and create what is missing. Nothing else may be called before."""
        return

    @abstractmethod
    async def find_exact(self, scope: str, exact: str, now: float) -> CacheEntry | None:
        """Return the newest entry of `scope` whose question has the digest `exact`."""

    @abstractmethod
    async def find_nearest(self, scope: str, vector: Vector, k: int, now: float) -> list[EntryMatch]:
        """Return at most `k` entries of `scope`, nearest first. `vector`: [size], unit length."""

    @abstractmethod
    async def put_entry(self, entry: CacheEntry, now: float) -> None:
        """Store `entry` in place of one with the same scope and question."""

    async def mark_used(self, entry: CacheEntry) -> None:
        """Note that `entry` was given as an answer, where the store evicts by use; others need not."""
        return

    @abstractmethod
    async def remove_entries(self, which: EntryFilter) -> int:
        """Remove the entries that `which` matches; return how many there were."""

    @abstractmethod
    async def count_entries(self) -> int:
        """Count the entries, expired ones that nothing has met since included."""

    async def close_store(self) -> None:
        """Close connections. May be called again."""
        return
