"""Our choices on Dynamo's simulated engines, where its runtime is installed, and what is said elsewhere."""

import sys
from dataclasses import replace
from importlib.util import find_spec
from statistics import fmean

import pytest
from typer.testing import CliRunner

from radixway.cli import app
from radixway.core.config import QueueConfig, parse_policy
from radixway.routing.simulator import RequestTrace, SimulationSettings
from radixway.routing.simulator.dynamo_replay import DYNAMO_CONSTANTS, DynamoReplay, compare_with_dynamo
from radixway.routing.simulator.trace import TraceRequest
from support.simulated_traces import BLOCK, conversations, write

SETTING = SimulationSettings(workers=3, kv_tokens=64_000, constants=DYNAMO_CONSTANTS)
needs_dynamo = pytest.mark.skipif(
    find_spec("dynamo") is None,
    reason="ai-dynamo-runtime is not installed; it has no wheels for every system",
)


def simulate(*args):
    return CliRunner(env={"NO_COLOR": "1"}).invoke(app, ["simulate", *map(str, args)])


def test_without_dynamos_runtime_a_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "dynamo", None)
    trace = write(tmp_path / "trace.jsonl", conversations(2, 2))
    told = simulate(trace, "--against", "dynamo")
    assert told.exit_code == 2
    assert "pip install ai-dynamo-runtime" in told.stderr
    assert "Traceback" not in told.stderr


def test_others_than_dynamo_are_refused_in_words(tmp_path):
    trace = write(tmp_path / "trace.jsonl", conversations(2, 2))
    told = simulate(trace, "--against", "nobody")
    assert told.exit_code == 2
    assert "'dynamo', not 'nobody'" in told.stderr


@needs_dynamo
def test_requests_in_turn_fare_alike_whoever_sends_them():
    trace = conversations(12, 6)
    replay = DynamoReplay(BLOCK, SETTING)
    ours = replay.replay_choices(trace, parse_policy("round_robin"))
    theirs = replay.replay_trace(trace, None)
    assert sorted(ours.ttft_s) == pytest.approx(sorted(theirs.ttft_s), abs=1e-6)
    assert ours.cached_tokens == theirs.cached_tokens
    assert ours.requests == theirs.requests
    assert (ours.held, ours.skipped, ours.preemptions) == (0, 0, 0)


@needs_dynamo
def test_the_wait_at_the_gateway_is_part_of_the_time_to_first_token():
    requests = [
        TraceRequest(
            0.03 * number, 64 * size * BLOCK, 10, tuple(range(10_000 * number, 10_000 * number + 64 * size))
        )
        for number in range(100)
        for size in (1 + number % 7,)
    ]
    outcomes = [
        DynamoReplay(BLOCK, replace(SETTING, queue=QueueConfig(hold_s=hold_s))).replay_choices(
            RequestTrace(requests, BLOCK), parse_policy("expected_time")
        )
        for hold_s in (0, 10)
    ]
    assert [outcome.held > 0 for outcome in outcomes] == [False, True]
    sent, held = (fmean(outcome.ttft_s) for outcome in outcomes)
    assert held > outcomes[1].held_s / len(requests)
    assert held < sent


@needs_dynamo
def test_policies_stand_beside_dynamos_router():
    outcomes = compare_with_dynamo(
        conversations(6, 4), {"expected_time": parse_policy("expected_time")}, SETTING
    )
    assert [name.split(":")[0] for name in outcomes] == [
        "expected_time",
        "dynamo round_robin",
        *["dynamo kv_router"] * 3,
    ]
    assert len({len(outcome.ttft_s) for outcome in outcomes.values()}) == 1
    assert all(sum(outcome.requests) == len(outcome.ttft_s) for outcome in outcomes.values())
