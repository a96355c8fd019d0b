"""Requests whose end was asked for, and those whose was not."""

import asyncio

from radixway.pipeline import AbortedRequests


async def test_an_abort_marks_the_requests_whose_id_begins_with_it():
    aborts = AbortedRequests()
    one, two, batch = aborts.begin(["a-1"]), aborts.begin(["b-1"]), aborts.begin(["c_0", "c_1"])
    assert aborts.abort("a") == 1 and aborts.abort("c_1") == 1 and aborts.abort("zz") == 0
    assert one.abort_asked and batch.abort_asked and not two.abort_asked
    assert aborts.abort_all() == 3 and two.abort_asked


async def test_what_has_ended_is_forgotten():
    aborts = AbortedRequests()
    running = aborts.begin(["a"])
    aborts.end(running)
    aborts.end(running)
    assert len(aborts) == 0 and aborts.abort("a") == 0 and not running.abort_asked


async def test_an_abort_ends_a_wait():
    running = AbortedRequests().begin(["a"])
    waiting = asyncio.create_task(running.wait(3600))
    running.ask_abort()
    await waiting
