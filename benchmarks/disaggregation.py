"""What it takes to prefill in one engine and decode in another, beside one engine that does both.

    python benchmarks/disaggregation.py [--dummy SHAPE] [--threads N] [--quick] [--json FILE]

The prefill engine is a process of its own, the decode engine is in this one; float32, greedy, random prompts.

*first token*: from asking both to the first token, beside the same engine computing the prompt itself. *KV
alone*: the prompt is cached at the prefill engine, so that nothing is left but to bring it over; one step of
the decode engine, which is in both, is taken off. Beside it what the machine can do: a copy of as many bytes
in memory, and the same bytes through a socket on loopback from one thread to another. *CPU*: of both
processes together, over that of one engine alone; and per megabyte of KV. On a busy machine only these mean
something: who waits for a core waits once for every piece. All arms run in turns; medians of several rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import multiprocessing
import socket
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from engine_speed import dummy_model, prompt
from radixway.core.config.engine import EngineConfig
from radixway.engine.engine import Engine
from radixway.engine.engine_request import BootstrapRoom
from radixway.engine.sampling_params import SamplingParams
from report import print_table, write_json
from shapes import SHAPES

PARAMS = SamplingParams(temperature=0, max_tokens=1, ignore_eos=True)
ROOMS = itertools.count(1)
WAYS = {"shared memory": "auto", "TCP": "tcp"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dummy", choices=SHAPES, default="40m", help="random weights of this Llama shape")
    parser.add_argument("--threads", type=int, default=1, help="of each engine")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and prompts")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    lengths, rounds = ((512, 2048), 3) if given.quick else ((256, 1024, 2048, 3072), 7)
    with tempfile.TemporaryDirectory() as folder:
        model = str(dummy_model(given.dummy, Path(folder)))
        with prefill_process(model, given.threads) as prefill, decode_engines(model, given.threads) as ways:
            figures = asyncio.run(measure(prefill, ways, lengths, rounds))
    show(figures, f"{given.dummy}, float32, {given.threads} thread(s) each")
    if given.json:
        write_json(given.json, {str(length): arms for length, arms in figures.items()})


@dataclass(slots=True)
class Prefill:
    """The prefill engine, over there."""

    pipe: Connection
    port: int

    def begin(self, ids: Sequence[int], room: BootstrapRoom | None) -> None:
        self.pipe.send((ids, room))

    async def cpu_seconds(self) -> float:
        """What it took to its own first token, and until all its KV was sent."""
        return await asyncio.to_thread(self.pipe.recv)

    async def flush(self) -> None:
        self.pipe.send(None)
        while not await asyncio.to_thread(self.pipe.recv):
            self.pipe.send(None)


async def measure(
    prefill: Prefill, ways: dict[str, Engine], lengths: Sequence[int], rounds: int
) -> dict[int, dict[str, float]]:
    """Seconds of every arm, and the bytes of KV, by the length of the prompt."""
    vocabulary = ways["TCP"].model_info.vocab_size
    figures: dict[int, dict[str, float]] = {}
    for length in lengths:
        arms: dict[str, list[float]] = defaultdict(list)
        for number in range(rounds + 1):  # the first warms up
            ids = prompt(vocabulary, length, 1000 * length + number)
            for arm, seconds in (await one_round(prefill, ways, ids)).items():
                if number:
                    arms[arm].append(seconds)
        figures[length] = {arm: statistics.median(seconds) for arm, seconds in arms.items()}
    return figures


async def one_round(prefill: Prefill, ways: dict[str, Engine], ids: Sequence[int]) -> dict[str, float]:
    """Every arm once, with this prompt."""
    found = {}
    alone = ways["TCP"]
    for arm in ("here", "one step"):
        started = time.process_time()
        found[arm] = await first_token(alone, ids)
        found[f"{arm}, CPU"] = time.process_time() - started
    await flush(alone)
    for way, engine in ways.items():
        await prefill.flush()
        for arm in ("first token", "KV alone"):
            before = engine.stats().transfers
            room = BootstrapRoom("127.0.0.1", prefill.port, next(ROOMS))
            prefill.begin(ids, room)
            started = time.process_time()
            found[f"{arm}, {way}"] = await first_token(engine, ids, room)
            found[f"{arm}, {way}, CPU"] = time.process_time() - started + await prefill.cpu_seconds()
            after = engine.stats().transfers
            assert before is not None and after is not None and after.whole == before.whole + 1
            found["bytes"] = after.size_bytes - before.size_bytes
            await flush(engine)
    found |= {"a copy in memory": copy_s(int(found["bytes"])), "a socket": socket_s(int(found["bytes"]))}
    return found


async def first_token(engine: Engine, ids: Sequence[int], room: BootstrapRoom | None = None) -> float:
    """Seconds from asking to the first token."""
    start = time.perf_counter()
    generation = engine.submit_request(ids, PARAMS, room=room)
    await anext(generation)
    return time.perf_counter() - start


async def flush(engine: Engine) -> None:
    while not await asyncio.to_thread(engine.flush_cache):
        pass


def copy_s(size: int) -> float:
    """Seconds to copy so many bytes."""
    source, target = np.ones(size, np.uint8), np.ones(size, np.uint8)
    start = time.perf_counter()
    target[:] = source
    return time.perf_counter() - start


def socket_s(size: int) -> float:
    """Seconds to bring so many bytes through a connection on loopback."""
    source, target = bytearray(size), memoryview(bytearray(size))
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as sender,
        server.accept()[0] as receiver,
    ):
        sending = threading.Thread(target=sender.sendall, args=(source,))
        start = time.perf_counter()
        sending.start()
        while target:
            target = target[receiver.recv_into(target) :]
        seconds = time.perf_counter() - start
        sending.join()
    return seconds


def show(figures: dict[int, dict[str, float]], title: str) -> None:
    columns = ["first token, ms", "here", *WAYS, "ratio", "ratio TCP", "CPU ratio", "CPU ratio TCP"]
    rows: list[list[str | float]] = []
    for length, f in figures.items():
        remote = [f[f"first token, {way}"] for way in WAYS]
        ratios = [seconds / f["here"] for seconds in remote]
        cpu = [f[f"first token, {way}, CPU"] / f["here, CPU"] for way in WAYS]
        rows.append([f"{length} tokens", *(1e3 * s for s in (f["here"], *remote)), *ratios, *cpu])
    print_table(title, columns, rows)
    columns = ["KV alone, MB/s", "MB", *WAYS, "a copy in memory", "a socket", "CPU ms/MB", "and TCP"]
    rows = []
    for length, f in figures.items():
        times = [f[f"KV alone, {way}"] - f["one step"] for way in WAYS]
        speeds = [f["bytes"] / 1e6 / s for s in (*times, f["a copy in memory"], f["a socket"])]
        steps = 2 * f["one step, CPU"]  # one in either engine
        cpu = [(f[f"KV alone, {way}, CPU"] - steps) / f["bytes"] * 1e9 for way in WAYS]
        rows.append([f"{length} tokens", f["bytes"] / 1e6, *speeds, *cpu])
    print_table(title, columns, rows)


def engine_of(model: str, threads: int, mode: str, transfer: str = "auto") -> Engine:
    """A running engine."""
    config = EngineConfig(
        model=model,
        dtype="float32",
        threads=threads,
        kv_tokens=16384,
        disaggregation_mode=mode,
        disaggregation_bootstrap_port=0,
        disaggregation_transfer=transfer,
    )
    engine = Engine(config)
    engine.start()
    return engine


@contextmanager
def decode_engines(model: str, threads: int) -> Iterator[dict[str, Engine]]:
    """One for each way that KV can come."""
    engines = {way: engine_of(model, threads, "decode", transfer) for way, transfer in WAYS.items()}
    try:
        yield engines
    finally:
        for engine in engines.values():
            engine.stop()


@contextmanager
def prefill_process(model: str, threads: int) -> Iterator[Prefill]:
    """A prefill engine in a process of its own."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve_prefills, args=(there, model, threads))
    process.start()
    try:
        yield Prefill(here, here.recv())
    finally:
        here.send("stop")
        process.join()


def serve_prefills(pipe: Connection, model: str, threads: int) -> None:
    """In that process: prefill what comes through the pipe (None: drop what is cached) until told to stop."""
    engine = engine_of(model, threads, "prefill")
    pipe.send(engine.bootstrap_port)

    async def serve() -> None:
        while (asked := await asyncio.to_thread(pipe.recv)) != "stop":
            if asked is None:
                pipe.send(await asyncio.to_thread(engine.flush_cache))
            else:
                ids, room = asked
                started = time.process_time()
                await first_token(engine, ids, room)
                while engine.stats().departing:  # noqa: ASYNC110 - nothing tells of it
                    await asyncio.sleep(0.001)
                pipe.send(time.process_time() - started)

    asyncio.run(serve())
    engine.stop()


if __name__ == "__main__":
    main()
