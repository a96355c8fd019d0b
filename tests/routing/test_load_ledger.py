"""The ledger: exact on every way out, and what first tokens teach about speed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.routing import LoadLedger
from radixway.routing.worker_load import STEP_S, PrefillRate
from support.routing_requests import Clock, prompt, workers

STEPS = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["reserve", "done", "output", "release", "wait"])),
    max_size=60,
)


@given(STEPS)
def test_whatever_happens_nothing_is_left_when_all_have_gone(steps):
    clock = Clock()
    ledger, worker = LoadLedger(clock), workers(1)[0]
    leases = {}
    for number, step in steps:
        lease = leases.get(number)
        if step == "wait":
            clock.now += 0.01
        elif lease is None:
            request = prompt(*range(number), stream=number % 2 == 0)
            leases[number] = ledger.reserve(worker, request, 10 * number, count_blocks=number % 3 > 0)
        elif step != "reserve":
            {"done": lease.mark_prefill_done, "output": lease.add_output_blocks, "release": lease.release}[
                step
            ]()
        load = worker.load
        assert load.queue_s(clock.now) >= 0
        assert load.uncounted_tokens <= load.prompt_tokens
        assert 0 <= load.decoding(clock.now) <= load.requests
    for lease in leases.values():
        lease.release()
        lease.release()
        lease.mark_prefill_done()
        lease.add_output_blocks()
    load = worker.load
    assert (load.requests, load.streams, load.prefilling, load.silent, load.prefill_tokens) == (0, 0, 0, 0, 0)
    assert load.blocks == load.prompt_tokens == load.uncounted_tokens == 0 and not load.active_blocks
    assert load.total == len(leases)


def test_blocks_that_several_share_count_once():
    ledger, worker = LoadLedger(Clock()), workers(1)[0]
    first = ledger.reserve(worker, prompt(1, 2, 3))
    second = ledger.reserve(worker, prompt(1, 2, 9))
    second.add_output_blocks()
    assert worker.load.blocks == 5
    first.release()
    assert worker.load.blocks == 4
    second.release()
    assert worker.load.blocks == 0


@pytest.mark.parametrize("stream", [True, False], ids=["a stream", "a whole reply"])
def test_the_queue_drains_at_the_workers_rate_and_a_stream_until_its_first_token(stream):
    clock = Clock()
    ledger, worker = LoadLedger(clock), workers(1)[0]
    prefill_s = worker.load.rate.prefill_s(2000)
    lease = ledger.reserve(worker, prompt(stream=stream), 2000)
    late_s = STEP_S if stream else 0.0
    assert worker.load.queue_s(clock.now) == pytest.approx(prefill_s)
    clock.now += prefill_s - 0.05
    assert worker.load.queue_s(clock.now) == pytest.approx(0.05 + late_s)
    clock.now += 10 * prefill_s  # it stalls, or a whole reply is decoded
    assert worker.load.queue_s(clock.now) == pytest.approx(late_s)
    lease.mark_prefill_done()
    assert worker.load.queue_s(clock.now) == 0


def test_a_worker_that_stalls_keeps_the_queue_behind_its_first_prefill():
    clock = Clock()
    ledger, worker = LoadLedger(clock), workers(1)[0]
    leases = [ledger.reserve(worker, prompt(stream=True), 2000) for _ in range(3)]
    prefill_s = worker.load.rate.prefill_s(2000)
    clock.now += 100
    assert worker.load.queue_s(clock.now) == pytest.approx(2 * prefill_s + STEP_S)
    assert worker.load.decoding(clock.now) == 0
    leases[1].release()  # a client leaves
    assert worker.load.queue_s(clock.now) == pytest.approx(prefill_s + STEP_S)
    leases[0].mark_prefill_done()
    assert worker.load.queue_s(clock.now) == pytest.approx(STEP_S)
    assert worker.load.decoding(clock.now) == 1


@pytest.mark.parametrize("oldest", [0, 2])
def test_what_is_behind_the_oldest_prefill_waits_while_the_countdown_runs(oldest):
    clock = Clock()
    ledger, worker = LoadLedger(clock), workers(1)[0]
    sizes = [4000, 4000, 4000]
    sizes[oldest] = 400
    for tokens in sizes:
        ledger.reserve(worker, prompt(stream=True), tokens)
    behind_s = sum(map(worker.load.rate.prefill_s, sizes[1:]))
    clock.now += worker.load.countdown_s(clock.now) - 0.01  # the slots are taken: nothing has been begun
    assert worker.load.queue_s(clock.now) == pytest.approx(
        min(behind_s + STEP_S, behind_s + worker.load.rate.prefill_s(sizes[0]))
    )


def test_each_prefill_takes_the_overhead_too():
    ledger, worker = LoadLedger(Clock()), workers(1)[0]
    for _ in range(4):
        ledger.reserve(worker, prompt(stream=True), 10)
    rate = worker.load.rate
    assert worker.load.queue_s(ledger.clock()) == pytest.approx(
        4 * rate.overhead_s + 40 * rate.seconds_per_token
    )


def test_a_first_token_ends_the_queue_of_its_request_however_slow_we_thought_the_worker():
    ledger, worker = LoadLedger(Clock()), workers(1)[0]
    first = ledger.reserve(worker, prompt(stream=True), 10_000)
    ledger.reserve(worker, prompt(stream=True), 50)
    assert worker.load.queue_s(ledger.clock()) > 1
    seconds_of_the_other = worker.load.rate.prefill_s(50)
    first.mark_prefill_done()
    assert worker.load.queue_s(ledger.clock()) == pytest.approx(seconds_of_the_other)


def test_rates_are_learnt_from_first_tokens():
    clock = Clock()
    ledger = LoadLedger(clock)
    fast, slow = workers(2)
    for worker in (fast, slow):
        ledger.rates.add_load(worker.load)
    for worker, per_token in ((fast, 1e-5), (slow, 1e-3)):
        for number in range(60):
            tokens = 100 + 37 * number % 1000
            lease = ledger.reserve(worker, prompt(stream=True), tokens)
            clock.now += 0.005 + tokens * per_token
            lease.mark_prefill_done()
            clock.now += 0.3
            lease.release()
    assert fast.load.rate.seconds_per_token == pytest.approx(1e-5, rel=0.25)
    assert slow.load.rate.seconds_per_token == pytest.approx(1e-3, rel=0.05)
    assert fast.load.rate.overhead_s == pytest.approx(0.005, rel=0.2)


def test_requests_in_one_queue_teach_the_rate_and_not_the_wait():
    clock = Clock()
    ledger, worker = LoadLedger(clock), workers(1)[0]
    for _ in range(20):
        leases = [ledger.reserve(worker, prompt(stream=True), tokens) for tokens in (500, 1000, 1500)]
        for lease, tokens in zip(leases, (500, 1000, 1500), strict=True):
            clock.now += tokens * 1e-4
            lease.mark_prefill_done()
        clock.now += 1
        for lease in leases:
            lease.release()
    assert worker.load.rate.seconds_per_token == pytest.approx(1e-4, rel=0.05)


@pytest.mark.parametrize("stream", [True, False], ids=["a client left", "a whole reply"])
def test_what_ends_without_a_first_token_beside_a_prefill_does_not_make_it_look_short(stream):
    clock = Clock()
    ledger, worker = LoadLedger(clock), workers(1)[0]
    for _ in range(20):
        other = ledger.reserve(worker, prompt(stream=stream), 10)
        measured = ledger.reserve(worker, prompt(stream=True), 1000)
        clock.now += 0.9
        other.release()
        clock.now += 0.1
        measured.mark_prefill_done()
        measured.release()
        clock.now += 1
        alone = ledger.reserve(worker, prompt(stream=True), 1000)
        clock.now += 1
        alone.mark_prefill_done()
        alone.release()
    assert worker.load.rate.prefill_s(1000) == pytest.approx(1, rel=0.05)


def test_a_new_worker_is_believed_to_be_as_fast_as_the_fleet():
    clock = Clock()
    ledger = LoadLedger(clock)
    old, new = workers(2)
    ledger.rates.add_load(old.load)
    ledger.rates.add_load(new.load)
    for tokens in range(100, 1100, 50):
        lease = ledger.reserve(old, prompt(stream=True), tokens)
        clock.now += tokens * 2e-4
        lease.mark_prefill_done()
        lease.release()
    assert new.load.rate.seconds_per_token == pytest.approx(2e-4, rel=0.2)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.floats(0, 1e4)), max_size=50))
def test_a_rate_is_always_one_that_can_be_divided_by(observations):
    rate = PrefillRate()
    for tokens, seconds in observations:
        rate.observe_prefill(tokens, seconds)
        assert rate.seconds_per_token > 0 and rate.overhead_s >= 0
