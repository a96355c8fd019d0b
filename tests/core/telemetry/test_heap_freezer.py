"""What lives as long as the process is not looked at by garbage collection, in processes that are ours."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

LATE = """
import gc
from radixway.core.telemetry import HeapFreezer

HeapFreezer(long_collection_s=LONG_S, max_late_freezes=2).freeze_startup_objects()
counts = [gc.get_freeze_count()]
loaded = []
for _ in range(4):
    loaded.append([[] for _ in range(1000)])  # such as modules of a first request
    gc.collect(1)
    counts.append(gc.get_freeze_count())
    gc.collect()
    counts.append(gc.get_freeze_count())
print(*counts)
"""

SERVED = """
import gc, os, sys
from radixway.cli import quickstart
from radixway.cli import main

announce = quickstart._announce


def told(url, gateway):
    announce(url, gateway)
    print("frozen", gc.get_freeze_count(), *gc.get_threshold(), flush=True)
    os._exit(0)


quickstart._announce = told
sys.argv = ["radixway", "serve", "--port", "0"]
main()
"""

EMBEDDED = """
import gc
from radixway.gateway.embedded import Radixway

before = gc.get_threshold()
with Radixway():
    assert gc.get_freeze_count() == 0 and gc.get_threshold() == before
    counted = gc.callbacks[:]
assert counted and not gc.callbacks  # how long pauses are, while it runs
"""


def run(program: str, home: str | Path = "") -> str:
    env = {**os.environ, "RADIXWAY_HOME": str(home)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def counts_of(long_s: float) -> list[int]:
    return [int(word) for word in run(LATE.replace("LONG_S", str(long_s))).splitlines()[-1].split()]


def test_what_a_start_has_made_is_frozen_and_late_loads_a_few_times() -> None:
    first, *counts = counts_of(0.0)
    assert first > 1000
    assert counts[0] == first  # a young collection freezes nothing
    assert counts[1] > first + 1000 and counts[3] > counts[1] + 1000
    assert len(set(counts[3:])) == 1  # twice, and no more


def test_collections_that_are_short_freeze_nothing() -> None:
    assert len(set(counts_of(3600.0))) == 1


def test_a_gateway_that_serves_is_frozen(tmp_path: Path) -> None:
    (line,) = [line for line in run(SERVED, tmp_path).splitlines() if line.startswith("frozen")]
    frozen, young, *_ = map(int, line.split()[1:])
    assert frozen > 20_000 and young > 700


@pytest.mark.slow
def test_an_embedded_gateway_leaves_garbage_collection_to_its_host(tmp_path: Path) -> None:
    run(EMBEDDED, tmp_path)
