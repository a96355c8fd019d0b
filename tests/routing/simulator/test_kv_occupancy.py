"""Long answers that fill the KV caches: where a request goes then, and what is preempted."""

import random

from radixway.core.config import parse_policy
from radixway.routing.simulator import RequestTrace, SimulationFigures, SimulationSettings, compute_figures
from radixway.routing.simulator.simulation import TraceSimulation
from radixway.routing.simulator.trace import TraceRequest

BLOCK = 512
SETTING = SimulationSettings(workers=8, kv_tokens=120_000)


def long_answers(count: int = 1200) -> RequestTrace:
    """Prompts of 1,000 to 20,000 tokens, a third of them about one of eight documents."""
    rng, requests, at = random.Random(8), [], 0.0
    for number in range(count):
        at += rng.expovariate(3.04)
        shared = [rng.randrange(8) * 100 + place for place in range(12)] if rng.random() < 0.33 else []
        own = [10**6 + number * 100 + place for place in range(min(38, 2 + int(rng.expovariate(0.12))))]
        blocks = (*shared, *own)
        answer = int(rng.choice((200, 800, 2000, 4000)))
        requests.append(TraceRequest(at, len(blocks) * BLOCK, answer, blocks))
    return RequestTrace(requests, BLOCK)


def run(policy: str) -> SimulationFigures:
    simulation = TraceSimulation(long_answers(), parse_policy(policy), SETTING)
    outcome = simulation.run_trace()
    simulation.check()
    return compute_figures(outcome)


def test_expected_time_reckons_with_full_caches():
    ours = run("expected_time")
    for policy in ("kv_aware", "kv_aware:overlap_weight=8"):
        theirs = run(policy)
        assert ours.ttft_mean_s < theirs.ttft_mean_s
        assert ours.ttft_p99_s < 1.01 * theirs.ttft_p99_s
        assert ours.itl_mean_s < theirs.itl_mean_s
        assert ours.preemptions <= theirs.preemptions + 1


def test_preemptions_are_counted():
    assert 0 < run("kv_aware").preemptions < run("round_robin").preemptions
