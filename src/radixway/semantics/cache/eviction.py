"""Which entry goes when the memory is full: the oldest, the longest unused, or the least used."""

from __future__ import annotations

from typing import Literal, Protocol

Policy = Literal["fifo", "lru", "lfu"]


class EvictionOrder(Protocol):
    """Ids in the order they would go."""

    def add_key(self, key: str) -> None:
        """A new id."""
        ...

    def mark_used(self, key: str) -> None:
        """It was used; unknown ids are ignored."""
        ...

    def drop_key(self, key: str) -> None:
        """It is gone."""
        ...

    def next_victim(self) -> str:
        """The id that goes next. There must be one."""
        ...

    def __len__(self) -> int: ...


class _ByAge:
    """First in, first out."""

    def __init__(self) -> None:
        self._keys: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def add_key(self, key: str) -> None:
        self._keys[key] = None

    def mark_used(self, key: str) -> None:
        pass

    def drop_key(self, key: str) -> None:
        self._keys.pop(key, None)

    def next_victim(self) -> str:
        return next(iter(self._keys))


class _ByLastUse(_ByAge):
    """Least recently used."""

    def mark_used(self, key: str) -> None:
        if key in self._keys:
            del self._keys[key]
            self._keys[key] = None


class _ByUses:
    """Least frequently used; among equals the longest unused. A list of ids for every count of uses."""

    def __init__(self) -> None:
        self._uses: dict[str, int] = {}
        self._keys: dict[int, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._uses)

    def add_key(self, key: str) -> None:
        self._move_to_count(key, 0)

    def mark_used(self, key: str) -> None:
        if key in self._uses:
            uses = self._uses[key]
            self.drop_key(key)
            self._move_to_count(key, uses + 1)

    def drop_key(self, key: str) -> None:
        uses = self._uses.pop(key, None)
        if uses is not None:
            del self._keys[uses][key]
            if not self._keys[uses]:
                del self._keys[uses]

    def next_victim(self) -> str:
        return next(iter(self._keys[min(self._keys)]))

    def _move_to_count(self, key: str, uses: int) -> None:
        self._uses[key] = uses
        self._keys.setdefault(uses, {})[key] = None


_ORDERS: dict[Policy, type[_ByAge] | type[_ByUses]] = {"fifo": _ByAge, "lru": _ByLastUse, "lfu": _ByUses}


def make_eviction_order(policy: Policy) -> EvictionOrder:
    """An empty order of that policy."""
    return _ORDERS[policy]()
