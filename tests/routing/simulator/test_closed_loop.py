"""The default policy where its queue estimate counts: engines that stall, clients that wait for answers."""

from dataclasses import replace
from statistics import fmean, median

import pytest

from support.closed_loop import ON_A_CORE, ChatShape, ClosedLoop

CHATS = ChatShape()
SHAPES = {
    "chats": CHATS,
    "long system prompts": replace(CHATS, system_blocks=48, asked_blocks=4),
    "many at once": replace(CHATS, at_once=16),
    "few at once": replace(CHATS, at_once=2),
}
SEEDS = 24


def mean_ttft_s(policy, shape):
    return fmean(ClosedLoop(policy, shape, seed).run().ttft_mean_s for seed in range(SEEDS))


@pytest.mark.parametrize(
    ("name", "ratio"),
    [("chats", 1.15), ("long system prompts", 1.15), ("many at once", 1.55), ("few at once", 1.35)],
)
def test_first_tokens_come_sooner_than_in_turns_although_engines_stall(name, ratio):
    shape = SHAPES[name]
    assert mean_ttft_s("round_robin", shape) > ratio * mean_ttft_s("expected_time", shape)


@pytest.mark.parametrize("name", SHAPES)
def test_the_learnt_slope_is_the_engines(name):
    constants = ON_A_CORE
    true = constants.prefill_s + constants.step_s / constants.step_tokens
    slopes = [
        ClosedLoop("expected_time", SHAPES[name], seed).run().gateway.selector.ledger.rates.fleet
        for seed in range(SEEDS)
    ]
    assert 0.7 < median(rate.seconds_per_token for rate in slopes) / true < 1.3


def test_everything_is_said_and_every_lease_ended():
    shape = replace(CHATS, stalls_every=3)
    outcome = ClosedLoop("expected_time", shape).run()
    assert len(outcome.ttft_s) == shape.chats * shape.turns
    assert all(ttft > 0 for ttft in outcome.ttft_s)
    for worker in outcome.gateway.workers:
        load = worker.load
        assert (load.requests, load.prefilling, load.min_queue_s) == (0, 0, 0)
        assert not load.first_tokens_due
