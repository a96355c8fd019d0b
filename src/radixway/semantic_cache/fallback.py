"""A store that may fail, with the memory behind it: a breaker leaves it alone for a while, nothing waits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeVar

from radixway.semantic_cache.entry import Entry, Filter, Match, Vector
from radixway.semantic_cache.memory import MemoryStore
from radixway.semantic_cache.store import Store, StoreFailed

log = logging.getLogger(__name__)

T = TypeVar("T")

_MOST_PENDING = 1000
"""Removals that a store away still has to hear of; beyond them it is emptied when it comes back."""


class Breaker:
    """Closed until `failures_in_row`; then open for `open_s`, after which one call tries again.

    Pure: the caller tells the time, in monotonic seconds.
    """

    def __init__(self, failures_in_row: int, open_s: float) -> None:
        self._limit = failures_in_row
        self._open_s = open_s
        self._failures = 0
        self._until = 0.0

    @property
    def tripped(self) -> bool:
        """Open, or trying again."""
        return self._failures >= self._limit

    def admits(self, now: float) -> bool:
        """Whether the store may be asked now. While tripped, a call that is admitted is the only one."""
        if not self.tripped:
            return True
        if now < self._until:
            return False
        self._until = now + self._open_s
        return True

    def succeeded(self) -> None:
        """The store answered."""
        self._failures = 0

    def failed(self, now: float) -> None:
        """It did not."""
        self._failures += 1
        self._until = now + self._open_s


class StoreWithFallback:
    """Asks `store`; whatever it cannot answer, the memory does.

    The memory is told of every entry that passes here, so that it has something to answer with. Removals that
    the store misses while it is away are made good before anything is read from it again.
    """

    def __init__(
        self,
        store: Store,
        memory: MemoryStore,
        breaker: Breaker,
    ) -> None:
        self.store = store
        self.memory = memory
        self.breaker = breaker
        self.name = store.name
        self.on_failure: Callable[[], None] = lambda: None
        """Told of every call that the store failed."""
        self.problem: str | None = None
        """What the store said last, while it fails."""
        self._pending: list[Filter] = []
        self._opened = False
        self._opening = asyncio.Lock()

    async def open(self) -> None:
        """A store that is away at the start is tried again like one that goes away later."""
        await self._ask(self._nothing)

    async def find(self, scope: str, exact: str, now: float) -> Entry | None:
        """See `Store`. Never raises StoreFailed, like everything here."""
        answered, entry = await self._ask(lambda: self.store.find(scope, exact, now))
        return entry if answered else await self.memory.find(scope, exact, now)

    async def nearest(self, scope: str, vector: Vector, k: int, now: float) -> list[Match]:
        """See `Store`."""
        answered, matches = await self._ask(lambda: self.store.nearest(scope, vector, k, now))
        if answered and matches is not None:
            return matches
        return await self.memory.nearest(scope, vector, k, now)

    async def put(self, entry: Entry, now: float) -> None:
        """See `Store`."""
        await self.memory.put(entry, now)
        await self._ask(lambda: self.store.put(entry, now))

    async def used(self, entry: Entry) -> None:
        """See `Store`. Only the memory evicts by use, and what reaches no server must not close a breaker."""
        await self.memory.used(entry)

    async def remove(self, which: Filter) -> int:
        """See `Store`. What the store could not be told is made good later; see `pending_removals`."""
        here = await self.memory.remove(which)
        answered, there = await self._ask(lambda: self.store.remove(which))
        if not answered and which not in self._pending:
            self._pending = [Filter()] if len(self._pending) >= _MOST_PENDING else [*self._pending, which]
        return max(here, there or 0)

    @property
    def pending_removals(self) -> int:
        """Removals that the store has not heard of yet."""
        return len(self._pending)

    async def size(self) -> int:
        """See `Store`."""
        answered, count = await self._ask(self.store.size)
        return count if answered and count is not None else await self.memory.size()

    async def close(self) -> None:
        """See `Store`."""
        try:
            await self.store.close()
        except StoreFailed as error:
            log.warning("semantic cache: %s", error)

    async def _ask(self, call: Callable[[], Awaitable[T]]) -> tuple[bool, T | None]:
        """Whether the store answered, and what."""
        if not self.breaker.admits(monotonic()):
            return False, None
        try:
            if not self._opened or self._pending:
                await self._make_ready()
            answer = await call()
        except StoreFailed as error:
            if self.problem is None:
                log.warning("semantic cache: %s; the memory goes on", error)
            self.problem = str(error)
            self.breaker.failed(monotonic())
            self.on_failure()
            return False, None
        self.problem = None
        self.breaker.succeeded()
        return True, answer

    async def _make_ready(self) -> None:
        async with self._opening:
            if not self._opened:
                await self.store.open()
                self._opened = True
            while self._pending:
                await self.store.remove(self._pending[0])
                self._pending.pop(0)

    async def _nothing(self) -> None:
        return None
