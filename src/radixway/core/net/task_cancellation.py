"""Tasks that are ended, and have ended."""

import asyncio
from collections.abc import Collection
from typing import Any

_RECANCEL_INTERVAL_S = 0.2


async def cancel_tasks(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel `tasks` until they end: a client library may take a cancellation for its own, and go on."""
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=_RECANCEL_INTERVAL_S)
