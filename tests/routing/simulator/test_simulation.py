"""Whole simulations: the real selector against modelled engines."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixway.core.config import parse_policy
from radixway.routing.simulator import RequestTrace, SimulationOutcome, SimulationSettings, compute_figures
from radixway.routing.simulator.comparison import compare_policies, parse_policies
from radixway.routing.simulator.report import nearest_rank_percentile
from radixway.routing.simulator.simulation import TraceSimulation
from radixway.routing.simulator.trace import TraceRequest
from support.simulated_traces import BLOCK, conversations

SMALL = SimulationSettings(workers=3, kv_tokens=4000)
POLICIES = "round_robin,random,least_loaded,power_of_two,prefix_affinity,kv_aware,expected_time"


def run(policy, trace, setting=SMALL):
    simulation = TraceSimulation(trace, parse_policy(policy), setting)
    outcome = simulation.run_trace()
    simulation.check()
    return outcome


@pytest.mark.parametrize("policy", POLICIES.split(","))
@pytest.mark.parametrize("events", [True, False])
def test_every_request_is_served_once_and_every_place_given_back(policy, events):
    trace = conversations(7, 6)
    outcome = run(policy, trace, replace(SMALL, events=events, kv_tokens=700))
    assert len(outcome.ttft_s) == sum(outcome.requests) == len(trace.requests)
    assert outcome.input_tokens == sum(request.input_tokens for request in trace.requests)
    assert all(ttft > 0 for ttft in outcome.ttft_s)


@given(st.sampled_from(POLICIES.split(",")), st.integers(1, 4), st.integers(1, 20), st.integers(0, 99))
@settings(max_examples=25)
def test_the_same_simulation_gives_the_same_outcome(policy, workers, count, seed):
    trace, setting = conversations(count, 3), replace(SMALL, workers=workers, seed=seed)
    assert run(policy, trace, setting) == run(policy, trace, setting)


def test_processes_do_not_change_the_outcome():
    trace, policies = conversations(5, 4), parse_policies("expected_time, random,power_of_two")
    seen = []
    here = compare_policies(trace, policies, SMALL, 1, seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 3 * len(trace.requests)
    assert compare_policies(trace, policies, SMALL, 2) == here
    assert list(here) == ["expected_time", "random", "power_of_two"]


def test_a_policy_that_knows_prefixes_hits_where_turns_do_not():
    trace = conversations(5, 6)
    turns, knows = compute_figures(run("round_robin", trace)), compute_figures(run("expected_time", trace))
    assert knows.hit_rate > 0.6
    assert knows.hit_rate > turns.hit_rate + 0.2
    assert knows.ttft_mean_s < turns.ttft_mean_s
    assert turns.expected_hit_rate is None


@pytest.mark.parametrize("events", [True, False])
def test_what_the_selector_expects_to_be_cached_is_what_is(events):
    outcome = run("expected_time", conversations(5, 6), replace(SMALL, events=events))
    assert outcome.expected_cached_tokens == outcome.cached_tokens


def test_events_that_come_late_are_expected_late():
    trace = conversations(1, 6, every_s=20.0)  # longer than predictions live
    late = run("expected_time", trace, replace(SMALL, workers=1, event_delay_s=30.0))
    assert late.expected_cached_tokens < late.cached_tokens


def test_a_request_that_fits_nowhere_is_skipped_and_counted():
    trace = conversations(2, 10)
    outcome = run("expected_time", trace, replace(SMALL, kv_tokens=20 * BLOCK))
    too_long = sum(1 for request in trace.requests if request.input_tokens + 8 > 20 * BLOCK)
    assert outcome.skipped == too_long == 12
    assert len(outcome.ttft_s) == len(trace.requests) - too_long


def test_imbalance_is_the_busiest_workers_work_over_the_mean():
    found = compute_figures(
        SimulationOutcome(ttft_s=[1.0], work_s=[3.0, 1.0, 2.0], busy_s=[9, 9, 9], requests=[4, 1, 1])
    )
    assert found.imbalance == 1.5
    assert found.request_imbalance == 2
    assert compute_figures(SimulationOutcome()).imbalance is None


def test_percentiles_are_of_the_nearest_rank():
    assert [nearest_rank_percentile([1, 2, 3, 4], share) for share in (0.0, 0.5, 0.51, 0.99, 1.0)] == [
        1,
        2,
        3,
        4,
        4,
    ]
    assert nearest_rank_percentile([], 0.5) is None


def test_a_policy_by_sessions_needs_a_trace_that_tells_them():
    trace, policies = conversations(4, 3), parse_policies("session,round_robin")
    with pytest.raises(ValueError, match="no sessions"):
        compare_policies(trace, policies, SMALL)
    told = RequestTrace([replace(asked, session=asked.blocks[0]) for asked in trace.requests], BLOCK)
    outcomes = compare_policies(told, policies, SMALL)
    assert compute_figures(outcomes["session"]).hit_rate > compute_figures(outcomes["round_robin"]).hit_rate


def test_policies_keep_the_names_that_they_were_given():
    assert list(parse_policies("kv_aware:overlap_weight=8, kv_aware")) == [
        "kv_aware:overlap_weight=8",
        "kv_aware",
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "commas"),
        ("a,,b", "unknown|a"),
        ("fastest", "fastest"),
        ("random,random", "twice"),
        ("kv_aware:weight=1", "weight"),
    ],
)
def test_policies_that_cannot_be_simulated_are_refused(text, why):
    with pytest.raises(ValueError, match=why):
        parse_policies(text)


@pytest.mark.parametrize(
    "wrong",
    [{"workers": 0}, {"kv_tokens": 0}, {"speedup": 0}, {"speedup": float("nan")}, {"event_delay_s": -1}],
)
def test_settings_that_cannot_be_are_refused_by_name(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        replace(SMALL, **wrong)


def agents(delay_s: float | None, count: int = 2, turns: int = 4) -> RequestTrace:
    """Sessions whose requests stand a tenth of a second apart, and come `delay_s` after an answer."""
    requests = []
    for turn in range(turns):
        for session in range(count):
            blocks = tuple(1000 * session + at for at in range(4 * (turn + 1)))
            pause_s = delay_s if turn else None
            requests.append(
                TraceRequest(0.1 * turn + 0.01 * session, len(blocks) * BLOCK, 20, blocks, session, pause_s)
            )
    return RequestTrace(requests, BLOCK)


def test_a_request_with_a_pause_comes_that_long_after_the_answer_before_it():
    trace = agents(3.0, count=1)
    outcome = run("least_loaded", trace)
    answers_s = [itl_s * 19 for itl_s in outcome.itl_s]
    ends = [
        at + ttft + took for at, ttft, took in zip(outcome.arrived_s, outcome.ttft_s, answers_s, strict=True)
    ]
    assert outcome.arrived_s[0] == 0
    assert outcome.arrived_s[1:] == pytest.approx([end + 3.0 for end in ends[:-1]])
    faster = run("least_loaded", trace, replace(SMALL, speedup=2.0))
    assert faster.arrived_s[1] == pytest.approx(ends[0] + 1.5)


def test_slow_workers_slow_sessions_down_and_timestamps_can_be_kept():
    slow = replace(SMALL, constants=replace(SMALL.constants, prefill_s=0.01))
    assert max(run("least_loaded", agents(1.0), slow).arrived_s) > max(
        run("least_loaded", agents(1.0)).arrived_s
    )
    kept = run("least_loaded", agents(1.0), replace(slow, open_loop=True))
    assert max(kept.arrived_s) == pytest.approx(0.31)
    assert run("least_loaded", agents(None), slow) == kept


def test_a_session_goes_on_after_a_request_that_fits_nowhere():
    outcome = run("least_loaded", agents(1.0, count=1), replace(SMALL, kv_tokens=10 * BLOCK))
    assert (outcome.skipped, len(outcome.ttft_s)) == (2, 2)
    shrinking = agents(1.0, count=1)
    shrinking.requests[0] = replace(shrinking.requests[0], input_tokens=5000)
    after = run("least_loaded", shrinking)
    assert (after.skipped, after.arrived_s[0]) == (1, 1.0)
