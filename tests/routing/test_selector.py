"""Choosing among candidates: costs, ties, temperature, policies per model, explanations."""

import random
from collections import Counter

import pytest

from radixway.core.config import RoutingConfig
from radixway.routing import RoutingRequest, Selector
from radixway.routing.worker import ServerInfo
from support.routing_requests import Clock, prompt, workers


def selector_for(candidates, policy, **fields):
    selector = Selector(RoutingConfig(policy=policy, **fields), clock=Clock(), rng=random.Random(1))
    for worker in candidates:
        selector.add_worker(worker)
    return selector


ANY = RoutingRequest(model="m")


def picks(selector, candidates, times, request=ANY):
    return Counter(selector.select_worker(request, candidates).worker.name for _ in range(times))


EVERY_POLICY = [
    "round_robin",
    "random",
    "least_loaded",
    "power_of_two",
    "session",
    "prefix_affinity",
    "kv_aware",
    "expected_time",
]


@pytest.mark.parametrize("policy", ["round_robin", "least_loaded", "kv_aware", "expected_time"])
def test_equal_costs_rotate_instead_of_falling_on_the_first(policy):
    candidates = workers(4)
    assert set(picks(selector_for(candidates, policy), candidates, 40).values()) == {10}


@pytest.mark.parametrize("policy", EVERY_POLICY)
def test_every_policy_spreads_what_has_nothing_in_common(policy):
    candidates = workers(4)
    selector = selector_for(candidates, policy)
    for number in range(400):
        request = prompt(number, text=f"{number} asks", session=str(number), stream=True)
        selector.reserve(selector.select_worker(request, candidates))
    shares = [worker.load.requests for worker in candidates]
    assert min(shares) > 70 and max(shares) < 135


@pytest.mark.parametrize("policy", EVERY_POLICY)
def test_every_policy_does_with_one_candidate_and_an_empty_prompt(policy):
    candidates = workers(1)
    selector = selector_for(candidates, policy)
    for request in (RoutingRequest(), prompt(tokens=0), prompt(1, 2, text="hello")):
        choice = selector.select_worker(request, candidates)
        assert choice.worker is candidates[0]
        selector.reserve(choice).release()


@pytest.mark.parametrize("policy", EVERY_POLICY)
def test_a_worker_that_has_gone_is_forgotten_and_its_place_is_used_again(policy):
    candidates = workers(3)
    selector = selector_for(candidates, policy)
    for number in range(30):
        request = prompt(1, 2, number, text=f"same beginning {number}", session="s")
        selector.reserve(selector.select_worker(request, candidates)).release()
    gone = candidates.pop(0)
    selector.remove_worker(gone)
    newcomer = workers(4)[3]
    selector.add_worker(newcomer)
    candidates.append(newcomer)
    for _ in range(10):
        request = prompt(1, 2, 3, text="same beginning", session="s")
        selector.reserve(selector.select_worker(request, candidates)).release()
    selector.index.check()
    assert gone.load.requests == 0


def test_least_loaded_takes_the_one_with_the_fewest_in_hand():
    candidates = workers(3)
    selector = selector_for(candidates, "least_loaded")
    leases = [selector.ledger.reserve(candidates[0]), selector.ledger.reserve(candidates[2])]
    assert picks(selector, candidates, 5) == {"w1": 5}
    for lease in leases:
        lease.release()
        lease.release()
    assert [worker.load.requests for worker in candidates] == [0, 0, 0]


def test_least_loaded_counts_per_slot_when_all_slots_are_known():
    small, large = workers(1, max_batch_size=1)[0], workers(2, max_batch_size=8)[1]
    selector = selector_for([small, large], "least_loaded")
    selector.ledger.reserve(small)
    for _ in range(4):
        selector.ledger.reserve(large)
    assert selector.select_worker(RoutingRequest(), [small, large]).scores.costs == [1.0, 0.5]


def test_power_of_two_never_takes_the_busier_of_its_two():
    candidates = workers(5)
    selector = selector_for(candidates, "power_of_two")
    selector.ledger.reserve(candidates[3])
    for _ in range(50):
        choice = selector.select_worker(RoutingRequest(), candidates)
        assert sorted(choice.scores.costs)[2:] == [float("inf")] * 3
        assert choice.worker is not candidates[3]


def test_without_temperature_the_lowest_cost_wins_and_with_much_of_it_hardly():
    candidates = workers(4)
    cold = selector_for(candidates, "kv_aware")
    cold.reserve(cold.select_worker(prompt(1, 2, 3), [candidates[2]])).release()
    assert picks(cold, candidates, 20, prompt(1, 2, 3)) == {"w2": 20}
    hot = selector_for(workers(0), "kv_aware:temperature=5")
    hot.index = cold.index
    drawn = picks(hot, candidates, 400, prompt(1, 2, 3))
    assert set(drawn) == {"w0", "w1", "w2", "w3"}
    assert drawn["w2"] > drawn["w0"]


def test_a_model_may_have_a_policy_of_its_own():
    candidates = workers(2)
    selector = selector_for(candidates, "least_loaded", model_policies={"special": "round_robin"})
    selector.ledger.reserve(candidates[0])
    assert picks(selector, candidates, 4) == {"w1": 4}
    assert picks(selector, candidates, 4, RoutingRequest(model="special")) == {"w0": 2, "w1": 2}


