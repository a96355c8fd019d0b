"""The tree as simple as can be: a dict with an entry for every prefix. What the tests compare with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Self

Key = Any  # str or bytes


class Values(tuple[int, ...]):
    """A payload of one number per stride."""

    def split(self, at: int) -> tuple[Self, Self]:
        assert 0 < at < len(self), f"a payload of {len(self)} strides is split at {at}"
        return type(self)(self[:at]), type(self)(self[at:])

    def join(self, more: Self) -> Self:
        return type(self)(self + more)


@dataclass
class Stride:
    """The last stride of one prefix. `used` is a tick, and the depth: of one path, the end is the oldest."""

    value: int
    hits: int
    priority: int
    used: tuple[int, int] = (0, 0)


class Model:
    """Every prefix of every sequence, with what belongs to its last stride. Slow, and plainly right."""

    def __init__(self, width: int, order: Callable[[Any], int]) -> None:
        self.width = width
        self.order = order
        self.strides: dict[tuple[str | None, Key], Stride] = {}
        self.locks: list[tuple[str | None, Key]] = []
        self.now = 0

    def prefixes(self, key: Key, first: int = 1) -> Iterator[Key]:
        """The prefixes of `key` of `first` whole strides and more."""
        for length in range(first, len(key) // self.width + 1):
            yield key[: length * self.width]

    def matched(self, namespace: str | None, key: Key) -> list[int]:
        """The values along the longest prefix that is there."""
        values = []
        for prefix in self.prefixes(key):
            if (namespace, prefix) not in self.strides:
                break
            values.append(self.strides[namespace, prefix].value)
        return values

    def locked(self) -> set[tuple[str | None, Key]]:
        """All that a lock is on or below."""
        return {(namespace, prefix) for namespace, key in self.locks for prefix in self.prefixes(key)}

    def use(self, namespace: str | None, key: Key, hits: int = 0) -> None:
        """Make the whole path to `key` the most recently used, but for what is locked."""
        self.now += 1
        locked = self.locked()
        for depth, prefix in enumerate(self.prefixes(key)):
            self.strides[namespace, prefix].hits += hits
            if (namespace, prefix) not in locked:
                self.strides[namespace, prefix].used = (self.now, -depth)

    def insert(self, namespace: str | None, key: Key, values: list[int], hits: int, priority: int) -> int:
        """Store `key`; its last strides have `values`. Returns how many of those were there."""
        existed = 0
        first = len(key) // self.width - len(values) + 1
        for prefix, value in zip(self.prefixes(key, first), values, strict=True):
            existed += (namespace, prefix) in self.strides
            self.strides.setdefault((namespace, prefix), Stride(value, hits, priority))
        self.prioritize(namespace, key, priority)
        self.use(namespace, key)
        return existed

    def prioritize(self, namespace: str | None, key: Key, priority: int) -> None:
        """Give the whole path to `key` at least this priority."""
        for prefix in self.prefixes(key):
            stride = self.strides[namespace, prefix]
            stride.priority = max(stride.priority, priority)

    def unlock(self, namespace: str | None, key: Key) -> None:
        """Take back one lock. What becomes free counts as just used."""
        before = self.locked()
        self.locks.remove((namespace, key))
        self.now += 1
        for name, prefix in before - self.locked():
            self.strides[name, prefix].used = (self.now, -len(prefix))

    def evict(self, count: int) -> list[int]:
        """Let go of `count` strides one by one, each time looking at all that nothing hangs on."""
        freed = []
        locked = self.locked()
        while len(freed) < count:
            inner = {(name, key[: -self.width]) for name, key in self.strides}
            leaves = [at for at in self.strides if at not in inner and at not in locked]
            if not leaves:
                break
            freed.append(self.strides.pop(min(leaves, key=self._place)).value)
        return freed

    def remove(self, gone: Callable[[str | None, Key], bool]) -> list[int] | None:
        """Take out the strides that `gone` names, or none (returning None) if one of them is locked."""
        chosen = [at for at in self.strides if gone(*at)]
        if not self.locked().isdisjoint(chosen):
            return None
        return [self.strides.pop(at).value for at in chosen]

    def _place(self, at: tuple[str | None, Key]) -> tuple[int, tuple[int, int]]:
        stride = self.strides[at]
        return self.order(SimpleNamespace(hits=stride.hits, priority=stride.priority)), stride.used
