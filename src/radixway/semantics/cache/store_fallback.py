"""A store that may fail, with the memory behind it: a breaker leaves it alone for a while, nothing waits."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeVar

from radixway.core.circuit_breaker import ConsecutiveFailureBreaker
from radixway.semantics.cache.memory import MemoryStore
from radixway.semantics.cache.store import (
    CacheEntry,
    CacheStore,
    EntryFilter,
    EntryMatch,
    StoreFailedError,
    Vector,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

_MAX_PENDING_REMOVALS = 1000
"""Removals kept for an unavailable store; beyond, it is emptied when it is back."""


class FallbackStore(CacheStore):
    """Asks `store`; whatever it cannot answer, the memory does.

    The memory is told of every entry that passes here, so that it has something to answer with. Removals that
    the store misses while it is unavailable are applied before anything is read from it again.
    """

    def __init__(self, store: CacheStore, memory: MemoryStore, breaker: ConsecutiveFailureBreaker) -> None:
        self.store = store
        self.memory = memory
        self.breaker = breaker
        self.name = store.name
        self.on_failure: Callable[[], None] = lambda: None
        """Told of every call that the store failed."""
        self.problem: str | None = None
        """What the store said last, while it fails."""
        self._pending: list[EntryFilter] = []
        self._opened = False
        self._opening = asyncio.Lock()

    async def open_store(self) -> None:
        """A store that is unavailable at the start is retried like one that fails later."""
        await self._call_store(_do_nothing)

    async def find_exact(self, scope: str, exact: str, now: float) -> CacheEntry | None:
        """Never raises StoreFailedError, like everything here."""
        answered, entry = await self._call_store(lambda: self.store.find_exact(scope, exact, now))
        return entry if answered else await self.memory.find_exact(scope, exact, now)

    async def find_nearest(self, scope: str, vector: Vector, k: int, now: float) -> list[EntryMatch]:
        answered, matches = await self._call_store(lambda: self.store.find_nearest(scope, vector, k, now))
        if answered and matches is not None:
            return matches
        return await self.memory.find_nearest(scope, vector, k, now)

    async def put_entry(self, entry: CacheEntry, now: float) -> None:
        await self.memory.put_entry(entry, now)
        await self._call_store(lambda: self.store.put_entry(entry, now))

    async def mark_used(self, entry: CacheEntry) -> None:
        """Only the memory evicts by use, and what reaches no server must not close a
        breaker.
        """
        await self.memory.mark_used(entry)

    async def remove_entries(self, which: EntryFilter) -> int:
        """What the store could not be told is made good later; see `pending_removals`."""
        here = await self.memory.remove_entries(which)
        answered, there = await self._call_store(lambda: self.store.remove_entries(which))
        if not answered and which not in self._pending:
            self._pending = (
                [EntryFilter()] if len(self._pending) >= _MAX_PENDING_REMOVALS else [*self._pending, which]
            )
        return max(here, there or 0)

    @property
    def pending_removals(self) -> int:
        """Removals that the store has not heard of yet."""
        return len(self._pending)

    async def count_entries(self) -> int:
        answered, count = await self._call_store(self.store.count_entries)
        return count if answered and count is not None else await self.memory.count_entries()

    async def close_store(self) -> None:
        try:
            await self.store.close_store()
        except StoreFailedError as error:
            log.warning("semantic cache: %s", error)

    async def _call_store(self, call: Callable[[], Awaitable[T]]) -> tuple[bool, T | None]:
        """Return whether the store answered, and its answer."""
        if not self.breaker.admits(monotonic()):
            return False, None
        try:
            if not self._opened or self._pending:
                await self._open_and_replay()
            answer = await call()
        except StoreFailedError as error:
            if self.problem is None:
                log.warning("semantic cache: %s; using memory only", error)
            self.problem = str(error)
            self.breaker.record_failure(monotonic())
            self.on_failure()
            return False, None
        self.problem = None
        self.breaker.record_success()
        return True, answer

    async def _open_and_replay(self) -> None:
        async with self._opening:
            if not self._opened:
                await self.store.open_store()
                self._opened = True
            while self._pending:
                await self.store.remove_entries(self._pending[0])
                self._pending.pop(0)


async def _do_nothing() -> None:
    return None
