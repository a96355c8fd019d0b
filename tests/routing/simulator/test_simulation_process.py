"""The process that simulates for another."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from radixway.routing.simulator import SimulationTask, make_sample_trace


@pytest.fixture
def child(tmp_path):
    """The process, which finds its trace where it runs."""
    with subprocess.Popen(
        [sys.executable, "-m", "radixway.routing.simulator.simulation_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
    ) as child:
        yield child
        child.kill()


def line(policies: str) -> bytes:
    """What it is told."""
    task = SimulationTask(
        trace="trace",
        policies=policies,
        workers=4,
        kv_tokens=200_000,
        speedup=1.0,
        events=True,
        event_delay_s=0.01,
        engine="",
        block_tokens=512,
        limit=None,
        most_requests=10_000,
        memory_bytes=2**31,
    )
    return msgspec.json.encode(task) + b"\n"


def test_it_ends_with_whoever_wants_its_result(child, tmp_path):
    (tmp_path / "trace").write_bytes(make_sample_trace("agents"))
    policies = ",".join(f"kv_aware:overlap_weight={weight}" for weight in range(1, 200))
    said, _ = child.communicate(line(policies), timeout=120)
    assert child.returncode == 1
    assert b'"result"' not in said


def test_it_ends_by_itself_once_it_has_said_what_came_of_it(child, tmp_path):
    (tmp_path / "trace").write_bytes(b"none\n")
    child.stdin.write(line("round_robin"))
    child.stdin.flush()
    assert b"trace:1" in child.stdout.readline()
    assert child.wait(60) == 0
