"""A bound in bytes that several stores keep together."""

from typing import Protocol
from weakref import ref


class StoreFullError(Exception):
    """Everything that is stored is held, so nothing can make room."""


class MemoryUser(Protocol):
    """A store that shares the memory."""

    @property
    def nbytes(self) -> int:
        """Bytes in use."""

    @property
    def evictable(self) -> int:
        """Strides that could be evicted now."""

    def evict(self, strides: int) -> None:
        """Evict so many `strides`, or all there are."""


class MemoryBudget:
    """Bounds several stores to `max_bytes` together, if given. The store that can evict most makes room."""

    def __init__(self, max_bytes: int | None = None) -> None:
        self.max_bytes = max_bytes
        self.claimed = 0
        """Bytes stored besides the tries that count as well."""
        self._stores: list[ref[MemoryUser]] = []
        """A list, which is read with every insertion: a WeakSet takes ten times as long."""

    @property
    def nbytes(self) -> int:
        """Bytes used."""
        return self.claimed + sum([store.nbytes for each in self._stores if (store := each()) is not None])

    def register_store(self, store: MemoryUser) -> None:
        """Count `store` from now on, until it is garbage-collected."""
        self._stores.append(ref(store, self._stores.remove))

    def make_room(self, size: int) -> None:
        """Evict until `size` bytes more fit. Raises StoreFullError if what is held leaves no room."""
        if self.max_bytes is None:
            return
        while (over := self.nbytes + size - self.max_bytes) > 0:
            stores = [store for each in self._stores if (store := each()) is not None]
            giver = max(stores, key=lambda store: store.evictable)
            if not giver.evictable:
                raise StoreFullError("all that is stored is held: collect sessions, or give more room")
            giver.evict(over // _MIN_BYTES_PER_STRIDE + 1)

    def claim_bytes(self, size: int) -> None:
        """Count `size` bytes stored besides the tries, until `release_bytes`. Raises StoreFullError."""
        self.make_room(size)
        self.claimed += size

    def release_bytes(self, size: int) -> None:
        """Stop counting `size` bytes that were claimed."""
        self.claimed -= size


_MIN_BYTES_PER_STRIDE = 16
"""Rough size of an evicted stride: key, width, log-probability and text."""
