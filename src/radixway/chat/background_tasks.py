"""One timer for all that is to be done some milliseconds from now: waking up is what small steps cost.

Work that goes on beside all else, for as long as something is open.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager


class FlushTimer:
    """Makes the calls that were asked for, all at one time. Belongs to one event loop."""

    def __init__(self, every_s: float) -> None:
        """`every_s`: the longest that a call waits."""
        self._every_s = every_s
        self._calls: dict[Callable[[], None], None] = {}

    def call_at_next(self, call: Callable[[], None]) -> None:
        """Once, however often it is asked for until then."""
        if not self._calls:
            asyncio.get_running_loop().call_later(self._every_s, self._make_calls)
        self._calls[call] = None

    def _make_calls(self) -> None:
        calls, self._calls = self._calls, {}
        for call in calls:
            call()


log = logging.getLogger(__name__)

_AGAIN_S = 1.0


@asynccontextmanager
async def run_concurrently(
    *works: Callable[[], Awaitable[None]], again_s: float = _AGAIN_S
) -> AsyncIterator[None]:
    """Works that end by being cancelled alone: with the block, which waits for that.

    One that raises has met a defect of ours. That is logged, and it is begun anew after `again_s`: what is
    silently done no more would be missed much later, and by somebody else.
    """
    tasks = [asyncio.create_task(_run_forever(work, again_s)) for work in works]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _run_forever(work: Callable[[], Awaitable[None]], again_s: float) -> None:
    while True:
        try:
            await work()
        except Exception:
            log.exception("what goes on beside chats met a defect of ours")
        await asyncio.sleep(again_s)
