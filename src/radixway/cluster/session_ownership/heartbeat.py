"""Probes another gateway while requests wait for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from radixway.core.net.task_cancellation import cancel_tasks

log = logging.getLogger(__name__)

_EVERY_S = 2.0


class GatewayHeartbeat:
    """Of one gateway. A process that is frozen or cut off keeps its connections, and answers nothing on them.

    Belongs to one event loop. Nobody is asked while nobody waits, unless the last one who was did not answer.
    """

    def __init__(self, url: str, ask: Callable[[], Awaitable[None]], every_s: float = _EVERY_S) -> None:
        """`ask` returns if the gateway answers, and raises OSError, TimeoutError among them, if not."""
        self._url = url
        self._ask = ask
        self._every_s = every_s
        self._waiting: set[asyncio.Timeout] = set()
        self._asking: asyncio.Task[None] | None = None
        self.silent = False

    @asynccontextmanager
    async def monitored(self) -> AsyncIterator[None]:
        """Run the block while probing the gateway. Raises TimeoutError when it falls silent."""
        if self.silent:
            raise TimeoutError("it is silent")
        if self._asking is None or self._asking.done():
            self._asking = asyncio.get_running_loop().create_task(
                self._probe_loop(), name=f"pulse of {self._url}"
            )
        async with asyncio.timeout(None) as limit:
            self._waiting.add(limit)
            try:
                yield
            finally:
                self._waiting.discard(limit)

    async def stop_probing(self) -> None:
        """Ask no more."""
        if self._asking is not None:
            await cancel_tasks([self._asking])

    async def _probe_loop(self) -> None:
        while self._waiting or self.silent:
            await asyncio.sleep(self._every_s)
            try:
                await self._ask()
            except OSError as error:
                if not self.silent:
                    log.warning("the gateway %s is silent: %s", self._url, error or type(error).__name__)
                self.silent = True
                now = asyncio.get_running_loop().time()
                while self._waiting:
                    self._waiting.pop().reschedule(now)
            else:
                self.silent = False
