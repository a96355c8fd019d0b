"""Requests whose end was asked for, and those whose was not."""

import asyncio

from radixway.core.pipeline import AbortedRequests


async def test_an_abort_marks_the_requests_whose_id_begins_with_it():
    aborts = AbortedRequests()
    one, two, batch = (
        aborts.register_request(["a-1"]),
        aborts.register_request(["b-1"]),
        aborts.register_request(["c_0", "c_1"]),
    )
    assert (
        aborts.mark_aborted("a") == 1 and aborts.mark_aborted("c_1") == 1 and aborts.mark_aborted("zz") == 0
    )
    assert one.is_abort_requested and batch.is_abort_requested and not two.is_abort_requested
    assert aborts.mark_all_aborted() == 3 and two.is_abort_requested


async def test_what_has_ended_is_forgotten():
    aborts = AbortedRequests()
    running = aborts.register_request(["a"])
    aborts.unregister_request(running)
    aborts.unregister_request(running)
    assert len(aborts) == 0 and aborts.mark_aborted("a") == 0 and not running.is_abort_requested


async def test_an_abort_ends_a_wait():
    running = AbortedRequests().register_request(["a"])
    waiting = asyncio.create_task(running.wait_for_abort(3600))
    running.request_abort()
    await waiting
