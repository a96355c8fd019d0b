"""What clients cost that send too much, or too slowly: memory, connections, and whether others are served.

A gateway whose tenant has a key runs on this machine without workers, once for each part. Nothing here is
timed: figures are memory (the process's own peak), counts and statuses.

    python benchmarks/hostile_clients.py            all parts; two minutes, most of them waiting
    python benchmarks/hostile_clients.py --quick    slow clients are counted after 5 s instead of 90
    PYTHONPATH=OTHER/src python benchmarks/hostile_clients.py    the same against another tree
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

KEY = "a-key-for-the-benchmark"
MIB = 2**20
BODY_CLIENTS, BODY_BYTES = 20, 30_000_000
HEADER_BYTES = 100_000_000
SLOW_CLIENTS, SLOW_S, DRIP_S = 900, 90.0, 5.0
FEW_FILES = 256
GOOD_CALLS = 20


@dataclass(slots=True)
class Gateway:
    """One that runs."""

    host: str
    port: int
    pid: int
    log: Path

    def memory_mib(self, field: str) -> float:
        """`VmRSS`, resident now, or `VmHWM`, the most so far."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) / 1024


@contextmanager
def running_gateway(files: int | None = None) -> Iterator[Gateway]:
    """A gateway that may have `files` open."""
    tree = {
        "gateway": {"port": 0},
        "tenants": {"one": {"keys": [{"key": KEY}]}},
        "chat": {"enabled": False},
    }

    def limit() -> None:
        if files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    with tempfile.TemporaryDirectory() as directory:
        path, log = Path(directory, "radixway.yaml"), Path(directory, "log")
        path.write_text(json.dumps(tree))
        command = [sys.executable, "-m", "radixway", "serve", "--config", str(path)]
        with (
            log.open("w") as errors,
            subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                preexec_fn=limit,
                env={**os.environ, "RADIXWAY_HOME": directory},
            ) as process,
        ):
            try:
                assert process.stdout is not None
                line = next(line for line in process.stdout if line.startswith("gateway http"))
                host, _, port = line.split()[1].removeprefix("http://").rpartition(":")
                yield Gateway(host, int(port), process.pid, log)
            finally:
                process.kill()


async def answer_of(reader: asyncio.StreamReader, wait_s: float | None = 20) -> str:
    """The status that came, or what came instead."""
    try:
        line = await asyncio.wait_for(reader.readline(), wait_s)
    except TimeoutError:
        return "nothing"
    except OSError as error:
        return type(error).__name__
    return line.split()[1].decode() if line.startswith(b"HTTP/1.1 ") else "closed"


