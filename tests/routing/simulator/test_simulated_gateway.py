"""Several gateways in front of the same modelled engines."""

import random
from dataclasses import replace
from statistics import fmean

import pytest

from radixway.core.config import parse_policy
from radixway.routing.simulator import RequestTrace, SimulationSettings
from radixway.routing.simulator.simulation import TraceSimulation
from radixway.routing.simulator.trace import TraceRequest
from support.simulated_traces import BLOCK, conversations

SMALL = SimulationSettings(workers=3, kv_tokens=4000)


def run(policy, trace, setting):
    simulation = TraceSimulation(trace, parse_policy(policy), setting)
    outcome = simulation.run_trace()
    simulation.check()
    return outcome


def crowd(count: int) -> RequestTrace:
    """Prompts of many lengths that have nothing in common, at times of their own."""
    rng, at, requests = random.Random(5), 0.0, []
    for number in range(count):
        at += rng.expovariate(12)
        size = rng.choice((2, 4, 8, 120))
        blocks = tuple(range(1000 * number, 1000 * number + size))
        requests.append(TraceRequest(at, size * BLOCK, rng.randint(2, 60), blocks))
    return RequestTrace(requests, BLOCK)


@pytest.mark.parametrize("policy", ["least_loaded", "prefix_affinity", "kv_aware", "expected_time"])
@pytest.mark.parametrize("sync_delay_s", [None, 0.0, 0.05])
def test_every_request_is_served_once_and_every_place_given_back(policy, sync_delay_s):
    trace = conversations(7, 6)
    outcome = run(policy, trace, replace(SMALL, gateways=3, sync_delay_s=sync_delay_s))
    assert len(outcome.ttft_s) == sum(outcome.requests) == len(trace.requests)


def test_gateways_that_hear_each_other_at_once_do_as_well_as_one_and_late_news_are_better_than_none():
    trace, setting = crowd(600), SimulationSettings(workers=4, kv_tokens=200_000)

    def ttft(gateways: int, sync_delay_s: float | None) -> float:
        simulated = replace(setting, gateways=gateways, sync_delay_s=sync_delay_s)
        return fmean(run("expected_time", trace, simulated).ttft_s)

    one, together, late, apart = ttft(1, None), ttft(4, 0.0), ttft(4, 0.02), ttft(4, None)
    assert together == pytest.approx(one, rel=0.05)
    assert one < late < apart


@pytest.mark.parametrize("impossible", [{"gateways": 0}, {"sync_delay_s": -1.0}])
def test_what_cannot_be_simulated_is_refused(impossible):
    with pytest.raises(ValueError, match=next(iter(impossible))):
        replace(SMALL, **impossible)
