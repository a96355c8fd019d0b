"""Tasks that run for as long as something is open."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

log = logging.getLogger(__name__)

_RETRY_S = 1.0


@asynccontextmanager
async def run_concurrently(
    *works: Callable[[], Awaitable[None]], again_s: float = _RETRY_S
) -> AsyncIterator[None]:
    """Run `works` until the block ends, which cancels them and waits for their end.

    One that raises has a bug: it is logged and started again after `again_s` seconds.
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
            log.exception("a background task of chats failed unexpectedly")
        await asyncio.sleep(again_s)
