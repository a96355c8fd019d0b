"""A `Wake` for several processes: told here at once, and carried to the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from typing import Protocol

from radixway.chat.shared.kept import Kept
from radixway.chat.wake import EVERYTHING
from radixway.net.stopping import stop

_FLUSH_S = 0.5
"""For what is still to be told when this process ends."""


class Carrier(Protocol):
    """How topics reach other processes."""

    errors: tuple[type[Exception], ...]
    """Raised by `carry` and `hear` when the way is broken."""

    async def carry(self, topics: Collection[str]) -> None:
        """To every other process that hears."""
        ...

    async def hear(self, heard: Callable[[str], None], ready: Callable[[], None]) -> None:
        """Until the way is broken: `heard` for every topic that others tell after `ready` was called."""
        ...

    async def aclose(self) -> None:
        """Nothing is carried or heard any more."""
        ...


class SharedWake:
    """Topics of one moment travel together, each once."""

    def __init__(self, carrier: Carrier, kept: Kept) -> None:
        self._carrier = carrier
        self._kept = kept
        self._told: Callable[[str], None] | None = None
        self._unsent: dict[str, None] = {}
        self._some = asyncio.Event()

    async def tell(self, topic: str) -> None:
        """See `Wake`. Never waits for the others."""
        if self._told is not None:
            self._told(topic)
        self._unsent[topic] = None
        self._some.set()

    @asynccontextmanager
    async def running(self, told: Callable[[str], None]) -> AsyncIterator[None]:
        """See `Wake`. While the way is broken everything is told as often as it is tried again."""
        self._told = told

        async def hear() -> None:
            await self._carrier.hear(told, ready)

        def ready() -> None:
            self._kept.works("hearing")
            missed()

        def missed() -> None:
            told(EVERYTHING)

        errors = self._carrier.errors
        tasks = [
            asyncio.create_task(self._kept.keep("hearing", hear, errors, missed)),
            asyncio.create_task(self._kept.keep("telling", self._carry, errors)),
        ]
        try:
            yield
        finally:
            self._told = None
            with suppress(TimeoutError, *errors):
                async with asyncio.timeout(_FLUSH_S):
                    await self._send()
            await stop(tasks)
            await self._carrier.aclose()

    async def _carry(self) -> None:
        while True:
            await self._some.wait()
            self._some.clear()
            await self._send()
            self._kept.works("telling")

    async def _send(self) -> None:
        topics, self._unsent = self._unsent, {}
        if not topics:
            return
        try:
            await self._carrier.carry(topics)
        except BaseException:
            self._unsent = topics | self._unsent
            self._some.set()
            raise
