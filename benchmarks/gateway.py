"""What a request costs in a gateway: CPU time, latency, added first byte, memory, side by side with peers.

Two fake workers (one process), the gateways under test and a load generator run on this machine and speak
over 127.0.0.1 only. Every round sends the same kinds of requests through each gateway in turn, in a closed
loop; the CPU time is that of the gateway's own process tree, so a busy machine blurs it far less than it
blurs requests per second. At last a gateway with 10,000 journals and 1,000,000 indexed blocks is measured.

    python benchmarks/gateway.py                     all gateways, peers installed on first use
    python benchmarks/gateway.py --quick             radixway and the bare worker, under 50 s
    python benchmarks/gateway.py --targets radixway,sglang-router --json out.json
    python benchmarks/gateway.py --gateway 'mine=mygateway --port {port} --backend {worker}'
    python benchmarks/gateway.py --json docs/measurements/gateway.json     then `make performance-docs`

Exits with 1 if an answer was wrong or missing, or a gateway could not be measured.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from pathlib import Path
from typing import Any

from environments import PEERS_DIR, PeerUnavailableError
from fake_worker import CHUNKS
from full_gateway import measure_full_gateway
from gateway_figures import (
    CONNECTIONS,
    CPU_WORKS,
    FIRST_BYTE,
    aims_table,
    cost_sentence,
    cpu_table,
    full_table,
    gateway_figures,
    latency_table,
    load_sentence,
    ratio_table,
)
from load import Load
from measured_gateways import (
    BenchmarkError,
    Gateway,
    Work,
    WrongAnswerError,
    fake_workers,
    measure_rounds,
    running,
)
from peers import PEERS, RADIXWAY, Target, custom
from processes import resident_bytes, stop
from report import MeasuredTable, write_measurement

FULL_BLOCKS = 1_000_000


def works_of(args: argparse.Namespace) -> list[Work]:
    """The kinds of requests of a round: in numbers if `--requests` is given, else in time."""
    kinds = [
        Work("1 KB", 0, 32, 1024, seconds=args.seconds),
        Work("1 KB × 1", 0, 1, 1024, seconds=0.4 * args.seconds),
        Work("1 KB × 128", 0, 128, 1024, seconds=0.6 * args.seconds),
        Work("16 KB", 0, 32, 16 * 1024, seconds=0.5 * args.seconds),
        Work("stream", 0, 32, 1024, stream=True, seconds=0.5 * args.seconds),
        Work(FIRST_BYTE, 0, 1, 1024, stream=True, chunks=1, seconds=0.25 * args.seconds),
    ]
    if args.requests:
        share = {"16 KB": 2, "stream": 8, FIRST_BYTE: 10}
        for work in kinds:
            work.requests, work.seconds = max(args.requests // share.get(work.name, 1), 1), 0.0
    return kinds


def chosen_targets(names: list[str], own: list[Target]) -> list[Target]:
    """The targets of these names, in this order; `direct` is none of them but a way around all."""
    known = {target.name: target for target in (RADIXWAY, *PEERS, *own)}
    unknown = [name for name in names if name not in known and name != "direct"]
    if unknown:
        raise BenchmarkError(f"unknown target {unknown[0]!r}; there are direct, {', '.join(known)}")
    return [known[name] for name in names if name != "direct"]


def target_names(args: argparse.Namespace, own: list[Target]) -> list[str]:
    """What is measured: by default everything, with `--quick` ourselves."""
    if args.targets:
        return str(args.targets).split(",")
    peers = [] if args.quick else [peer.name for peer in PEERS]
    return [RADIXWAY.name, *peers, *(target.name for target in own), "direct"]


def run(args: argparse.Namespace) -> int:
    """Start everything, measure, print; the exit status."""
    own = [custom(definition) for definition in args.gateway]
    targets = chosen_targets(target_names(args, own), own)
    missing: list[str] = []
    full: dict[str, Any] | None = None
    with contextlib.ExitStack() as stack:
        workers = stack.enter_context(fake_workers(args.workers, args.step_ms))
        load = Load()
        stack.callback(stop, load.process)
        direct = Gateway("direct", workers[0], None)
        gateways = [direct]
        with contextlib.ExitStack() as started:
            for target in targets:
                try:
                    gateways.append(started.enter_context(running(target, workers, args.peers_dir)))
                except PeerUnavailableError as reason:
                    missing.append(f"{target.name}: {reason}")
            if len(gateways) == 1 and targets:
                raise BenchmarkError("; ".join(missing))
            rounds = measure_rounds(gateways, works_of(args), load, args.rounds, args.budget_s)
            for gateway in gateways[1:]:
                gateway.resident_bytes = resident_bytes(gateway.pid) if gateway.pid else 0
        missing += [f"{gateway.name}: {gateway.fault}" for gateway in gateways if gateway.fault]
        answered = [gateway for gateway in (*gateways[1:], direct) if not gateway.fault]
        if direct.fault or (targets and answered == [direct]):
            raise BenchmarkError("; ".join(missing))
        if args.blocks and RADIXWAY in targets:
            try:
                full = measure_full_gateway(
                    workers, load, args.peers_dir, blocks=args.blocks, seconds=args.seconds, rounds=rounds
                )
            except (WrongAnswerError, PeerUnavailableError) as fault:
                missing.append(str(fault))
    measured = {gateway.name: gateway_figures(gateway, direct) for gateway in answered}
    for line in missing:
        print(f"not measured: {line}")
    tables, sentences = shown(measured, full)
    settings = {"rounds": rounds, "seconds": args.seconds, "requests": args.requests, "connections": 32}
    print_tables(tables, f"median of {rounds}")
    if args.json:
        everything = {"settings": settings, "gateways": measured, "full": full, "not_measured": missing}
        write_measurement(args.json, tables, everything, sentences=sentences, note=args.note)
    return 1 if missing else 0


def shown(
    measured: dict[str, Any], full: dict[str, Any] | None
) -> tuple[dict[str, MeasuredTable], dict[str, str]]:
    """The tables of a run by name, and what is said of it in words."""
    for name, document in measured.items():
        if (reads := document["reads_per_answer"]["stream"]) < 0.8 * CHUNKS:
            print(f"note: {name} joined chunks: {reads:.0f} reads for a stream of {CHUNKS} chunks")
    tables = {"latency": latency_table(measured), "cpu": cpu_table(measured)}
    sentences: dict[str, str] = {}
    if "radixway" in measured:
        sentences["load"] = load_sentence(measured["radixway"])
        tables["ratio"] = ratio_table(measured)
        if full is not None:
            tables["full"] = full_table(full["works"])
            held = full["held"]
            sentences["held"] = f"{held['journals']:,} journals and {held['blocks']:,} indexed blocks"
        if "direct" in measured:
            tables["aims"] = aims_table(measured, full and full["works"])
            sentences["cost"] = cost_sentence(measured)
    return tables, sentences


def print_tables(tables: dict[str, MeasuredTable], rounds: str) -> None:
    """Print what a run has shown."""
    titles = {
        "latency": f"Latency in ms, requests of 1 KB, by connections ({', '.join(map(str, CONNECTIONS))})",
        "cpu": f"CPU-s per 1,000 requests ({', '.join(CPU_WORKS.values())}), {rounds}",
        "ratio": "CPU time beside peers",
        "full": "A full gateway",
        "aims": "Aims",
    }
    for name, table in tables.items():
        if table.rows:
            table.print(titles[name])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="radixway and direct only, within 50 s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    names = ", ".join(["radixway", *(peer.name for peer in PEERS), "direct"])
    parser.add_argument("--targets", metavar="A,B", help=f"of {names}")
    parser.add_argument(
        "--gateway", action="append", default=[], metavar="NAME=COMMAND", help="one more target"
    )
    parser.add_argument("--seconds", type=float, help="of 1 KB over 32 connections a round (others: parts)")
    parser.add_argument("--requests", type=int, help="send so many of 1 KB a round, instead of for a time")
    parser.add_argument("--workers", type=int, default=2, help="fake workers, all in one process")
    parser.add_argument("--rounds", type=int, help="3, or 2 with --quick")
    parser.add_argument("--blocks", type=int, help="that the full gateway indexes; 0: measure none")
    parser.add_argument("--step-ms", type=float, default=4.0, help="pause between two chunks of a stream")
    parser.add_argument("--note", default="", metavar="SENTENCE", help="written beside the figures")
    parser.add_argument("--peers-dir", type=Path, default=PEERS_DIR)
    args = parser.parse_args()
    args.requests = args.requests or 0
    args.seconds = args.seconds or (2.0 if args.quick else 8.0)
    args.rounds = args.rounds or (2 if args.quick else 3)
    if args.blocks is None:
        args.blocks = 0 if args.quick else FULL_BLOCKS
    args.budget_s = 36.0 if args.quick else 3600.0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return run(args)
    except (BenchmarkError, RuntimeError) as error:
        print(f"benchmarks/gateway.py: {error}")
    except KeyboardInterrupt:
        print("benchmarks/gateway.py: interrupted; everything it started has been stopped")
    return 1


if __name__ == "__main__":
    sys.exit(main())
