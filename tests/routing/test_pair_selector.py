"""Pairs: when a prompt is prefilled elsewhere, by whom, and whether every place is given back."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.core.config import DisaggregationConfig, RoutingConfig, WorkerSettings
from radixway.routing import RoutingRequest, Selector, Worker, WorkerRegistry, WorkerState
from radixway.routing.pair_selector import PairSelector
from radixway.routing.worker import ServerInfo
from support.routing_requests import Clock, prompt

LONG = range(1, 301)
"""Blocks of a prompt of 4,804 tokens."""


class Fleet:
    """Workers by role, `p0`, `d0`, `a0` …, and the selector that knows them."""

    def __init__(self, *, prefill=2, decode=2, both=0, dialect="vllm", policy="expected_time", **fields):
        self.clock = Clock()
        self.selector = Selector(RoutingConfig(policy=policy), clock=self.clock, rng=random.Random(1))
        self.pairs = PairSelector(self.selector, DisaggregationConfig(**fields))
        self.prefill = [self._worker(f"p{i}", "prefill", dialect) for i in range(prefill)]
        self.decode = [self._worker(f"d{i}", "decode", dialect) for i in range(decode)]
        self.both = [self._worker(f"a{i}", "any", None) for i in range(both)]

    def _worker(self, name, role, dialect):
        section = WorkerSettings(url=f"http://{name}", models=("m",), role=role, disaggregation=dialect)
        worker = Worker(section, state=WorkerState.READY)
        self.selector.add_worker(worker)
        return worker

    @property
    def all(self):
        return self.prefill + self.decode + self.both

    def pick(self, request, **more):
        return self.pairs.select_pair(request, self.decode + self.both, self.prefill, **more)

    def send(self, request):
        choice = self.pick(request)
        return choice, self.pairs.reserve(choice)

    def decode_much(self, worker, times=4):
        """Give it answers to run."""
        return [self.selector.ledger.reserve(worker, prompt(), prefills=False) for _ in range(times)]


def long_prompt(*more: int, **fields) -> RoutingRequest:
    return prompt(*LONG, *more, model="m", **fields)


def names(choice):
    return (choice.prefills.worker.name if choice.prefills else None, choice.answers.worker.name)


def test_a_long_prompt_is_prefilled_elsewhere_when_the_decode_workers_are_busy_decoding():
    fleet = Fleet()
    for worker in fleet.decode:
        fleet.decode_much(worker)
    choice = fleet.pick(long_prompt())
    assert choice.prefills.worker in fleet.prefill
    assert choice.answers.worker in fleet.decode
    assert choice.reason == "sooner elsewhere"
    assert choice.weighed.alone_s == pytest.approx(1.2 * choice.weighed.elsewhere_s)


def test_idle_decode_workers_prefill_themselves_because_elsewhere_is_no_sooner():
    choice = Fleet().pick(long_prompt())
    assert choice.prefills is None and choice.reason == "no sooner elsewhere"


def test_without_expected_time_the_uncached_tokens_alone_decide():
    assert names(Fleet(by_expected_time=False).pick(long_prompt()))[0] is not None


def test_a_busy_prefill_pool_leaves_the_prefill_to_the_decode_worker():
    fleet = Fleet()
    for worker in fleet.decode:
        fleet.decode_much(worker)
    for worker in fleet.prefill:
        fleet.selector.ledger.reserve(worker, prompt(stream=True), 100_000)
    choice = fleet.pick(long_prompt())
    assert choice.prefills is None and choice.reason == "no sooner elsewhere"
    assert choice.weighed.elsewhere_s > 10 > choice.weighed.alone_s


@pytest.mark.parametrize(
    ("cached_blocks", "more_blocks", "elsewhere"),
    [
        (0, 100, True),  # 1,604 of 1,604 tokens: few, yet all of the prompt
        (60, 40, False),  # 644 of 1,604
        (29, 71, True),  # 1,140 of 1,604 are a share of 0.71
        (31, 69, False),  # 1,108 are one of 0.69
        (173, 127, False),  # 2,036 of 4,804
        (172, 128, True),  # 2,052: many, though the share is small
    ],
)
def test_few_uncached_tokens_are_prefilled_where_they_are_decoded(cached_blocks, more_blocks, elsewhere):
    fleet = Fleet(decode=1, by_expected_time=False)
    cached = list(range(1, cached_blocks + 1))
    if cached:
        fleet.selector.index.predict_blocks(fleet.decode[0].slot, cached, fleet.clock(), tokenized=True)
    request = prompt(*cached, *range(1000, 1000 + more_blocks), model="m")
    choice = fleet.pick(request)
    assert choice.weighed.uncached_tokens == request.tokens - 16 * cached_blocks
    assert (choice.prefills is not None) == elsewhere


def test_what_prefill_workers_hold_says_nothing_of_decode_workers():
    fleet = Fleet(prefill=2, decode=2, by_expected_time=False)
    fleet.selector.index.predict_blocks(fleet.prefill[1].slot, list(LONG), fleet.clock(), tokenized=True)
    choice = fleet.pick(long_prompt())
    assert choice.weighed.uncached_tokens == 4804
    assert choice.prefills.worker is fleet.prefill[1]
    assert choice.prefills.cached_tokens == 4800 and choice.answers.cached_tokens == 0


def test_the_prefill_worker_is_chosen_by_queue_and_cached_prefix():
    fleet = Fleet(prefill=2, dialect="sglang")
    first, (_, lease) = fleet.send(long_prompt())
    busy = first.prefills.worker
    for number in range(4):  # those it does not know go where there is no queue
        assert (
            fleet.pick(prompt(*range(1000 * number + 1000, 1000 * number + 1300))).prefills.worker is not busy
        )
    lease.mark_prefill_done()
    for _ in range(4):
        choice = fleet.pick(long_prompt(777))
        assert choice.prefills.worker is busy and choice.prefills.cached_tokens == 4800


def test_the_decode_worker_is_chosen_by_the_kv_in_use_and_not_by_its_cache():
    fleet = Fleet(decode=2, by_expected_time=False)
    holder, other = fleet.decode
    fleet.selector.index.predict_blocks(holder.slot, list(range(1, 101)), fleet.clock(), tokenized=True)
    fleet.selector.ledger.reserve(holder, prompt(*range(5000, 5010)), prefills=False)
    choice = fleet.pick(long_prompt())
    assert choice.answers.worker is other
    terms = choice.explain()["candidates"]
    assert terms["d0"]["held_tokens"] == 11 * 16 and terms["d1"]["held_tokens"] == 0


def test_a_small_decode_worker_is_full_sooner_than_a_large_one():
    fleet = Fleet(decode=2, by_expected_time=False)
    small, large = fleet.decode
    small.info, large.info = ServerInfo(kv_tokens=10_000), ServerInfo(kv_tokens=100_000)
    fleet.selector.ledger.reserve(large, prompt(*range(5000, 5010)), prefills=False)
    assert fleet.pick(long_prompt()).answers.worker is large


def test_equal_pairs_take_turns_however_often_the_answer_was_no():
    fleet = Fleet(prefill=2, decode=2, by_expected_time=False)
    seen = []
    for number in range(4):
        choice, leases = fleet.send(prompt(*range(1000 * number + 1, 1000 * number + 200), model="m"))
        seen.append(names(choice))
        for lease in leases:
            lease.release()
    assert {prefill for prefill, _ in seen} == {"p0", "p1"}
    assert {decode for _, decode in seen} == {"d0", "d1"}


def test_without_a_prefill_worker_decode_workers_do_it_themselves():
    choice = Fleet(prefill=0).pick(long_prompt())
    assert choice.prefills is None and choice.reason == "no prefill worker has room"


def test_a_request_that_cannot_be_split_is_not_split():
    choice = Fleet(by_expected_time=False).pick(long_prompt(), alone_reason="it asks for several answers")
    assert choice.prefills is None and choice.reason == "it asks for several answers"


def test_sglangs_decode_workers_never_prefill():
    fleet = Fleet(dialect="sglang")
    choice = fleet.pick(prompt(1, model="m"), alone_reason="it asks for several answers")
    assert choice.prefills is not None and choice.reason == "no worker answers alone"
    assert choice.weighed.alone_s is None


def test_workers_that_do_both_answer_alone_what_is_short():
    fleet = Fleet(dialect="sglang", both=1, by_expected_time=False)
    request = prompt(1, 2, 3, model="m")
    fleet.selector.index.predict_blocks(fleet.both[0].slot, [1, 2], fleet.clock(), tokenized=True)
    assert names(fleet.pick(request)) == (None, "a0")
    assert names(fleet.pick(long_prompt()))[0] is not None


def test_a_pair_speaks_one_dialect():
    fleet = Fleet(prefill=1, decode=1, by_expected_time=False)
    other = fleet._worker("s0", "prefill", "sglang")
    assert fleet.pairs.select_pair(long_prompt(), fleet.decode, [other]).prefills is None
    fleet.prefill.append(other)
    for _ in range(4):
        assert fleet.pick(long_prompt()).prefills.worker is fleet.prefill[0]


def test_a_pair_serves_one_model():
    fleet = Fleet(prefill=1, decode=1, by_expected_time=False)
    fleet.prefill[0].config = fleet.prefill[0].config.model_copy(update={"models": ("other",)})
    assert fleet.pick(prompt(*LONG, model="auto")).prefills is None


def test_only_the_prefill_worker_has_the_prompt_to_prefill():
    fleet = Fleet(by_expected_time=False)
    choice, (answer, prefill) = fleet.send(long_prompt())
    prefilling, decoding = choice.prefills.worker.load, choice.answers.worker.load
    assert (prefilling.prefill_tokens, prefilling.blocks, prefilling.prefilling) == (4804, 0, 1)
    assert (decoding.prefill_tokens, decoding.blocks, decoding.prefilling) == (0, 300, 0)
    fleet.clock.now += 0.5
    prefill.mark_prefill_done()
    assert prefilling.own_rate.observed == 1
    answer.mark_prefill_done()
    assert decoding.own_rate.observed == 0


def test_after_a_pair_both_hold_the_prompt_unless_the_decode_worker_keeps_none():
    for dialect, kept in (("vllm", 300), ("sglang", 0)):
        fleet = Fleet(dialect=dialect, by_expected_time=False)
        choice, _ = fleet.send(long_prompt())
        held = fleet.selector.index.match_prefix(list(LONG), fleet.clock()).device
        assert held[choice.prefills.worker.slot] == 300
        assert held.get(choice.answers.worker.slot, 0) == kept


def test_the_journal_tells_both_lists_and_what_decided():
    fleet = Fleet()
    for worker in fleet.decode:
        fleet.decode_much(worker)
    told = fleet.pick(long_prompt()).explain()
    assert told["policy"] == "least_kv_in_use" and set(told["candidates"]) == {"d0", "d1"}
    assert told["prefill"]["elsewhere"] and told["prefill"]["worker"].startswith("p")
    assert set(told["prefill"]["candidates"]) == {"p0", "p1"}
    for terms in told["prefill"]["candidates"].values():
        assert terms["cost"] == pytest.approx(terms["queue_s"] + terms["prefill_s"], abs=1e-5)
    assert told["prefill"]["expected_elsewhere_s"] < told["prefill"]["expected_alone_s"]
    alone = Fleet().pick(long_prompt()).explain()
    assert alone["policy"] == "expected_time" and not alone["prefill"]["elsewhere"]
    assert set(alone["prefill"]["candidates"]) == {"p0", "p1"}


STEPS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.sampled_from(["send", "prefilled", "prefill_died", "first", "output", "end", "wait"]),
    ),
    max_size=80,
)


@given(
    STEPS, st.booleans(), st.sampled_from(["vllm", "sglang"]), st.sampled_from(["expected_time", "kv_aware"])
)
def test_whatever_happens_to_pairs_nothing_is_left_when_all_have_gone(steps, by_time, dialect, policy):
    fleet = Fleet(both=1, by_expected_time=by_time, dialect=dialect, policy=policy)
    held = {}
    for number, step in steps:
        if step == "wait":
            fleet.clock.now += 0.05
        elif step == "send":
            if number not in held:
                request = prompt(*range(number, 40 * number), model="m", stream=number % 2 == 0)
                held[number] = fleet.send(request)[1]
        elif number in held:
            answer, prefill = held[number]
            if step == "prefilled" and prefill is not None:
                prefill.mark_prefill_done()
                prefill.release()
            elif step == "prefill_died" and prefill is not None:
                prefill.release()
                answer.release()
            elif step == "first":
                answer.mark_prefill_done()
            elif step == "output":
                answer.add_output_blocks()
            elif step == "end":
                answer.release()
        for worker in fleet.all:
            assert 0 <= worker.load.prefilling <= worker.load.requests
            assert worker.load.silent >= 0 and worker.load.prefill_tokens >= 0
    for leases in held.values():
        for lease in leases:
            if lease is not None:
                lease.release()
                lease.release()
    for worker in fleet.all:
        load = worker.load
        assert (load.requests, load.streams, load.prefilling, load.silent, load.prefill_tokens) == (0,) * 5
        assert load.blocks == 0 and not load.active_blocks
    fleet.selector.index.check()


def registry_of(*sections):
    registry = WorkerRegistry()
    for section in sections:
        registry.set_state(registry.add_worker(WorkerSettings(models=("m",), **section)), WorkerState.READY)
    return registry


P = {"url": "http://p", "role": "prefill", "disaggregation": "sglang"}
D = {"url": "http://d", "role": "decode", "disaggregation": "sglang"}


def test_a_decode_worker_that_needs_a_pair_is_a_candidate_while_there_is_one():
    registry = registry_of(P, D)
    prefill, decode = registry.get_worker("http://p"), registry.get_worker("http://d")
    assert registry.candidates("m") == (decode,) and registry.prefillers("m") == (prefill,)
    registry.set_state(prefill, WorkerState.DOWN)
    assert registry.candidates("m") == () and registry.prefillers("m") == ()
    registry.set_state(prefill, WorkerState.READY)
    assert registry.candidates("m") == (decode,)


def test_vllms_decode_workers_are_candidates_alone_and_prefill_workers_never():
    vllm = {"disaggregation": "vllm"}
    assert [w.name for w in registry_of(D | vllm).candidates("m")] == ["d"]
    assert registry_of(P | vllm).candidates("m") == ()


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_our_own_engine_says_itself_what_it_was_started_for(role):
    registry = registry_of({"url": "http://w"})
    worker = registry.get_worker("http://w")
    registry.update_info(worker, ServerInfo(models=("m",), engine="radixway", role=role, bootstrap_port=9000))
    assert (worker.role, worker.dialect, worker.bootstrap_port) == (role, "radixway", 9000)
    assert registry.candidates("m") == ((worker,) if role == "decode" else ()), "it can answer alone"


def test_our_own_engine_given_another_role_than_it_was_started_for_does_both(caplog):
    registry = registry_of(P)
    worker = registry.get_worker("http://p")
    registry.update_info(worker, ServerInfo(models=("m",), engine="radixway"))
    assert worker.role == "any" and registry.candidates("m") == (worker,)
    assert registry.prefillers("m") == ()
    assert "not started to prefill only" in caplog.text


def test_a_role_needs_a_way_to_pass_kv():
    with pytest.raises(ValueError, match="role decode needs disaggregation: vllm or sglang"):
        WorkerSettings(url="http://d", role="decode")
    assert WorkerSettings(**P).disaggregation.bootstrap_port == 8998
