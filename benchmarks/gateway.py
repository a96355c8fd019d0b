"""What a request costs in a gateway: CPU time, rate, added latency and memory, side by side with its peers.

Two fake workers (one process), the gateways under test and a load generator run on this machine and speak
over 127.0.0.1 only. Every round sends the same work through each gateway in turn; the CPU time is that of the
gateway's own process tree, so a busy machine blurs it far less than it blurs requests per second.

    python benchmarks/gateway.py                     all gateways, peers installed on first use
    python benchmarks/gateway.py --quick             radixway and the bare worker, under 50 s
    python benchmarks/gateway.py --targets radixway,sglang-router --json out.json
    python benchmarks/gateway.py --gateway 'mine=mygateway --port {port} --backend {worker}'
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from environments import PEERS_DIR, PeerUnavailableError, clean_environment
from fake_worker import CHUNKS, MODEL
from load import Job, Load, Result
from peers import PEERS, RADIXWAY, Ports, Target, custom, environment_of
from processes import cpu_seconds, free_ports, last_words, resident_bytes, stop
from report import MeasuredTable, print_table, write_measurement

HERE = Path(__file__).resolve().parent


class BenchmarkError(Exception):
    """The run cannot give figures; the message says why."""


class WrongAnswerError(Exception):
    """A gateway lost, changed or refused an answer; the message says what came instead."""


@dataclass(slots=True)
class Work:
    """One kind of request, how many of them a round sends, and over how many connections."""

    name: str
    requests: int
    connections: int
    prompt_bytes: int
    stream: bool = False
    chunks: int = CHUNKS


@dataclass(slots=True)
class Gateway:
    """A gateway under test while it runs, and its figures. `pid` is None for the bare worker."""

    name: str
    port: int
    pid: int | None
    share: float = 1.0
    fault: str | None = None
    resident_bytes: int = 0
    cpu_s: dict[str, list[float]] = field(default_factory=dict)
    rate: dict[str, list[float]] = field(default_factory=dict)
    reads: dict[str, list[float]] = field(default_factory=dict)
    first_byte_s: dict[str, list[float]] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    """Sent with every request."""


# ---------------------------------------------------------------- processes


def wait_until_it_answers(
    process: subprocess.Popen[Any],
    port: int,
    within_s: float,
    log: Path,
    name: str,
    headers: dict[str, str] | None = None,
) -> None:
    """Return once a chat completion comes back through `port`; `PeerUnavailableError` if none does."""
    body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}).encode()
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    why, end = "no answer", time.monotonic() + within_s
    while time.monotonic() < end:
        if process.poll() is not None:
            raise PeerUnavailableError(f"{name} ended with {process.returncode} at start: {last_words(log)}")
        request = urllib.request.Request(url, body, {"content-type": "application/json"} | (headers or {}))
        try:
            with opener.open(request, timeout=5) as answer:
                if answer.status == 200:
                    return
        except (OSError, ValueError) as error:  # HTTP errors, refused connections, timeouts
            why = str(error)
        time.sleep(0.1)
    raise PeerUnavailableError(f"{name} did not answer within {within_s:g} s ({why}): {last_words(log)}")


@contextlib.contextmanager
def fake_workers(count: int, step_ms: float, *more: str) -> Iterator[list[int]]:
    """Run the fake workers and give their ports; `more` are options of theirs."""
    ports = free_ports(count)
    command = [
        sys.executable,
        str(HERE / "fake_worker.py"),
        "--step-ms",
        str(step_ms),
        "--ports",
        *map(str, ports),
        *more,
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise BenchmarkError("the fake worker did not start")
        yield ports
    finally:
        stop(process)


@contextlib.contextmanager
def running(target: Target, workers: list[int], peers_dir: Path) -> Iterator[Gateway]:
    """Install (if need be), start and finally stop a gateway. Raises `PeerUnavailableError`."""
    environment = environment_of(target, peers_dir)
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="radixway-bench-")))
        gateway_port, spare = free_ports(2)
        command = target.command(Ports(gateway_port, spare, workers), environment, scratch)
        log = scratch / "log"
        home = {"RADIXWAY_HOME": str(scratch / "home"), **target.env}
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stack.enter_context(log.open("wb")),
                stderr=subprocess.STDOUT,
                cwd=scratch,
                env=clean_environment(home),
                start_new_session=True,
            )
        except OSError as error:
            raise PeerUnavailableError(f"{target.name} cannot be started: {error}") from error
        stack.callback(stop, process)
        wait_until_it_answers(process, gateway_port, target.start_s, log, target.name, target.headers)
        yield Gateway(target.name, gateway_port, process.pid, target.share, headers=target.headers)


# ---------------------------------------------------------------- measuring


def send(gateway: Gateway, work: Work, load: Load, seed: int) -> tuple[Result, float]:
    """Send one round of work through a gateway; its answers, and the CPU seconds the gateway spent.

    Raises `WrongAnswerError` if a single answer was missing or wrong.
    """
    requests = max(work.connections, round(work.requests * gateway.share))
    job = Job(
        gateway.port,
        requests,
        work.connections,
        work.prompt_bytes,
        work.stream,
        work.chunks,
        seed=seed,
        headers=gateway.headers,
    )
    before = cpu_seconds(gateway.pid) if gateway.pid else 0.0
    result = load.run(job)
    spent = cpu_seconds(gateway.pid) - before if gateway.pid else 0.0
    if result.errors:
        wrong = "; ".join(f"{count} × {fault}" for fault, count in list(result.errors.items())[:3])
        raise WrongAnswerError(f"answered wrongly ({work.name}): {wrong}")
    return result, spent


def measure(gateway: Gateway, works: list[Work], load: Load, seed: int) -> None:
    """One round of every work through one gateway, added to its figures."""
    for work in works:
        result, spent = send(gateway, work, load, seed)
        gateway.cpu_s.setdefault(work.name, []).append(spent / result.ok * 1000)
        gateway.rate.setdefault(work.name, []).append(result.ok / result.wall_s)
        gateway.reads.setdefault(work.name, []).append(result.reads / result.ok)
        gateway.first_byte_s.setdefault(work.name, []).extend(result.first_byte_s)


def warm_up(gateway: Gateway, works: list[Work], load: Load) -> None:
    """A fifth of a round, so that pools are full and caches warm when the counting starts."""
    for work in works:
        send(gateway, replace(work, requests=max(work.requests // 5, 20)), load, seed=-1)


def measure_rounds(
    gateways: list[Gateway], works: list[Work], load: Load, rounds: int, budget_s: float
) -> int:
    """Warm every gateway up, then measure them round by round in changing order.

    Returns how many rounds fitted into `budget_s`; at least one is run. A gateway that gives a wrong answer
    gets its `fault` and is left out from there on.
    """
    begin, slowest = time.monotonic(), 0.0
    order = list(gateways)
    for done in range(-1, rounds):
        started = time.monotonic()
        if done > 0 and started - begin + slowest > budget_s:
            print(f"the machine is busy: only {done} of {rounds} rounds fitted into {budget_s:g} s")
            return done
        random.Random(done).shuffle(order)
        for gateway in [gateway for gateway in order if gateway.fault is None]:
            try:
                if done < 0:
                    warm_up(gateway, works, load)
                else:
                    measure(gateway, works, load, seed=done)
            except WrongAnswerError as fault:
                gateway.fault = str(fault)
        slowest = max(slowest, time.monotonic() - started)
    return rounds


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` of `values` lie."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


# ---------------------------------------------------------------- reporting


def figures(gateway: Gateway, direct: Gateway | None) -> dict[str, Any]:
    """All figures of one gateway as they go into the JSON file."""
    document: dict[str, Any] = {
        "cpu_s_per_1000": {
            name: {
                "median": statistics.median(values),
                "min": min(values),
                "max": max(values),
                "rounds": values,
            }
            for name, values in gateway.cpu_s.items()
            if gateway.pid
        },
        "requests_per_s": {name: statistics.median(values) for name, values in gateway.rate.items()},
        "reads_per_answer": {name: statistics.median(values) for name, values in gateway.reads.items()},
        "resident_mib": gateway.resident_bytes / 2**20,
    }
    for label, share in (("p50", 0.5), ("p99", 0.99)):
        first = percentile(gateway.first_byte_s["first byte"], share)
        document[f"first_byte_ms_{label}"] = first * 1000
        if direct is not None and gateway is not direct:
            added = first - percentile(direct.first_byte_s["first byte"], share)
            document[f"added_first_byte_ms_{label}"] = added * 1000
    return document


def _cpu_cell(values: dict[str, Any]) -> str:
    return f"{values['median']:.3f} ±{(values['max'] - values['min']) / 2:.3f}" if values else "–"


def table(measured: dict[str, dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of the table that ends a run."""
    columns = ["gateway", "1 KB", "16 KB", "streams", "req/s", "+ms p50", "p99", "MiB"]
    rows = []
    for name, document in measured.items():
        cpu = document["cpu_s_per_1000"]
        is_gateway = bool(cpu)
        rows.append(
            [
                name,
                *(_cpu_cell(cpu.get(work, {})) for work in ("1 KB", "16 KB", "stream")),
                f"{document['requests_per_s']['1 KB']:.0f}",
                *(
                    f"{document.get(f'added_first_byte_ms_{p}', 0):.2f}" if is_gateway else "–"
                    for p in ("p50", "p99")
                ),
                f"{document['resident_mib']:.0f}" if is_gateway else "–",
            ]
        )
    return columns, rows


