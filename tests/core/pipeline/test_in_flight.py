"""Requests found by what their clients call them."""

from radixway.core.pipeline import ENDPOINTS, InFlightRequests, Request
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
