"""Requests under way: found by what their clients call them, and ended when that is asked for."""

import asyncio

from radixway.core.pipeline import ENDPOINTS, AbortedRequests, InFlightRequests, Request
from radixway.core.telemetry import Journal


def request(name, *rids):
    return Request(id=name, endpoint=ENDPOINTS["generate"], path="/", journal=Journal(name), rids=rids)


def test_a_request_is_found_by_its_id_by_its_rids_and_by_how_they_begin():
    in_hand = InFlightRequests()
    one, batch = request("x-1", "a-1"), request("x-2", "b_0", "b_1")
    in_hand.add_request(one)
    in_hand.add_request(batch)
    assert (
        in_hand.match_requests("a-1") == in_hand.match_requests("a") == in_hand.match_requests("x-1") == [one]
    )
    assert in_hand.match_requests("b_1") == [batch]
    assert in_hand.match_requests("c") == []


def test_two_requests_of_one_name_are_both_found_until_each_ends():
    in_hand = InFlightRequests()
    one, other = request("x-1", "same"), request("x-2", "same")
    in_hand.add_request(one)
    in_hand.add_request(other)
    assert in_hand.match_requests("same") == [one, other]
    in_hand.remove_request(one)
    assert in_hand.match_requests("same") == [other]
    in_hand.remove_request(other)
    in_hand.remove_request(other)
    assert len(in_hand) == 0


def test_a_request_that_never_began_can_end():
    in_hand = InFlightRequests()
    in_hand.remove_request(request("x-1"))
    assert len(in_hand) == 0


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
