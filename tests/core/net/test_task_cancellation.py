"""Tasks that are ended, and have ended."""

from __future__ import annotations

import asyncio

from radixway.core.net.task_cancellation import cancel_tasks


async def test_a_task_that_takes_a_cancellation_for_its_own_is_ended_all_the_same() -> None:
    cancelled = 0
    begun = asyncio.Event()

    async def stubborn() -> None:
        nonlocal cancelled
        begun.set()
        while cancelled < 2:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled += 1

    task = asyncio.create_task(stubborn())
    await begun.wait()
    await cancel_tasks([task])
    assert task.done() and cancelled == 2


async def test_nothing_to_stop_is_stopped_at_once() -> None:
    await cancel_tasks([])
