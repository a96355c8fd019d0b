"""How much a worker is given at a time."""

import pytest

from radixway.core.config import RoutingConfig, WorkerSettings
from radixway.routing import LoadLedger
from radixway.routing.worker_registry import WorkerLimits
from support.routing_requests import Clock, prompt, workers


def limits(**fields) -> WorkerLimits:
    return WorkerLimits(RoutingConfig(**fields))


def test_without_any_limit_nothing_is_looked_at():
    limit, fleet = limits(), workers(2)
    limit.refresh_limits(fleet)
    assert not limit.on
    assert limit.filter_with_capacity(fleet, prompt()) is fleet


def test_a_worker_with_a_limit_of_its_own_turns_limits_on_while_it_is_there():
    limit, (one, other) = limits(), workers(2)
    other.update_config(WorkerSettings(url=other.url, max_in_flight=1))
    limit.refresh_limits([one, other])
    assert limit.on
    limit.refresh_limits([one])
    assert not limit.on


@pytest.mark.parametrize(
    ("routing", "worker", "most"),
    [
        ({}, {"max_batch_size": 8}, None),
        ({"max_in_flight_per_worker": 3}, {}, 3),
        ({"max_in_flight_per_worker": 3, "max_in_flight_per_slot": 2}, {"max_batch_size": 8}, 3),
        ({"max_in_flight_per_slot": 1.5}, {"max_batch_size": 8}, 12),
        ({"max_in_flight_per_slot": 0.1}, {"max_batch_size": 2}, 1),
        ({"max_in_flight_per_slot": 1.5}, {}, None),
        ({"max_in_flight_per_worker": 3}, {"max_in_flight": 7}, 7),
    ],
)
def test_whose_word_counts(routing, worker, most):
    assert limits(**routing).max_requests(workers(1, **worker)[0]) == most


def test_a_worker_at_its_limit_has_no_room_until_a_request_ends():
    limit, ledger, fleet = limits(max_in_flight_per_worker=2), LoadLedger(Clock()), workers(2)
    leases = [ledger.reserve(fleet[0]) for _ in range(2)]
    assert list(limit.filter_with_capacity(fleet, prompt())) == [fleet[1]]
    leases[0].release()
    assert list(limit.filter_with_capacity(fleet, prompt())) == fleet


def test_kv_tokens_in_use_leave_room_only_for_what_fits_beside_them():
    limit, ledger = limits(max_kv_share=0.5), LoadLedger(Clock())
    (worker,) = workers(1, kv_tokens=320)  # 160 tokens, ten blocks
    lease = ledger.reserve(worker, prompt(*range(6), tokens=96))
    assert limit.has_capacity(worker, prompt(100, 101, tokens=64))
    assert not limit.has_capacity(worker, prompt(100, 101, tokens=65))
    assert limit.has_capacity(worker, prompt(*range(6), 7, 8, 9, tokens=160)), "what they share is there once"
    lease.add_output_blocks(2)
    assert not limit.has_capacity(worker, prompt(100, tokens=48))


def test_a_request_larger_than_any_limit_goes_to_an_idle_worker():
    limit, ledger = limits(max_kv_share=0.5), LoadLedger(Clock())
    (worker,) = workers(1, kv_tokens=100)
    assert limit.has_capacity(worker, prompt(tokens=5000))
    ledger.reserve(worker)
    assert not limit.has_capacity(worker, prompt(tokens=5000))
