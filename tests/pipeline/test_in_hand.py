"""Requests found by what their clients call them."""

from radixway.pipeline import ENDPOINTS, InHand, Request
from radixway.telemetry import Journal


def request(name, *rids):
    return Request(id=name, endpoint=ENDPOINTS["generate"], path="/", journal=Journal(name), rids=rids)


def test_a_request_is_found_by_its_id_by_its_rids_and_by_how_they_begin():
    in_hand = InHand()
    one, batch = request("x-1", "a-1"), request("x-2", "b_0", "b_1")
    in_hand.begin(one)
    in_hand.begin(batch)
    assert in_hand.find("a-1") == in_hand.find("a") == in_hand.find("x-1") == [one]
    assert in_hand.find("b_1") == [batch]
    assert in_hand.find("c") == []


def test_two_requests_of_one_name_are_both_found_until_each_ends():
    in_hand = InHand()
    one, other = request("x-1", "same"), request("x-2", "same")
    in_hand.begin(one)
    in_hand.begin(other)
    assert in_hand.find("same") == [one, other]
    in_hand.end(one)
    assert in_hand.find("same") == [other]
    in_hand.end(other)
    in_hand.end(other)
    assert len(in_hand) == 0


def test_a_request_that_never_began_can_end():
    in_hand = InHand()
    in_hand.end(request("x-1"))
    assert len(in_hand) == 0
