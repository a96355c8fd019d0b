"""Reservations: held while they are spoken of, freed once."""

import pytest

from radixway.routing import AlreadyReserved, Ledger, Reservations, TooManyReserved
from routing_requests import Clock, workers


def test_a_reservation_lives_as_long_as_it_is_spoken_of():
    clock = Clock()
    ledger, worker = Ledger(clock), workers(1)[0]
    reservations = Reservations(10, 100, clock)
    reservations.hold("quiet", ledger.reserve(worker))
    reservations.hold("lively", ledger.reserve(worker))
    clock.now += 6
    assert reservations.find("lively") is not None
    assert reservations.sweep() == 4
    clock.now += 4
    assert reservations.sweep() == 6
    assert reservations.find("quiet") is None
    assert worker.load.requests == 1
    clock.now += 10
    assert reservations.sweep() is None
    assert worker.load.requests == 0


def test_an_id_is_reserved_once_and_freed_once():
    ledger, worker = Ledger(Clock()), workers(1)[0]
    reservations = Reservations(10, 100, ledger.clock)
    reservations.hold("r", ledger.reserve(worker))
    with pytest.raises(AlreadyReserved):
        reservations.hold("r", ledger.reserve(worker))
    assert reservations.free("r")
    assert not reservations.free("r")
    assert len(reservations) == 0


def test_there_are_never_more_than_may_be():
    ledger, worker = Ledger(Clock()), workers(1)[0]
    reservations = Reservations(10, 2, ledger.clock)
    for name in "ab":
        reservations.hold(name, ledger.reserve(worker))
    with pytest.raises(TooManyReserved):
        reservations.check_room("c")
    assert reservations.free("a")
    reservations.check_room("c")
