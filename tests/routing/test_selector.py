"""Choosing among candidates: costs, ties, policies per model."""

import random
from collections import Counter

from radixway.config import RoutingSection, WorkerSection
from radixway.pipeline import Request
from radixway.routing import Lease, Registry, Selector, Worker, WorkerState
from radixway.routing.policies import LeastLoaded, PowerOfTwo
from radixway.telemetry import Journal


def workers(n, **fields):
    return [Worker(WorkerSection(url=f"http://w{i}", **fields)) for i in range(n)]


def request(model="m"):
    return Request(id="r", surface="s", path="/", model=model, journal=Journal("r"))


def picks(selector, candidates, times, model="m"):
    return Counter(selector.pick(request(model), candidates).worker.name for _ in range(times))


def test_round_robin_gives_everyone_the_same_share():
    assert set(picks(Selector(RoutingSection(policy="round_robin")), workers(3), 30).values()) == {10}


def test_equal_loads_rotate_instead_of_falling_on_the_first():
    assert set(picks(Selector(RoutingSection(policy="least_loaded")), workers(4), 40).values()) == {10}


def test_least_loaded_takes_the_one_with_the_fewest_in_hand():
    candidates = workers(3)
    leases = [Lease(candidates[0], stream=False), Lease(candidates[2], stream=True)]
    selector = Selector(RoutingSection(policy="least_loaded"))
    assert picks(selector, candidates, 5) == {"w1": 5}
    for lease in leases:
        lease.release()
        lease.release()
    assert [worker.load.requests for worker in candidates] == [0, 0, 0]
    assert [worker.load.streams for worker in candidates] == [0, 0, 0]


def test_least_loaded_counts_per_slot_when_all_slots_are_known():
    small, large = workers(1, max_batch_size=1)[0], workers(2, max_batch_size=8)[1]
    Lease(small, stream=False)
    for _ in range(4):
        Lease(large, stream=False)
    assert LeastLoaded().costs(request(), [small, large]) == [1.0, 0.5]


def test_power_of_two_never_takes_the_busier_of_its_two():
    candidates = workers(5)
    Lease(candidates[3], stream=False)
    policy = PowerOfTwo(random.Random(1))
    for _ in range(50):
        costs = policy.costs(request(), candidates)
        assert sorted(costs)[2:] == [float("inf")] * 3
        assert costs.index(min(costs)) != 3


def test_a_model_can_have_a_policy_of_its_own():
    selector = Selector(RoutingSection(policy="least_loaded", model_policies={"special": "round_robin"}))
    assert selector.pick(request("special"), workers(2)).policy == "round_robin"
    assert selector.pick(request("m"), workers(2)).policy == "least_loaded"


def test_the_choice_explains_every_candidate():
    candidates = workers(2)
    Lease(candidates[0], stream=False)
    told = Selector(RoutingSection(policy="least_loaded")).pick(request(), candidates).explain()
    assert told == {"worker": "w1", "policy": "least_loaded", "costs": {"w0": 1.0, "w1": 0.0}}


def test_only_ready_workers_that_serve_the_model_are_candidates():
    registry = Registry()
    a = registry.add(WorkerSection(url="http://a", models=("x", "y")))
    b = registry.add(WorkerSection(url="http://b", models=("y",)))
    assert registry.candidates("y") == ()
    registry.set_state(a, WorkerState.READY)
    registry.set_state(b, WorkerState.READY)
    assert registry.candidates("y") == (a, b)
    assert registry.candidates("x") == (a,)
    assert registry.candidates(None) == (a, b)
    registry.set_state(a, WorkerState.DRAINING)
    assert registry.candidates("x") == ()
    registry.remove("http://b/")
    assert registry.candidates("y") == ()
    assert registry.models() == {"x", "y"}


def test_a_url_with_and_without_slash_is_one_worker_and_readding_keeps_its_load():
    registry = Registry()
    worker = registry.add(WorkerSection(url="http://a/"))
    Lease(worker, stream=False)
    again = registry.add(WorkerSection(url="http://a", models=("m",), max_batch_size=4))
    assert again is worker
    assert len(registry) == 1
    assert (worker.load.requests, worker.models, worker.max_batch_size) == (1, ("m",), 4)


def test_unknown_models_do_not_grow_the_registry():
    registry = Registry()
    for n in range(1000):
        assert registry.candidates(f"model-{n}") == ()
    assert not registry._candidates
