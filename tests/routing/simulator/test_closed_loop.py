"""Clients that wait for answers, and engines that stall: what an open trace does not show of a policy."""

from dataclasses import replace
from statistics import median

import pytest

from radixway.routing.simulator.engine_model import EngineConstants
from support.closed_loops import ClosedLoop, ClosedLoopRun, mean_ttft_s

ON_CPU = ClosedLoop(
    EngineConstants(
        step_s=0.008, prefill_s=0.00064, decode_s=0.0015, context_s=1e-6, step_tokens=512, max_running=8
    )
)
ON_GPU = ClosedLoop(
    EngineConstants(),
    engines=4,
    kv_tokens=600_000,
    chats=100,
    turns=6,
    system_tokens=512,
    asked_tokens=800,
    answered_tokens=100,
    at_once=64,
)
LOOPS = {
    "small engines": ON_CPU,
    "short stalls": replace(ON_CPU, stall_share=0.05, stall_s=0.15),
    "long stalls": replace(ON_CPU, engines=4, chats=48, at_once=16, stall_share=0.004, stall_s=3.0),
    "long system prompts": replace(
        ON_CPU, kv_tokens=30_000, system_tokens=1024, stall_share=0.05, stall_s=0.15
    ),
    "low concurrency": replace(ON_CPU, at_once=2),
    "more requests than slots": replace(ON_CPU, at_once=24),
    "large engines": ON_GPU,
}
OTHERS = ("round_robin", "least_loaded", "kv_aware:overlap_weight=8")


@pytest.mark.parametrize("name", LOOPS)
def test_expected_time_is_first_or_close_to_it(name):
    seeds = 2 if LOOPS[name] is ON_GPU else 6
    best = min(mean_ttft_s(LOOPS[name], policy, seeds) for policy in OTHERS)
    assert mean_ttft_s(LOOPS[name], "expected_time", seeds) <= 1.03 * best


def test_the_cost_of_a_token_is_learnt_from_chats_whose_turns_are_all_as_long():
    loop = LOOPS["low concurrency"]
    slopes = []
    for seed in range(12):
        run = ClosedLoopRun(loop, "expected_time", seed)
        run.run()
        slopes.append(run.fleet_rate.seconds_per_token)
    assert median(slopes) == pytest.approx(loop.constants.prefill_s, rel=0.3)
