"""Circuit breakers: whom the fleet asks last, and how a worker comes back."""

import pytest

from radixway.core.config import BreakerConfig
from radixway.routing import BreakerState, LoadLedger, WorkerState
from radixway.routing.fleet_breakers import FleetBreakers
from support.routing_requests import Clock, workers

CLOSED, OPEN, HALF_OPEN = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.HALF_OPEN


class Fleet:
    def __init__(self, count=2, **config):
        self.clock = Clock()
        self.breakers = FleetBreakers(BreakerConfig(**config), self.clock)
        self.ledger = LoadLedger(self.clock)
        self.workers = workers(count)

    def send(self, worker):
        lease = self.ledger.reserve(worker)
        self.breakers.record_sent(worker, lease)
        return lease

    def break_(self, worker, times=1):
        for _ in range(times):
            lease = self.send(worker)
            lease.release()
            self.breakers.record_disconnect(worker)

    def answer(self, worker, status=200):
        self.send(worker).release()
        self.breakers.record_answer(worker, status)

    def admitted(self):
        return list(self.breakers.filter_admitted(self.workers))


def test_while_all_is_well_the_candidates_stay_the_very_same():
    fleet = Fleet()
    fleet.answer(fleet.workers[0])
    assert fleet.breakers.filter_admitted(fleet.workers) is fleet.workers


def test_the_second_failure_in_a_row_opens_it():
    fleet = Fleet()
    bad, good = fleet.workers
    fleet.break_(bad)
    assert fleet.admitted() == [bad, good]
    fleet.break_(bad)
    assert fleet.admitted() == [good]
    assert fleet.breakers.state(bad) is OPEN


def test_an_answer_between_two_failures_keeps_it_closed():
    fleet = Fleet()
    worker = fleet.workers[0]
    for _ in range(4):
        fleet.break_(worker)
        fleet.answer(worker)
    assert fleet.breakers.state(worker) is CLOSED


def test_a_share_of_failures_in_a_window_opens_it_and_5xx_answers_count():
    fleet = Fleet(least_requests=10, failure_share=0.5, window_s=30)
    worker = fleet.workers[0]
    fleet.answer(worker, 500)
    for _ in range(4):
        fleet.answer(worker)
        fleet.answer(worker, 500)
    assert fleet.breakers.state(worker) is CLOSED, "nine in the window"
    fleet.answer(worker, 500)
    assert fleet.breakers.state(worker) is OPEN


def test_failures_of_long_ago_do_not_count():
    fleet = Fleet(least_requests=4, window_s=30)
    worker = fleet.workers[0]
    for _ in range(8):
        fleet.answer(worker, 500)
        fleet.clock.now += 31
        fleet.answer(worker)
    assert fleet.breakers.state(worker) is CLOSED


def test_4xx_answers_are_the_clients_own():
    fleet = Fleet(least_requests=1)
    for _ in range(20):
        fleet.answer(fleet.workers[0], 400)
    assert fleet.breakers.state(fleet.workers[0]) is CLOSED


def test_one_request_probes_a_worker_and_its_answer_brings_it_back():
    fleet = Fleet(open_s=1)
    bad, good = fleet.workers
    fleet.break_(bad, times=2)
    fleet.clock.now += 1
    assert fleet.breakers.state(bad) is HALF_OPEN
    assert fleet.admitted() == [bad, good]
    fleet.send(bad)
    assert fleet.admitted() == [good], "the others wait for the probe"
    fleet.breakers.record_answer(bad, 200)
    assert fleet.breakers.state(bad) is CLOSED
    assert fleet.admitted() == [bad, good]


def test_a_probe_that_fails_keeps_it_open_for_twice_as_long_up_to_a_bound():
    fleet = Fleet(open_s=1, open_max_s=4)
    bad = fleet.workers[0]
    fleet.break_(bad, times=2)
    for open_s in (1, 2, 4, 4):
        fleet.clock.now += open_s - 0.01
        assert fleet.breakers.state(bad) is OPEN
        fleet.clock.now += 0.01
        assert fleet.breakers.state(bad) is HALF_OPEN
        fleet.break_(bad)


@pytest.mark.parametrize("status", [500, 503])
def test_a_probe_that_is_answered_with_a_5xx_is_no_good_sign(status):
    fleet = Fleet(open_s=1)
    bad = fleet.workers[0]
    fleet.break_(bad, times=2)
    fleet.clock.now += 1
    fleet.answer(bad, status)
    assert fleet.breakers.state(bad) is OPEN


def test_a_probe_whose_client_leaves_makes_way_for_another():
    fleet = Fleet(open_s=1)
    bad, good = fleet.workers
    fleet.break_(bad, times=2)
    fleet.clock.now += 1
    fleet.send(bad).release()
    assert fleet.admitted() == [bad, good]


def test_requests_sent_before_it_opened_do_not_open_it_for_longer():
    fleet = Fleet(open_s=1)
    bad = fleet.workers[0]
    fleet.break_(bad, times=2)
    for _ in range(10):
        fleet.breakers.record_disconnect(bad)
    fleet.clock.now += 1
    assert fleet.breakers.state(bad) is HALF_OPEN


def test_where_all_are_open_all_are_asked():
    fleet = Fleet()
    for worker in fleet.workers:
        fleet.break_(worker, times=2)
    assert fleet.admitted() == fleet.workers


def test_a_worker_that_comes_back_may_prove_itself_at_once():
    fleet = Fleet(open_s=60)
    bad, good = fleet.workers
    fleet.break_(bad, times=2)
    bad.state = WorkerState.READY
    fleet.breakers.on_state_change(bad)
    assert fleet.admitted() == [bad, good]
    fleet.send(bad)
    assert fleet.admitted() == [good]


def test_a_removed_worker_leaves_nothing_behind():
    fleet = Fleet()
    fleet.break_(fleet.workers[0], times=2)
    fleet.breakers.remove_worker(fleet.workers[0])
    assert fleet.breakers.filter_admitted(fleet.workers) is fleet.workers


def test_a_request_that_fails_after_its_worker_was_removed_leaves_nothing_behind_either():
    fleet = Fleet()
    gone = fleet.workers[0]
    gone.removed = True
    fleet.break_(gone, times=2)
    assert fleet.breakers.filter_admitted(fleet.workers) is fleet.workers
