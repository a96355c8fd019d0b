"""Reservations: held while they are spoken of, freed once."""

import pytest

from radixway.routing import AlreadyReservedError, LeaseReservations, LoadLedger, TooManyReservationsError
from support.routing_requests import Clock, workers


def test_a_reservation_lives_as_long_as_it_is_spoken_of():
    clock = Clock()
    ledger, worker = LoadLedger(clock), workers(1)[0]
    reservations = LeaseReservations(10, 100, clock)
    reservations.hold_lease("quiet", ledger.reserve(worker))
    reservations.hold_lease("lively", ledger.reserve(worker))
    clock.now += 6
    assert reservations.find_lease("lively") is not None
    assert reservations.sweep_expired() == 4
    clock.now += 4
    assert reservations.sweep_expired() == 6
    assert reservations.find_lease("quiet") is None
    assert worker.load.requests == 1
    clock.now += 10
    assert reservations.sweep_expired() is None
    assert worker.load.requests == 0


def test_an_id_is_reserved_once_and_freed_once():
    ledger, worker = LoadLedger(Clock()), workers(1)[0]
    reservations = LeaseReservations(10, 100, ledger.clock)
    reservations.hold_lease("r", ledger.reserve(worker))
    with pytest.raises(AlreadyReservedError):
        reservations.hold_lease("r", ledger.reserve(worker))
    assert reservations.release_reservation("r")
    assert not reservations.release_reservation("r")
    assert len(reservations) == 0


def test_there_are_never_more_than_may_be():
    ledger, worker = LoadLedger(Clock()), workers(1)[0]
    reservations = LeaseReservations(10, 2, ledger.clock)
    for name in "ab":
        reservations.hold_lease(name, ledger.reserve(worker))
    with pytest.raises(TooManyReservationsError):
        reservations.check_capacity("c")
    assert reservations.release_reservation("a")
    reservations.check_capacity("c")