def test_the_choice_explains_every_candidate():
    candidates = workers(2)
    selector = selector_for(candidates, "expected_time")
    selector.reserve(selector.select_worker(prompt(1, 2, 3), [candidates[1]])).mark_prefill_done()
    told = selector.select_worker(prompt(1, 2, 3), candidates).explain()
    assert told["worker"] == "w1" and told["policy"] == "expected_time"
    assert told["prompt"] == {"tokens": 52} and told["expected_cached_tokens"] == 48
    assert told["candidates"]["w0"]["uncached_tokens"] == 52
    assert told["candidates"]["w1"]["uncached_tokens"] == 4
    for terms in told["candidates"].values():
        parts = terms["queue_s"] + terms["prefill_s"] + terms["slowdown_s"] + terms["room_s"]
        assert terms["cost"] == pytest.approx(parts, abs=1e-5)


@pytest.mark.parametrize(("tokens", "cached"), [(112, 64), (128, 64), (129, 128), (63, 0), (64, 0)])
def test_no_more_is_expected_than_whole_blocks_of_the_engine(tokens, cached):
    (worker,) = candidates = workers(1)
    selector = selector_for(candidates, "expected_time")
    worker.info = ServerInfo(block_tokens=64)
    selector.index.set_engine_block_size(worker.slot, 64, 16)
    asked = prompt(*range(tokens // 16), tokens=tokens)
    selector.reserve(selector.select_worker(asked, candidates)).release()
    choice = selector.select_worker(asked, candidates)
    assert choice.cached_tokens == cached
    assert selector.uncached_tokens(asked, candidates) == [tokens - cached]
    assert choice.explain()["expected_cached_tokens"] == cached


def test_of_many_workers_those_that_hold_the_prompt_are_looked_at():
    candidates = workers(100)
    selector = selector_for(candidates, "expected_time")
    holder = candidates[77]
    selector.reserve(selector.select_worker(prompt(*range(50)), [holder])).release()
    for _ in range(20):
        choice = selector.select_worker(prompt(*range(50)), candidates)
        assert choice.worker is holder
        assert len(choice.candidates) == len(set(choice.candidates)) <= 32


def test_many_workers_that_hold_nothing_share_the_work():
    candidates = workers(100)
    selector = selector_for(candidates, "expected_time")
    for number in range(1000):
        selector.reserve(selector.select_worker(prompt(number, stream=True), candidates))
    loads = [worker.load.requests for worker in candidates]
    assert min(loads) >= 5 and max(loads) <= 15


def test_a_candidate_that_was_left_out_costs_nothing_that_could_be_told():
    candidates = workers(5)
    told = selector_for(candidates, "power_of_two").select_worker(RoutingRequest(), candidates).explain()
    assert [terms["cost"] for terms in told["candidates"].values()].count(None) == 3


def test_a_worker_that_tells_nothing_is_assumed_to_hold_as_much_as_its_cache_does():
    candidates = workers(1, kv_tokens=160)
    selector = selector_for(candidates, "expected_time")
    for first in (0, 100):
        selector.reserve(selector.select_worker(prompt(*range(first, first + 6)), candidates))
    assert selector.index.assumed(candidates[0].slot) == 9  # of ten blocks, one is left for answers
    selector.index.check()


@pytest.mark.parametrize("temperature", ["1e-320", "1e308"])
def test_no_temperature_is_too_cold_or_too_hot_to_draw(temperature):
    candidates = workers(3)
    selector = selector_for(candidates, f"kv_aware:temperature={temperature}:overlap_weight=1e308")
    for number in range(20):
        selector.reserve(selector.select_worker(prompt(*range(1 + number)), candidates))


def filled(kv_tokens: int | None):
    """Two workers that answer for 20 s; the first has an answer under way to a prompt of 9,000 tokens."""
    candidates = workers(2, kv_tokens=kv_tokens)
    selector = selector_for(candidates, "expected_time")
    for worker in candidates:
        lease = selector.ledger.reserve(worker, prompt(tokens=100, stream=True), 100)
        lease.mark_prefill_done()
        selector.ledger.clock.now += 20
        lease.release()
    request = prompt(tokens=9000, stream=True)
    running = selector.reserve(
        selector.score_candidates(request, candidates[:1], selector.policy_for_model(""))
    )
    running.mark_prefill_done()
    return selector, candidates, running


def test_expected_time_leaves_out_a_cache_whose_room_is_taken_until_an_answer_ends():
    selector, candidates, running = filled(10_000)
    selector.index.predict_blocks(candidates[0].slot, range(100), 0.0, tokenized=True)
    request = prompt(*range(100), stream=True)
    choice = selector.select_worker(request, candidates)
    assert choice.worker is candidates[1]
    terms = choice.explain()["candidates"]
    assert terms["w0"]["room_s"] == pytest.approx(20 * (9000 + 1604 - 8000) / 9000, abs=1e-5)
    assert terms["w1"]["room_s"] == 0
    running.release()
    assert selector.select_worker(request, candidates).worker is candidates[0]


@pytest.mark.parametrize("kv_tokens", [None, 100_000])
def test_blocks_are_not_counted_where_caches_are_far_from_full_or_of_unknown_size(kv_tokens):
    selector, candidates, _ = filled(kv_tokens)
    request = prompt(*range(100), stream=True)
    selector.reserve(selector.select_worker(request, candidates))
    assert not any(worker.load.active_blocks for worker in candidates)


def test_what_prompts_share_takes_room_once():
    candidates = workers(1, kv_tokens=4000)
    selector = selector_for(candidates, "expected_time")
    request = prompt(*range(100), stream=True)
    for _ in range(3):
        choice = selector.select_worker(request, candidates)
        assert choice.scores.parts[0][-1] == 0
        selector.reserve(choice).mark_prefill_done()
        candidates[0].load.observe_answer(10)
    other = prompt(*range(1000, 1150), stream=True)
    choice = selector.select_worker(other, candidates)
    assert choice.scores.parts[0][-1] == pytest.approx(10 * (1600 + 2404 - 3200) / 1600)
