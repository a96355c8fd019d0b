"""What tracing and the log cost: CPU time of a gateway per request, side by side with one that does neither.

Gateways that differ in one setting alone stand before the same fake worker and get the same requests in turn,
in every round in another order. The figures are medians over rounds of CPU time per request, the threads that
export and write included. Spans go to a collector on this machine that reads them and says yes.

    python benchmarks/tracing.py                    about two minutes
    python benchmarks/tracing.py --rounds 15 --requests 4000 --json out.json
    python benchmarks/tracing.py --only "off again" "traced 1 %"
"""

from __future__ import annotations

import argparse
import contextlib
import random
import statistics
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from load import Job, Load
from measured_gateways import fake_workers
from processes import cpu_seconds, free_ports, running_radixway
from report import print_table, write_json

_TRACED = "RADIXWAY__TELEMETRY__TRACING__"
_QUIET = {"RADIXWAY__TELEMETRY__LOGS__REQUESTS": "false", "RADIXWAY__CHAT__ENABLED": "false"}
VARIANTS: dict[str, dict[str, str]] = {
    "neither": {},
    "off again": {},
    "traced 0 %": {f"{_TRACED}SAMPLE_RATIO": "0"},
    "traced 1 %": {f"{_TRACED}SAMPLE_RATIO": "0.01"},
    "traced 100 %": {f"{_TRACED}SAMPLE_RATIO": "1"},
    "log lines": {"RADIXWAY__TELEMETRY__LOGS__REQUESTS": "true"},
}
"""`off again` is `neither` a second time: what differs between those two is noise."""


class _Yes(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextlib.contextmanager
def collector() -> Iterator[str]:
    """A collector's URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Yes)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()


def measure(names: list[str], rounds: int, requests: int, connections: int) -> dict[str, list[float]]:
    """Microseconds of CPU per request, by variant, one figure for each round."""
    figures: dict[str, list[float]] = {name: [] for name in names}
    order = list(names)
    with contextlib.ExitStack() as stack:
        (worker,) = stack.enter_context(fake_workers(1, 0))
        url = stack.enter_context(collector())
        running: dict[str, tuple[int, int]] = {}
        for name, port in zip(names, free_ports(len(names)), strict=True):
            more = VARIANTS[name]
            env = _QUIET | more
            if any(key.startswith(_TRACED) for key in more):
                env |= {f"{_TRACED}ENDPOINT": url}
            command = ["serve", "--port", str(port), "--worker", f"http://127.0.0.1:{worker}"]
            until = f"http://127.0.0.1:{port}/ready"
            running[name] = port, stack.enter_context(running_radixway(command, env, until))
        load = Load()
        stack.callback(load.process.terminate)
        for turn in range(-1, rounds):
            random.shuffle(order)
            for name in order:
                port, pid = running[name]
                before = cpu_seconds(pid)
                result = load.run(Job(port, requests, connections, 2000, seed=turn))
                if result.errors:
                    raise SystemExit(f"{name}: {result.errors}")
                if turn >= 0:  # the first round warms up
                    figures[name].append((cpu_seconds(pid) - before) / requests * 1e6)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--only", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--json", help="where to write the figures")
    given = parser.parse_args()
    names = ["neither", *(name for name in given.only if name != "neither")]
    figures = measure(names, given.rounds, given.requests, given.connections)
    base = figures["neither"]
    rows = []
    for name, values in figures.items():
        more = statistics.median(mine - its for mine, its in zip(values, base, strict=True))
        share = statistics.median(mine / its - 1 for mine, its in zip(values, base, strict=True))
        rows.append([name, statistics.median(values), more, 100 * share])
    columns = ["gateway", "CPU µs/request", "more than neither", "%"]
    print_table(f"{given.rounds} rounds of {given.requests} requests, 2 kB each", columns, rows)
    if given.json:
        write_json(given.json, {"rounds": figures})


if __name__ == "__main__":
    sys.exit(main())
