"""Watching a request's client, whatever carries the request."""

import asyncio

from radixway.core.http import ClientWatch


async def test_a_client_that_leaves_after_the_watch_has_ended_cancels_nothing():
    watch = ClientWatch()
    watch.stop_watching()
    watch.on_client_left()
    await asyncio.sleep(0)  # where a cancellation would arrive
    assert watch.ended_by is None


async def test_a_client_that_leaves_while_it_is_watched_cancels_the_task():
    watch = ClientWatch()
    watch.on_client_left()
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        watch.uncancel()
    assert watch.ended_by == "client"
