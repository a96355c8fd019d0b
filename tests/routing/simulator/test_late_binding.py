"""What waiting at the gateway brings, on a small trace with crowds of prompts long and short."""

import random
from dataclasses import replace

import pytest

from radixway.core.config import QueueConfig, parse_policy
from radixway.routing.simulator import RequestTrace, SimulationOutcome, SimulationSettings, compute_figures
from radixway.routing.simulator.simulation import TraceSimulation
from radixway.routing.simulator.trace import TraceRequest

BLOCK = 512
SETTING = SimulationSettings(workers=4, kv_tokens=1_000_000)


def crowds(count: int = 1200) -> RequestTrace:
    """Twelve documents, asked about in crowds, one prompt in ten of them ten times as long."""
    rng, requests = random.Random(14), []
    for number in range(count):
        document = rng.randrange(12)
        shared = [document * 1000 + at for at in range(8 + 2 * document)]
        own = [10**6 + number * 100 + at for at in range(rng.choice((1, 2, 4)) if rng.random() < 0.9 else 40)]
        at = 30.0 * (number // 60) + rng.uniform(0, 5)
        blocks = (*shared, *own)
        requests.append(TraceRequest(at, len(blocks) * BLOCK, rng.randint(20, 200), blocks))
    return RequestTrace(sorted(requests, key=lambda each: each.at), BLOCK)


def run(policy: str = "expected_time", setting=SETTING, **queue) -> SimulationOutcome:
    simulation = TraceSimulation(crowds(), parse_policy(policy), replace(setting, queue=QueueConfig(**queue)))
    outcome = simulation.run_trace()
    simulation.check()
    return outcome


def test_requests_that_wait_are_answered_sooner():
    held, sent = run(), run(hold_s=0)
    assert sent.held == sent.most_held == 0 < held.held
    waits, goes = compute_figures(held), compute_figures(sent)
    assert waits.ttft_mean_s < 0.93 * goes.ttft_mean_s
    assert waits.ttft_p50_s < 0.8 * goes.ttft_p50_s
    assert waits.ttft_p99_s < 1.05 * goes.ttft_p99_s
    assert waits.itl_mean_s < 1.05 * goes.itl_mean_s
    assert waits.goodput > goes.goodput
    assert waits.hit_rate > goes.hit_rate - 0.01


@pytest.mark.parametrize("gateways", [1, 3])
@pytest.mark.parametrize("queue", [{}, {"hold_s": 0.05}, {"size": 3}, {"order": "fcfs"}])
def test_every_request_is_served_once_and_none_is_held_longer_than_it_may(queue, gateways):
    setting = replace(SETTING, gateways=gateways, sync_delay_s=0.01 if gateways > 1 else None)
    outcome = run(setting=setting, **queue)
    assert len(outcome.ttft_s) == sum(outcome.requests) == 1200
    assert outcome.held_s <= outcome.held * (queue.get("hold_s", 10.0) + 1e-6)
    assert 0 < outcome.most_held <= queue.get("size", 256)


def test_the_same_simulation_gives_the_same_outcome():
    assert run() == run()


@pytest.mark.parametrize("policy", ["kv_aware", "least_loaded", "prefix_affinity"])
def test_nothing_waits_under_a_policy_whose_costs_are_no_seconds(policy):
    assert run(policy).held == 0
