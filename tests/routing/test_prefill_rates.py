"""Whose prefill rate is believed: the fleet's, or a worker's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.routing.worker_load import PrefillRateRegistry, WorkerLoad


def fleet(count: int) -> tuple[PrefillRateRegistry, list[WorkerLoad]]:
    rates, loads = PrefillRateRegistry(), [WorkerLoad() for _ in range(count)]
    for load in loads:
        rates.add_load(load)
    return rates, loads


def observe(rates: PrefillRateRegistry, load: WorkerLoad, times: int, slowness: float = 1.0) -> None:
    for _ in range(times):
        tokens = 100 + 50 * (rates.fleet.observed % 9)
        rates.observe_prefill(load, tokens, slowness * (0.01 + tokens * 1e-4))


def test_workers_that_are_alike_share_the_fleets_rate_however_much_each_has_shown():
    rates, (busy, idle) = fleet(2)
    observe(rates, idle, 8)
    observe(rates, busy, 200)
    assert busy.rate is idle.rate is rates.fleet


@pytest.mark.parametrize("slowness", [0.3, 3.0])
def test_a_worker_that_is_clearly_other_than_the_fleet_has_its_own_rate(slowness):
    rates, (usual, other) = fleet(2)
    for _ in range(100):
        observe(rates, usual, 3)
        observe(rates, other, 1, slowness)
    assert other.rate is other.own_rate
    assert usual.rate.prefill_s(500) == pytest.approx(0.06, rel=0.2)
    assert other.rate.prefill_s(500) == pytest.approx(slowness * 0.06, rel=0.2)


def test_a_difference_of_less_than_a_tenth_is_none():
    rates, (usual, other) = fleet(2)
    for _ in range(100):
        observe(rates, usual, 1)
        observe(rates, other, 1, 1.08)
    assert usual.rate is other.rate is rates.fleet


def test_what_a_worker_showed_long_ago_is_believed_no_more_and_the_clearer_the_longer():
    reviews = []
    for slowness in (1.5, 4.0):
        rates, (usual, other) = fleet(2)
        for _ in range(30):
            observe(rates, usual, 3)
            observe(rates, other, 1, slowness)
        assert other.rate is other.own_rate
        count = 0
        while other.rate is other.own_rate:
            observe(rates, usual, 1)
            count += 1
        reviews.append(count)
    assert 0 < reviews[0] < reviews[1]


def test_a_worker_that_has_gone_is_looked_at_no_more():
    rates, (usual, other) = fleet(2)
    observe(rates, usual, 10)
    observe(rates, other, 10, 4)
    rates.remove_load(other)
    believed, count = other.rate, other.own_rate.count
    observe(rates, usual, 100)
    assert other.rate is believed and other.own_rate.count == count
    with pytest.raises(ValueError, match="not in deque"):
        rates.remove_load(other)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 10**6), st.floats(0, 1e4)), max_size=80))
def test_every_rate_that_is_believed_can_be_divided_by(observations):
    rates, loads = fleet(3)
    for index, tokens, seconds in observations:
        rates.observe_prefill(loads[index], tokens, seconds)
        assert all(load.rate in (load.own_rate, rates.fleet) for load in loads)
        assert all(load.rate.seconds_per_token > 0 for load in loads)
