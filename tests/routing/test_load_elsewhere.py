"""What other gateways have in hand: policies see it, our own counts do not change, the queue is one."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.core.config import RoutingConfig
from radixway.routing import LoadLedger, LoadShare, Selector
from support.routing_requests import Clock, prompt, workers

OWN = ("requests", "streams", "total", "prefilling", "silent", "prefill_tokens", "sent_tokens", "blocks")

STEPS = st.lists(
    st.tuples(st.integers(0, 7), st.sampled_from(["reserve", "done", "release", "wait", "tell", "lose"])),
    max_size=80,
)


@given(STEPS)
def test_whatever_is_lost_counts_agree_after_the_next_message_and_own_ones_never_change(steps):
    clock = Clock()
    here, there = LoadLedger(clock), LoadLedger(clock)
    worker, same_worker = workers(1)[0], workers(1)[0]
    leases, slowest, overhead_s = {}, worker.load.rate.seconds_per_token, worker.load.rate.overhead_s
    for number, step in steps:
        ledger, place = (here, worker) if number % 2 else (there, same_worker)
        lease = leases.get(number)
        own = [getattr(worker.load, name) for name in OWN]
        if step == "wait":
            clock.now += 0.02
        elif step == "tell":
            here.set_remote_load(worker, same_worker.load.to_share())
            assert [getattr(worker.load, name) for name in OWN] == own
            assert worker.load.all_requests == worker.load.requests + same_worker.load.requests
        elif lease is None:
            leases[number] = ledger.reserve(place, prompt(*range(number), stream=number > 2), 100 * number)
        elif step == "done":
            lease.mark_prefill_done()
        elif step == "release":
            lease.release()
        load = worker.load
        slowest = max(slowest, load.rate.seconds_per_token)
        overhead_s = max(overhead_s, load.rate.overhead_s)
        prefilling = load.prefilling + load.elsewhere.prefilling
        most_s = prefilling * overhead_s + load.all_prefill_tokens * slowest
        assert 0 <= load.queue_s(clock.now) <= most_s + 1e-6
        assert 0 <= load.decoding(clock.now) <= load.all_requests
    for lease in leases.values():
        lease.release()
    here.set_remote_load(worker, same_worker.load.to_share())
    load = worker.load
    assert (load.all_requests, load.all_prefill_tokens, load.all_blocks, load.visible_prefills()) == (
        0,
        0,
        0,
        0,
    )
    assert load.queue_s(clock.now) == 0


def test_prefills_of_all_gateways_stand_in_one_queue():
    ledger, worker = LoadLedger(Clock()), workers(1)[0]
    seconds = worker.load.rate.prefill_s
    ledger.reserve(worker, prompt(stream=True), 1000)
    ledger.set_remote_load(
        worker, LoadShare(total=1, requests=1, prefilling=1, prefill_tokens=500, sent_tokens=500)
    )
    assert worker.load.queue_s(ledger.clock()) == pytest.approx(seconds(1000) + seconds(500))
    ledger.set_remote_load(
        worker, LoadShare(total=1, requests=1, sent_tokens=500)
    )  # its first token has come
    assert worker.load.queue_s(ledger.clock()) == pytest.approx(seconds(1000))
    ledger.set_remote_load(worker, LoadShare())  # and now it is gone
    assert worker.load.queue_s(ledger.clock()) == pytest.approx(seconds(1000))


def test_prefills_that_came_and_went_between_two_messages_queue_no_longer_than_what_is_left():
    ledger, worker = LoadLedger(Clock()), workers(1)[0]
    ledger.set_remote_load(
        worker, LoadShare(total=90, requests=1, prefilling=1, prefill_tokens=300, sent_tokens=90_000)
    )
    assert worker.load.queue_s(ledger.clock()) == pytest.approx(worker.load.rate.prefill_s(300))


def test_the_rate_is_learnt_from_our_own_part_of_a_queue_that_gateways_share():
    clock = Clock()
    ledger, worker = LoadLedger(clock), workers(1)[0]
    for sent in range(1, 41):  # theirs is prefilled first, for 0.2 s, then ours, for 0.1 s
        ledger.set_remote_load(worker, LoadShare(sent, 1, 1, 0, 2000, 2000 * sent))
        lease = ledger.reserve(worker, prompt(stream=True), 1000)
        clock.now += 0.2
        ledger.set_remote_load(worker, LoadShare(sent, 0, 0, 0, 0, 2000 * sent))
        clock.now += 0.1
        lease.mark_prefill_done()
        lease.release()
    rate = worker.load.rate
    assert rate.overhead_s + 1000 * rate.seconds_per_token == pytest.approx(0.1, rel=0.1)


@pytest.mark.parametrize("policy", ["least_loaded", "power_of_two", "kv_aware", "expected_time"])
def test_policies_go_where_others_are_not(policy):
    candidates = workers(2)
    selector = Selector(RoutingConfig(policy=policy), clock=Clock(), rng=random.Random(1))
    for worker in candidates:
        selector.add_worker(worker)
    busy = LoadShare(3, 3, 2, 0, 5000, 9000, 300)
    for busy_one, free_one in (candidates, candidates[::-1]):
        selector.ledger.set_remote_load(busy_one, busy)
        selector.ledger.set_remote_load(free_one, LoadShare())
        assert selector.select_worker(prompt(1, 2, 3, stream=True), candidates).worker is free_one


def test_prefix_affinity_sees_queues_that_others_made_long():
    candidates = workers(2)
    selector = Selector(RoutingConfig(policy="prefix_affinity"), clock=Clock(), rng=random.Random(1))
    asked = prompt(1, text="the same beginning")
    home = selector.select_worker(asked, candidates).worker
    selector.reserve(selector.select_worker(asked, [home])).release()
    assert selector.select_worker(asked, candidates).worker is home
    selector.ledger.set_remote_load(home, LoadShare(12, 12))
    assert selector.select_worker(asked, candidates).scores.reason == "imbalanced"
    assert selector.select_worker(asked, candidates).worker is not home


def test_the_listing_keeps_apart_what_is_ours():
    ledger, worker = LoadLedger(Clock()), workers(1)[0]
    ledger.reserve(worker)
    ledger.set_remote_load(worker, LoadShare(9, 4))
    told = worker.describe()
    assert (told["in_flight"], told["in_flight_elsewhere"]) == (1, 4)
