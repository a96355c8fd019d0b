"""What lives as long as the process is not looked at by garbage collection, in processes that are ours."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

LATE = """
import gc
from radixway.core.telemetry import HeapFreezer

freezer = HeapFreezer(max_old_objects=MAX_OLD, max_unexamined_ratio=RATIO)
freezer.freeze_startup_objects()
counts = [gc.get_freeze_count()]
loaded = []
for _ in range(ROUNDS):
    loaded.append([[] for _ in range(1000)])  # such as modules of a first request
    gc.collect(1)
    counts.append(gc.get_freeze_count())
    gc.collect()
    counts.append(gc.get_freeze_count())
print(*counts)
"""

BUSY = """
import gc
from radixway.core.telemetry import HeapFreezer

freezer = HeapFreezer(max_old_objects=500, max_unexamined_ratio=0.0)
freezer.freeze_startup_objects()
examined = gc.get_freeze_count()


def load():
    cycles = [[] for _ in range(10_000)]
    for cycle in cycles:
        cycle.append(cycle)
    gc.collect(0), gc.collect(1)
    return cycles


first = load()
gc.collect()  # too many to look at
assert freezer.unexamined >= 10_000
del first
second = load()
gc.collect()  # and too many that were not looked at
assert freezer.unexamined == 0
assert abs(gc.get_freeze_count() - examined - 10_000) < 1_000, (gc.get_freeze_count(), examined)
"""

IDLE = """
import asyncio
import gc
from radixway.core.telemetry import HeapFreezer


async def main():
    freezer = HeapFreezer(max_old_objects=500)
    freezer.freeze_startup_objects()
    examined, calls = gc.get_freeze_count(), []

    def is_idle():
        calls.append(freezer.unexamined)
        return len(calls) not in (1, 3)

    cycles = [[] for _ in range(10_000)]
    for cycle in cycles:
        cycle.append(cycle)
    gc.collect(1)
    gc.collect()
    del cycles, cycle
    watching = asyncio.create_task(freezer.examine_when_idle(is_idle, interval_s=0.0))
    while len(calls) < 6:
        await asyncio.sleep(0)
    assert min(calls[:5]) >= 9_999 and calls[5] == 0, calls  # busy, idle, busy, idle, idle
    assert gc.get_freeze_count() < examined + 1_000
    watching.cancel()

asyncio.run(main())
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


def counts_of(max_old: int, ratio: float = 1.0, rounds: int = 4) -> list[int]:
    program = (
        LATE.replace("MAX_OLD", str(max_old)).replace("RATIO", str(ratio)).replace("ROUNDS", str(rounds))
    )
    return [int(word) for word in run(program).splitlines()[-1].split()]


def test_what_a_start_has_made_is_frozen_and_so_are_late_loads() -> None:
    first, *counts = counts_of(500)
    assert first > 1000
    assert counts[0] == first  # a young collection freezes nothing
    for before, after in zip(counts[1::2], counts[3::2], strict=False):
        assert after >= before + 1000  # and not only a few times


def test_what_is_looked_at_quickly_is_not_frozen() -> None:
    assert len(set(counts_of(10**6))) == 1


def test_garbage_that_was_frozen_is_freed_when_there_is_too_much_of_it() -> None:
    run(BUSY)


def test_garbage_that_was_frozen_is_freed_when_the_gateway_is_idle() -> None:
    run(IDLE)


def test_a_gateway_that_serves_is_frozen(tmp_path: Path) -> None:
    (line,) = [line for line in run(SERVED, tmp_path).splitlines() if line.startswith("frozen")]
    frozen, young, *_ = map(int, line.split()[1:])
    assert frozen > 20_000 and young > 700


@pytest.mark.slow
def test_an_embedded_gateway_leaves_garbage_collection_to_its_host(tmp_path: Path) -> None:
    run(EMBEDDED, tmp_path)
