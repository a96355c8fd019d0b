"""What several processes of one gateway give: requests for each CPU-second, spread, rate.

Fake workers (one process), a gateway of 1, 2 … processes and a load generator run on this machine. Where it
has as many cores as processes, the generator and the workers share them with the gateway, so the rate on the
clock says more about the machine than about the gateway. What a machine with a core for each process would
give is computed of CPU times alone: the busiest process has its core full, so in all they answer

    requests / CPU-seconds of the busiest process

    python benchmarks/many_processes.py [--processes 1,2] [--connections 32,128] [--rounds 3]
                                        [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from load import Job, Load
from measured_gateways import WrongAnswerError, fake_workers, wait_until_it_answers
from processes import cpu_seconds, free_ports, process_tree, stop
from report import print_table, write_json

START_S = 120.0
PROMPT_BYTES = 1024


@dataclass(slots=True)
class Round:
    """One round through one gateway."""

    answered: int
    wall_s: float
    cpu_s: list[float]
    """Of each child; of the only process where there is one."""
    supervisor_cpu_s: float

    @property
    def capacity(self) -> float:
        """Requests a second with a core for each process."""
        return self.answered / max(self.cpu_s)

    @property
    def per_cpu_s(self) -> float:
        return self.answered / (sum(self.cpu_s) + self.supervisor_cpu_s)

    @property
    def busiest_share(self) -> float:
        return max(self.cpu_s) / sum(self.cpu_s)


@dataclass(slots=True)
class Gateway:
    """A gateway that runs."""

    port: int
    pid: int
    count: int

    @property
    def pids(self) -> list[int]:
        """The processes that answer."""
        return [self.pid] if self.count == 1 else process_tree(self.pid)[1 : self.count + 1]


@contextlib.contextmanager
def running(count: int, workers: list[int]) -> Iterator[Gateway]:
    """A gateway of `count` processes from when each of them answers to the end of the block."""
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="radixway-bench-")))
        (port,) = free_ports(1)
        urls = [part for worker in workers for part in ("--worker", f"http://127.0.0.1:{worker}")]
        log = scratch / "log"
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "radixway",
                "serve",
                "--port",
                str(port),
                "--processes",
                str(count),
                *urls,
            ],
            stdin=subprocess.DEVNULL,
            stdout=stack.enter_context(log.open("wb")),
            stderr=subprocess.STDOUT,
            cwd=scratch,
            start_new_session=True,
        )
        stack.callback(stop, process)
        wait_until_it_answers(process, port, START_S, log, f"radixway with {count} processes")
        gateway = Gateway(port, process.pid, count)
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5) as answer:
                if answer.status == 200 and len(gateway.pids) == count:
                    break
            time.sleep(0.1)
        yield gateway


def measure_round(gateway: Gateway, load: Load, connections: int, requests: int, seed: int) -> Round:
    """Send `requests` over `connections`. Raises WrongAnswerError."""
    pids = gateway.pids
    before, all_before = [cpu_seconds(pid) for pid in pids], cpu_seconds(gateway.pid)
    result = load.run(Job(gateway.port, requests, connections, PROMPT_BYTES, seed=seed))
    cpu_s = [cpu_seconds(pid) - spent for pid, spent in zip(pids, before, strict=True)]
    rest_s = 0.0 if gateway.count == 1 else cpu_seconds(gateway.pid) - all_before - sum(cpu_s)
    if result.errors:
        raise WrongAnswerError(str(result.errors))
    return Round(result.ok, result.wall_s, cpu_s, max(0.0, rest_s))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", default="1,2")
    parser.add_argument("--connections", default="32,128")
    parser.add_argument("--requests", type=int, default=6000, help="of a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one round of 1,000 requests")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.quick:
        given.requests, given.rounds = 1000, 1
    counts = [int(count) for count in given.processes.split(",")]
    measured: dict[tuple[int, int], list[Round]] = {}
    load = Load()
    try:
        with contextlib.ExitStack() as stack:
            workers = stack.enter_context(fake_workers(2, 0))
            gateways = [stack.enter_context(running(count, workers)) for count in counts]
            for gateway in gateways:
                measure_round(gateway, load, 32, max(200, given.requests // 5), seed=-1)
            for seed in range(given.rounds):
                for connections in map(int, given.connections.split(",")):
                    for gateway in gateways:
                        found = measure_round(gateway, load, connections, given.requests, seed)
                        measured.setdefault((connections, gateway.count), []).append(found)
    finally:
        stop(load.process)
    rows = [
        (
            f"{connections} connections, {count}",
            *(median(rounds, name) for name in ("per_cpu_s", "capacity")),
            median(rounds, "capacity") / median(measured[connections, counts[0]], "capacity"),
            median(rounds, "busiest_share"),
            max(each.busiest_share for each in rounds),
            statistics.median(each.supervisor_cpu_s / sum(each.cpu_s) for each in rounds),
            statistics.median(each.answered / each.wall_s for each in rounds),
        )
        for (connections, count), rounds in measured.items()
    ]
    columns = (
        "processes",
        "requests/CPU-s",
        "requests/s, a core each",
        f"of {counts[0]}",
        "busiest's share",
        "worst",
        "supervisor's CPU",
        "requests/s here",
    )
    print_table(f"{given.rounds} rounds of {given.requests:,} requests of 1 KB, medians", columns, rows)
    if given.json is not None:
        names = [column.replace(" ", "_") for column in columns]
        write_json(given.json, {"rows": [dict(zip(names, row, strict=True)) for row in rows]})


def median(rounds: list[Round], name: str) -> float:
    """The median of a figure of rounds."""
    return statistics.median(getattr(each, name) for each in rounds)


if __name__ == "__main__":
    main()
