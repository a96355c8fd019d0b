"""What one very large request costs a guarded gateway, and everybody else.

    .venv/bin/python benchmarks/guard_long.py [--quick] [--only NAME] [--json FILE]

A gateway with the guard on (a fresh one for each case) and the shipped guide's tokenizer, in front of one
fake worker, gets one request: 5,000 token ids in 14 KB, a 30 MB string (prose, and one run of a single
letter), and the longest text that the default configuration still reads. Meanwhile another client asks
`/health` again and again. Told of each case: the status, the gateway's CPU seconds, how far its resident
memory rose above what it had when idle, and the longest that the other client waited. CPU and memory may be
believed on a busy machine.
"""

from __future__ import annotations

import argparse
import http.client
import json
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import radixway.bundled
from fake_worker import MODEL
from measured_gateways import fake_workers
from processes import cpu_seconds, free_ports, running_radixway
from report import print_table, write_json

GUIDE = Path(radixway.bundled.__file__).parent / "guide"
PROSE = "The committee met again on Tuesday to discuss the budget of the library. "
WARM = b'{"model": "%b", "messages": [{"role": "user", "content": "Hello there."}]}' % MODEL.encode()
REQUEST_S = 120.0


def chat(text: str) -> tuple[str, bytes]:
    """Path and body of a chat completion."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": text}]}
    return "/v1/chat/completions", json.dumps(body).encode()


def filled(piece: str, characters: int) -> str:
    """So many characters of `piece` repeated."""
    return (piece * (characters // len(piece) + 1))[:characters]


CASES: dict[str, Callable[[], tuple[str, bytes]]] = {
    "5,000 token ids": lambda: ("/generate", json.dumps({"input_ids": [7] * 5_000}).encode()),
    "30 MB of prose": lambda: chat(filled(PROSE, 30_000_000)),
    "30 MB of one letter": lambda: chat("a" * 30_000_000),
    "30 MB in short texts": lambda: (
        "/v1/completions",
        json.dumps({"model": MODEL, "prompt": ["ab"] * 5_000_000}).encode(),
    ),
    "5 MB of prose": lambda: chat(filled(PROSE, 5_000_000)),
    "5 MB of one letter": lambda: chat("a" * 5_000_000),
    "1 MB of digits": lambda: chat(filled("1 ", 1_000_000)),
}


class Neighbour(threading.Thread):
    """Asks `/health` again and again; `longest_s` is the longest that an answer took."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._over = threading.Event()
        self.longest_s = 0.0

    def run(self) -> None:
        while not self._over.is_set():
            began = time.perf_counter()
            send(self._port, "GET", "/health")
            self.longest_s = max(self.longest_s, time.perf_counter() - began)
            self._over.wait(0.005)

    def finish(self) -> float:
        """The longest wait, the one under way included."""
        self._over.set()
        self.join()
        return self.longest_s


def send(port: int, method: str, path: str, body: bytes | None = None) -> int:
    """The answer's status; 0 where there was none in `REQUEST_S`."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REQUEST_S)
    try:
        connection.request(method, path, body, {"content-type": "application/json"})
        reply = connection.getresponse()
        reply.read()
        return reply.status
    except OSError:
        return 0
    finally:
        connection.close()


def measure(make: Callable[[], tuple[str, bytes]]) -> dict[str, float]:
    """One case, through a gateway of its own."""
    path, body = make()
    with tempfile.TemporaryDirectory() as home, fake_workers(1, 4.0) as (worker,):
        (port,) = free_ports(1)
        command = ["serve", "--port", str(port), "--worker", f"http://127.0.0.1:{worker}"]
        env = {
            "RADIXWAY_HOME": home,
            "RADIXWAY__GUARD__ENABLED": "true",
            "RADIXWAY__ROUTING__TOKENIZERS": json.dumps({MODEL: str(GUIDE)}),
        }
        with running_radixway(command, env, f"http://127.0.0.1:{port}/health") as pid:
            for _ in range(3):
                send(port, "POST", "/v1/chat/completions", WARM)
            send(port, "POST", "/generate", b'{"input_ids": [7]}')
            idle_mib = resident_mib(pid)
            Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak begins anew
            neighbour = Neighbour(port)
            neighbour.start()
            before_s = cpu_seconds(pid)
            status = send(port, "POST", path, body)
            longest_s = neighbour.finish()
            return {
                "status": status,
                "cpu_s": cpu_seconds(pid) - before_s,
                "above_idle_mib": resident_mib(pid, "VmHWM") - idle_mib,
                "longest_wait_s": longest_s,
            }


def resident_mib(pid: int, name: str = "VmRSS") -> float:
    """`VmRSS`: now. `VmHWM`: the most since the peak was begun anew."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="token ids and one string of 30 MB")
    parser.add_argument("--only", help="the cases whose name has this in it")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    names = [*CASES][:2] if given.quick else [name for name in CASES if (given.only or "") in name]
    figures = {name: measure(CASES[name]) for name in names}
    rows = [[name, *figure.values()] for name, figure in figures.items()]
    print_table("One request", ["", "status", "CPU s", "MiB above idle", "longest wait of others, s"], rows)
    if given.json is not None:
        write_json(given.json, figures)


if __name__ == "__main__":
    main()
