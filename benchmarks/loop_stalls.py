"""How long a gateway's event loop stands still under load, and what of that is garbage collection.

32 connections in a closed loop send unique prompts of 1 KB through a gateway to two fake workers. The gateway
counts inside itself: generation-2 collections, the longest, turns of the loop that took more than 50 ms of
the loop thread's own CPU time (a machine that is busy with others does not count), and what the collector
tracks at the end.

    python benchmarks/loop_stalls.py
    python benchmarks/loop_stalls.py --before ../old/src     two trees of sources in turn, medians
    python benchmarks/loop_stalls.py --types                 and which types of objects there are at the end
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from environments import clean_environment
from load import Job, Load
from measured_gateways import fake_workers, wait_until_it_answers
from processes import cpu_seconds, free_ports, resident_bytes, stop
from report import print_table, write_json

STALL_S = 0.05
_LOOK_EVERY_S = 0.005
_ROWS: tuple[tuple[str, str], ...] = (
    ("collections", "generation-2 collections"),
    ("longest_pause_ms", "longest of them, ms of CPU"),
    ("stalls", "stalls over 50 ms of own CPU"),
    ("longest_turn_ms", "longest turn of the loop, ms of CPU"),
    ("tracked", "objects that the collector tracks"),
    ("frozen", "objects that it leaves alone"),
    ("cpu_s_per_1000", "CPU-s per 1,000 requests"),
    ("resident_mib", "MiB resident"),
)


# ---------------------------------------------------------------- inside of the gateway's process


class Watch:
    """Counts in the process that serves; begins anew with SIGUSR1 and writes what it has with SIGUSR2."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._began_s = 0.0
        self.begin()
        gc.callbacks.append(self._collected)

    def begin(self) -> None:
        """Forget what was counted."""
        self.collections, self.longest_pause_s, self.stalls, self.longest_turn_s = 0, 0.0, 0, 0.0

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] == 2:
            if phase == "start":
                self._began_s = time.thread_time()
            else:
                self.collections += 1
                self.longest_pause_s = max(self.longest_pause_s, time.thread_time() - self._began_s)

    async def run(self) -> None:
        """Look at the clock of this thread again and again."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, self.begin)
        loop.add_signal_handler(signal.SIGUSR2, self.write)
        while True:
            before = time.thread_time()
            await asyncio.sleep(_LOOK_EVERY_S)
            took = time.thread_time() - before
            self.longest_turn_s = max(self.longest_turn_s, took)
            self.stalls += took > STALL_S

    def write(self) -> None:
        """Say what was counted."""
        told: dict[str, Any] = {
            "collections": self.collections,
            "longest_pause_ms": self.longest_pause_s * 1e3,
            "stalls": self.stalls,
            "longest_turn_ms": self.longest_turn_s * 1e3,
            "frozen": gc.get_freeze_count(),
        }
        objects = gc.get_objects()
        told["tracked"] = len(objects)
        counted = Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in objects)
        told["types"] = counted.most_common(25)
        part = self._file.with_suffix(".part")
        part.write_text(json.dumps(told))
        part.rename(self._file)


def serve(file: Path, arguments: list[str]) -> None:
    """`radixway serve` with a watch in its loop."""
    from radixway.__main__ import main as radixway
    from radixway.core import http

    plain: Callable[..., Any] = http.AppServer.serve
    watch = Watch(file)

    async def watched(self: Any, *given: Any) -> None:
        watching = asyncio.create_task(watch.run())
        try:
            await plain(self, *given)
        finally:
            watching.cancel()

    http.AppServer.serve = watched  # type: ignore[method-assign]
    sys.argv = ["radixway", "serve", *arguments]
    radixway()


# ---------------------------------------------------------------- outside


@contextlib.contextmanager
def watched_gateway(
    source: Path | None, workers: list[int]
) -> Iterator[tuple[subprocess.Popen[Any], int, Path]]:
    """A gateway of that tree of sources, its port, and the file that it counts into."""
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="radixway-bench-") as scratch:
        file, log = Path(scratch, "counted"), Path(scratch, "log")
        command = [
            sys.executable,
            str(Path(__file__).resolve()),
            "--serve",
            str(file),
            "--",
            "--port",
            str(port),
        ]
        for worker in workers:
            command += ["--worker", f"http://127.0.0.1:{worker}"]
        env = clean_environment({"RADIXWAY_HOME": f"{scratch}/home"})
        if source is not None:
            env["PYTHONPATH"] = str(source)
        with log.open("wb") as out:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env, start_new_session=True
            )
        try:
            wait_until_it_answers(process, port, 120, log, "radixway")
            yield process, port, file
        finally:
            stop(process)


def measure(source: Path | None, workers: list[int], load: Load, args: argparse.Namespace) -> dict[str, Any]:
    """One gateway from start to end: warmed up, then measured."""
    with watched_gateway(source, workers) as (process, port, file):

        def send(requests: int, seed: int) -> None:
            result = load.run(Job(port, requests, args.connections, 1024, seed=seed, deadline_s=600))
            if result.errors:
                raise SystemExit(f"answered wrongly: {result.errors}")

        send(args.warm_up, -1)
        os.kill(process.pid, signal.SIGUSR1)
        before = cpu_seconds(process.pid)
        send(args.requests, 0)
        spent = cpu_seconds(process.pid) - before
        resident = resident_bytes(process.pid)
        os.kill(process.pid, signal.SIGUSR2)
        while not file.exists():
            time.sleep(0.05)
        told: dict[str, Any] = json.loads(file.read_text())
        return told | {"cpu_s_per_1000": spent / args.requests * 1e3, "resident_mib": resident / 2**20}


def main() -> None:
    """Parse, measure in turn, print."""
    if sys.argv[1:2] == ["--serve"]:
        serve(Path(sys.argv[2]), sys.argv[4:])
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--before", type=Path, metavar="SRC", help="another tree of sources, measured in turn"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--warm-up", type=int, default=2_000)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--types", action="store_true", help="print which types of objects are tracked")
    parser.add_argument("--quick", action="store_true", help="one round of 5,000 requests")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.requests = 1, 5_000
    trees: dict[str, Path | None] = (
        {} if args.before is None else {"before": args.before.resolve_default_model()}
    )
    trees["now"] = None
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in trees}
    with contextlib.ExitStack() as stack:
        workers = stack.enter_context(fake_workers(2, 4.0))
        load = Load()
        stack.callback(stop, load.process)
        for number in range(args.rounds):
            for name in list(trees)[:: -1 if number % 2 else 1]:
                rounds[name].append(measure(trees[name], workers, load, args))
    rows = [
        [text, *(statistics.median(float(each[key]) for each in rounds[name]) for name in trees)]
        for key, text in _ROWS
    ]
    title = (
        f"{args.requests:,} requests of 1 KB over {args.connections} connections, medians of {args.rounds}"
    )
    print_table(title, ["", *trees], rows)
    if args.types:
        for name in trees:
            counted = rounds[name][-1]["types"]
            print_table(f"tracked objects, {name}", ["type", "objects"], counted)
    if args.json:
        write_json(args.json, {"rounds": rounds})


if __name__ == "__main__":
    main()
