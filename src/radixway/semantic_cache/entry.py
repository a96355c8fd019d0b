"""One kept answer, and which of them a purge means."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import inf

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
