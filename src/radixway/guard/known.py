"""What was found in texts that may come again: the history of a conversation, a system prompt."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from hashlib import blake2b
from typing import Generic, TypeVar

T = TypeVar("T")


class KnownTexts(Generic[T]):
    """Findings by a digest of the text, the latest `capacity` of them. Texts are not kept.

    The digest has a key of its own, so that nobody can try texts against it. Belongs to one event loop.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._key = secrets.token_bytes(16)
        self._found: OrderedDict[bytes, T] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, text: str, said_by: str = "") -> T | None:
        """What was found in it, if that is known; `said_by`: where that depends on who says it."""
        digest = self._digest(text, said_by)
        found = self._found.get(digest)
        if found is not None:
            self._found.move_to_end(digest)
        return found

    def keep(self, text: str, found: T, said_by: str = "") -> None:
        """Keep what was found in it."""
        self._found[self._digest(text, said_by)] = found
        while len(self._found) > self._capacity:
            self._found.popitem(last=False)

    def check(self) -> None:
        """Raises AssertionError where it holds more than it may."""
        assert len(self._found) <= self._capacity

    def _digest(self, text: str, said_by: str) -> bytes:
        said = text.encode("utf-8", "surrogatepass")
        return blake2b(said, digest_size=16, key=self._key, person=said_by.encode()).digest()