def ratios(measured: dict[str, dict[str, Any]]) -> list[list[str]]:
    """How much CPU time each peer takes for what takes us one second."""
    ours = measured["radixway"]["cpu_s_per_1000"]
    rows = []
    for name, document in measured.items():
        theirs = document["cpu_s_per_1000"]
        if theirs and name != "radixway":
            rows.append(
                [
                    name,
                    *(
                        f"× {theirs[work]['median'] / ours[work]['median']:.2f}"
                        for work in ours
                        if work != "first byte"
                    ),
                ]
            )
    return rows


# ---------------------------------------------------------------- the run


def chosen_targets(names: list[str], own: list[Target]) -> list[Target]:
    """The targets of these names, in this order; `direct` is none of them but a way around all."""
    known = {target.name: target for target in (RADIXWAY, *PEERS, *own)}
    unknown = [name for name in names if name not in known and name != "direct"]
    if unknown:
        raise BenchmarkError(f"unknown target {unknown[0]!r}; there are direct, {', '.join(known)}")
    return [known[name] for name in names if name != "direct"]


def run(args: argparse.Namespace) -> int:
    """Start everything, measure, print; the exit status."""
    own = [custom(definition) for definition in args.gateway]
    default = [RADIXWAY.name] if args.quick else [RADIXWAY.name, *(peer.name for peer in PEERS)]
    names = (
        args.targets.split(",") if args.targets else [*default, *(target.name for target in own), "direct"]
    )
    targets = chosen_targets(names, own)
    works = [
        Work("1 KB", args.requests, args.connections, 1024),
        Work("16 KB", args.requests // 2, args.connections, 16 * 1024),
        Work("stream", args.requests // 8, args.connections, 1024, stream=True),
        Work("first byte", 100, 1, 1024, stream=True, chunks=1),
    ]
    missing: list[str] = []
    with contextlib.ExitStack() as stack:
        workers = stack.enter_context(fake_workers(args.workers, args.step_ms))
        load = Load()
        stack.callback(stop, load.process)
        direct = Gateway("direct", workers[0], None)
        gateways = [direct]
        for target in targets:
            try:
                gateways.append(stack.enter_context(running(target, workers, args.peers_dir)))
            except PeerUnavailableError as reason:
                missing.append(f"{target.name}: {reason}")
        if len(gateways) == 1 and targets:
            raise BenchmarkError("; ".join(missing))
        rounds = measure_rounds(gateways, works, load, args.rounds, args.budget_s)
        for gateway in gateways[1:]:
            gateway.resident_bytes = resident_bytes(gateway.pid) if gateway.pid else 0
    missing += [f"{gateway.name}: {gateway.fault}" for gateway in gateways if gateway.fault]
    answered = [gateway for gateway in (*gateways[1:], direct) if not gateway.fault]
    if direct.fault or (targets and answered == [direct]):
        raise BenchmarkError("; ".join(missing))
    measured = {gateway.name: figures(gateway, direct) for gateway in answered}
    for line in missing:
        print(f"not measured: {line}")
    for name, document in measured.items():
        if (reads := document["reads_per_answer"]["stream"]) < 0.8 * CHUNKS:
            print(f"note: {name} joined chunks: {reads:.0f} reads for a stream of {CHUNKS} chunks")
    if "radixway" in measured and (rows := ratios(measured)):
        print_table("CPU time, in ratio to radixway", ["gateway", "1 KB", "16 KB", "streams"], rows)
    title = f"CPU-seconds per 1,000 requests and per 1,000 streams of {CHUNKS} chunks"
    print_table(f"{title}; {args.connections} connections, median of {rounds}", *table(measured))
    if args.json:
        settings = {"rounds": rounds, "requests": args.requests, "connections": args.connections}
        tables = {"cpu": MeasuredTable(*table(measured))}
        everything = {"settings": settings, "gateways": measured, "not_measured": missing}
        write_measurement(args.json, tables, everything)
    return 1 if missing else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="radixway and direct only, within 50 s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--targets", metavar="A,B", help="radixway, sglang-router, litellm, direct")
    parser.add_argument(
        "--gateway", action="append", default=[], metavar="NAME=COMMAND", help="one more target"
    )
    parser.add_argument("--requests", type=int, help="of 1 KB a round (half of 16 KB, an eighth as streams)")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2, help="fake workers, all in one process")
    parser.add_argument("--rounds", type=int, help="3, or 5 without --quick")
    parser.add_argument("--step-ms", type=float, default=4.0, help="pause between two chunks of a stream")
    parser.add_argument("--peers-dir", type=Path, default=PEERS_DIR)
    args = parser.parse_args()
    args.requests = args.requests or (2400 if args.quick else 4000)
    args.rounds = args.rounds or (3 if args.quick else 5)
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
