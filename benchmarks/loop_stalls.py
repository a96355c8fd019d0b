"""How long a gateway's event loop stands still, and what of that is garbage collection.

Under load: 32 connections in a closed loop send unique prompts of 1 KB through a gateway to two fake workers,
which have published KV events of `--blocks` blocks, and the gateway keeps 10,000 journals. The gateway counts
inside itself: generation-2 collections, the longest, turns of the loop that took more than 50 ms of the loop
thread's own CPU time (a machine that is busy with others does not count), and what the collector tracks.

    python benchmarks/loop_stalls.py
    python benchmarks/loop_stalls.py --before ../old/src     two trees of sources in turn, medians
    python benchmarks/loop_stalls.py --types                 and which types of objects there are at the end

With `--cases`: single things that may hold the loop up, each done to a gateway of its own; the longest turn
of its loop, in CPU time of its thread and on the wall, the least of `--rounds`.

    python benchmarks/loop_stalls.py --cases                 all of them
    python benchmarks/loop_stalls.py --cases kv-event,messages --before ../old/src
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import tempfile
from pathlib import Path
from typing import Any

from load import Load
from loop_watch import watched_gateway
from measured_gateways import fake_workers
from processes import cpu_seconds, resident_bytes, stop
from report import print_table, write_json
from stall_cases import CASES, KvPublisher, Scene, StallCase, publishers, store_batches

_ROWS: tuple[tuple[str, str], ...] = (
    ("collections", "generation-2 collections"),
    ("longest_pause_ms", "longest of them, ms of CPU"),
    ("full_collection_ms", "a full collection at the end, ms of CPU"),
    ("stalls", "stalls over 50 ms of own CPU"),
    ("longest_turn_ms", "longest turn of the loop, ms of CPU"),
    ("p50_ms", "latency, p50"),
    ("p99_ms", "latency, p99"),
    ("tracked", "objects that the collector tracks"),
    ("frozen", "objects that it leaves alone"),
    ("cpu_s_per_1000", "CPU-s per 1,000 requests"),
    ("resident_mib", "MiB resident"),
)


def scene_config(workers: list[int], made: list[KvPublisher], more: dict[str, Any]) -> dict[str, Any]:
    """A gateway's configuration: the workers, each with its publisher, and `more`."""
    return {
        "workers": [
            {"url": f"http://127.0.0.1:{port}", "kv_events": publisher.config()}
            for port, publisher in zip(workers, made, strict=True)
        ]
    } | more


def measure_load(
    source: Path | None, workers: list[int], load: Load, args: argparse.Namespace
) -> dict[str, Any]:
    """One gateway from start to end: its index and its journals filled, then measured."""
    with publishers(len(workers)) as made, tempfile.TemporaryDirectory(prefix="radixway-bench-") as home:
        store_batches(args.blocks)(made)
        with watched_gateway(source, [], scene_config(workers, made, {}), Path(home)) as gateway:
            scene = Scene(gateway, made, load, Path(home))
            scene.wait_for_blocks(args.blocks)
            scene.send(args.warm_up, -1, args.connections)
            gateway.begin()
            before = cpu_seconds(gateway.process.pid)
            result = scene.send(args.requests, 0, args.connections)
            spent = cpu_seconds(gateway.process.pid) - before
            resident = resident_bytes(gateway.process.pid)
            latencies = sorted(result.first_byte_s)
            return gateway.read() | {
                "p50_ms": latencies[len(latencies) // 2] * 1e3,
                "p99_ms": latencies[len(latencies) * 99 // 100] * 1e3,
                "cpu_s_per_1000": spent / args.requests * 1e3,
                "resident_mib": resident / 2**20,
            }


def measure_case(case: StallCase, source: Path | None, workers: list[int], load: Load) -> dict[str, Any]:
    """One gateway, to which `case` is done."""
    with publishers(len(workers)) as made, tempfile.TemporaryDirectory(prefix="radixway-bench-") as home:
        case.before_start(made)
        config = scene_config(workers, made, case.config)
        with watched_gateway(source, [], config, Path(home)) as gateway:
            scene = Scene(gateway, made, load, Path(home))
            if case.prepare is not None:
                case.prepare(scene)
                gateway.begin()
            case.act(scene)
            return gateway.read()


def run_cases(
    trees: dict[str, Path | None], workers: list[int], load: Load, args: argparse.Namespace
) -> None:
    """Do each case to each tree in turn, and print the longest turns."""
    names = [case.name for case in CASES] if args.cases == "all" else args.cases.split(",")
    known = {case.name: case for case in CASES}
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"unknown case {unknown[0]!r}; there are {', '.join(known)}")
    rows: list[list[str | int | float | None]] = []
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in names:
        row: list[str | int | float | None] = [known[name].text]
        for tree, source in trees.items():
            rounds = [measure_case(known[name], source, workers, load) for _ in range(args.rounds)]
            least = {
                key: min(float(each[key]) for each in rounds)
                for key in ("longest_turn_ms", "longest_stall_ms", "longest_pause_ms")
            }
            found.setdefault(name, {})[tree] = least
            row += least.values()
        rows.append(row)
        print(*(f"{cell:.1f}" if isinstance(cell, float) else cell for cell in row), sep="  ", flush=True)
    columns = [f"{tree}, {what}" for tree in trees for what in ("CPU ms", "wall ms", "GC ms")]
    print_table(f"the loop's longest turn, least of {args.rounds}", ["", *columns], rows)
    if args.json:
        write_json(args.json, {"cases": found})


def main() -> None:
    """Parse, measure in turn, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--before", type=Path, metavar="SRC", help="another tree of sources, measured in turn"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--warm-up", type=int, default=10_000, help="requests before, whose journals stay")
    parser.add_argument("--blocks", type=int, default=1_000_000, help="KV blocks that are indexed before")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--types", action="store_true", help="print which types of objects are tracked")
    parser.add_argument("--quick", action="store_true", help="one round of 5,000 requests")
    parser.add_argument("--cases", nargs="?", const="all", metavar="A,B", help="these cases instead of load")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.requests = 1, 5_000
    trees: dict[str, Path | None] = {} if args.before is None else {"before": args.before.resolve()}
    trees["now"] = None
    with contextlib.ExitStack() as stack:
        workers = stack.enter_context(fake_workers(2, 4.0))
        load = Load()
        stack.callback(stop, load.process)
        if args.cases:
            run_cases(trees, workers, load, args)
        else:
            run_load(trees, workers, load, args)


def run_load(trees: dict[str, Path | None], workers: list[int], load: Load, args: argparse.Namespace) -> None:
    """Measure each tree in turn under load, and print medians."""
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in trees}
    for number in range(args.rounds):
        for name in list(trees)[:: -1 if number % 2 else 1]:
            rounds[name].append(measure_load(trees[name], workers, load, args))
    rows = [
        [text, *(statistics.median(float(each[key]) for each in rounds[name]) for name in trees)]
        for key, text in _ROWS
    ]
    title = (
        f"{args.requests:,} requests of 1 KB over {args.connections} connections, {args.blocks:,} blocks, "
        f"medians of {args.rounds}"
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
