"""Which entry goes when the memory is full: the oldest, the longest unused, or the least used."""

from __future__ import annotations

from typing import Literal, Protocol

Policy = Literal["fifo", "lru", "lfu"]


class Order(Protocol):
    """Ids in the order they would go."""

    def add(self, key: str) -> None:
        """A new id."""
        ...

    def use(self, key: str) -> None:
        """It was used; unknown ids are ignored."""
        ...

    def drop(self, key: str) -> None:
        """It is gone."""
        ...

    def first(self) -> str:
        """The id that goes next. There must be one."""
        ...

    def __len__(self) -> int: ...


class _ByAge:
    """First in, first out."""

    def __init__(self) -> None:
        self._keys: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: str) -> None:
        self._keys[key] = None

    def use(self, key: str) -> None:
        pass

    def drop(self, key: str) -> None:
        self._keys.pop(key, None)

    def first(self) -> str:
        return next(iter(self._keys))


class _ByLastUse(_ByAge):
    """Least recently used."""

    def use(self, key: str) -> None:
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

    def add(self, key: str) -> None:
        self._place(key, 0)

    def use(self, key: str) -> None:
        if key in self._uses:
            uses = self._uses[key]
            self.drop(key)
            self._place(key, uses + 1)

    def drop(self, key: str) -> None:
        uses = self._uses.pop(key, None)
        if uses is not None:
            del self._keys[uses][key]
            if not self._keys[uses]:
                del self._keys[uses]

    def first(self) -> str:
        return next(iter(self._keys[min(self._keys)]))

    def _place(self, key: str, uses: int) -> None:
        self._uses[key] = uses
        self._keys.setdefault(uses, {})[key] = None


_ORDERS: dict[Policy, type[_ByAge] | type[_ByUses]] = {"fifo": _ByAge, "lru": _ByLastUse, "lfu": _ByUses}


def order_of(policy: Policy) -> Order:
    """An empty order of that policy."""
    return _ORDERS[policy]()
