"""Cache of findings in texts that may come again: the history of a conversation, a system prompt."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from hashlib import blake2b
from typing import Generic, TypeVar

T = TypeVar("T")


class FindingsCache(Generic[T]):
    """Findings by a digest of the text, those used latest. Texts are not kept.

    The digest has a key of its own, so that nobody can try texts against it. Belongs to one event loop.
    """

    def __init__(self, capacity: int) -> None:
        """`capacity`: of all findings together; each text counts as one more."""
        self._capacity = capacity
        self._key = secrets.token_bytes(16)
        self._found: OrderedDict[bytes, tuple[T, int]] = OrderedDict()
        self._weight = 0

    def __len__(self) -> int:
        return len(self._found)

    def find_known(self, text: str, said_by: str = "") -> T | None:
        """What was found in it, if that is known; `said_by`: where that depends on who says it."""
        digest = self._digest(text, said_by)
        kept = self._found.get(digest)
        if kept is None:
            return None
        self._found.move_to_end(digest)
        return kept[0]

    def store_findings(self, text: str, found: T, said_by: str = "", *, findings: int = 0) -> None:
        """Keep what was found in it, which are so many `findings`."""
        digest = self._digest(text, said_by)
        self._weight -= self._found.pop(digest, (found, 0))[1]
        self._found[digest] = found, findings + 1
        self._weight += findings + 1
        while self._weight > self._capacity:
            self._weight -= self._found.popitem(last=False)[1][1]

    def check(self) -> None:
        """Raises AssertionError where it holds more than it may, or counts wrongly."""
        assert self._weight == sum(weight for _, weight in self._found.values())
        assert self._weight <= self._capacity

    def _digest(self, text: str, said_by: str) -> bytes:
        said = text.encode("utf-8", "surrogatepass")
        return blake2b(said, digest_size=16, key=self._key, person=said_by.encode()).digest()
