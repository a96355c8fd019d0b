"""The process that simulates for another."""

from __future__ import annotations

import subprocess
import sys

import msgspec

from radixway.simulate import Task, sample


def test_it_ends_with_whoever_wants_its_result(tmp_path):
    (tmp_path / "trace").write_bytes(sample("agents"))
    task = Task(
        trace="trace",
        policies=",".join(f"kv_aware:overlap_weight={weight}" for weight in range(1, 200)),
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
    child = subprocess.Popen(
        [sys.executable, "-m", "radixway.simulate.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
    )
    said, _ = child.communicate(msgspec.json.encode(task) + b"\n", timeout=120)
    assert child.returncode == 1
    assert b'"result"' not in said