async def send_body(gateway: Gateway, ended: asyncio.Event) -> tuple[str, int]:
    """A body without a key: the status, and the bytes that were taken."""
    reader, writer = await asyncio.open_connection(gateway.host, gateway.port, limit=MIB)
    answering = asyncio.create_task(answer_of(reader, None))
    taken = 0
    with closing(writer):
        with suppress(OSError, TimeoutError):
            writer.write(
                b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
                b"content-length: %d\r\n\r\n" % BODY_BYTES
            )
            while taken < BODY_BYTES - MIB and not answering.done():  # the last piece would bring the answer
                writer.write(b" " * (MIB // 4))
                await asyncio.wait_for(writer.drain(), 5)
                taken += MIB // 4
        await asyncio.wait(
            {answering, waiting := asyncio.create_task(ended.wait())}, return_when="FIRST_COMPLETED"
        )
        waiting.cancel()
        status = answering.result() if answering.done() else "nothing"
        answering.cancel()
        await ended.wait()
        return status, taken


async def measure_bodies(gateway: Gateway) -> str:
    """Clients that have sent all but the end of their bodies."""
    before = gateway.memory_mib("VmRSS")
    ended = asyncio.Event()
    tasks = [asyncio.create_task(send_body(gateway, ended)) for _ in range(BODY_CLIENTS)]
    await asyncio.wait(tasks, timeout=8)
    grown = gateway.memory_mib("VmHWM") - before
    ended.set()
    results = await asyncio.gather(*tasks)
    statuses = dict(Counter(status for status, _ in results))
    taken = sum(taken for _, taken in results) / 1e6
    return (
        f"{BODY_CLIENTS} bodies of {BODY_BYTES / 1e6:.0f} MB without a key: answered {statuses}, "
        f"{taken:.0f} MB written, +{grown:.0f} MiB resident"
    )


async def measure_headers(gateway: Gateway) -> str:
    """One header that goes on and on."""
    before = gateway.memory_mib("VmRSS")
    reader, writer = await asyncio.open_connection(gateway.host, gateway.port)
    answering = asyncio.create_task(answer_of(reader))
    sent = 0
    with suppress(OSError):
        writer.write(b"GET /v1/models HTTP/1.1\r\nhost: a\r\nauthorization: Bearer %b\r\nx: " % KEY.encode())
        while sent < HEADER_BYTES and not answering.done():
            writer.write(b"x" * 100_000)
            await writer.drain()
            sent += 100_000
        writer.write(b"\r\n\r\n")
    status = await answering
    grown = gateway.memory_mib("VmHWM") - before
    writer.close()
    size = f"a header of {HEADER_BYTES / 1e6:.0f} MB"
    return f"{size}: {status} after {sent / 1e6:.1f} MB written, +{grown:.0f} MiB resident"


async def drip(gateway: Gateway, connected: set[asyncio.StreamWriter]) -> None:
    """A head that never ends, a byte at a time."""
    with suppress(OSError):
        reader, writer = await asyncio.open_connection(gateway.host, gateway.port)
        connected.add(writer)
        try:
            writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nx: ")
            while not reader.at_eof():
                writer.write(b"x")
                await writer.drain()
                with suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(1000), DRIP_S)
        finally:
            connected.discard(writer)
            writer.close()


async def call_well(gateway: Gateway) -> str:
    """A client with a key, on a connection of its own."""
    try:
        reader, writer = await asyncio.wait_for(asyncio.open_connection(gateway.host, gateway.port), 5)
        with closing(writer):
            writer.write(b"GET /v1/models HTTP/1.1\r\nhost: a\r\nx-api-key: %b\r\n\r\n" % KEY.encode())
            return await answer_of(reader)
    except (OSError, TimeoutError) as error:
        return type(error).__name__


async def measure_slow(gateway: Gateway, wait_s: float) -> str:
    """Slow clients, and a good one among them."""
    connected: set[asyncio.StreamWriter] = set()
    tasks = [asyncio.create_task(drip(gateway, connected)) for _ in range(SLOW_CLIENTS)]
    await asyncio.sleep(3)
    early = len(connected)
    good = [await call_well(gateway) for _ in range(GOOD_CALLS)]
    await asyncio.sleep(max(0.0, wait_s - 3))
    late = len(connected)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    words = [line for line in gateway.log.read_text().splitlines() if "onnection" in line]
    return (
        f"{SLOW_CLIENTS} slow clients: {early} connected after 3 s, {late} after {wait_s:.0f} s; "
        f"a good client's {GOOD_CALLS} calls: {dict(Counter(good))}; lines of log about it: {len(words)}"
        + "".join(f"\n    {line}" for line in words[:3])
    )


def main() -> None:
    """Run all parts and print a line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="do not wait for slow clients")
    wait_s = 5.0 if parser.parse_args().quick else SLOW_S
    with running_gateway() as gateway:
        print(asyncio.run(measure_bodies(gateway)), flush=True)
    with running_gateway() as gateway:
        print(asyncio.run(measure_headers(gateway)), flush=True)
    with running_gateway() as gateway:
        print(asyncio.run(measure_slow(gateway, wait_s)), flush=True)
    with running_gateway(FEW_FILES) as gateway:
        print(f"with {FEW_FILES} files: {asyncio.run(measure_slow(gateway, 5.0))}", flush=True)


if __name__ == "__main__":
    main()
