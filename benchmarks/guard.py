"""What it costs to guard a request: in process, and through a gateway beside one that only routes.

    .venv/bin/python benchmarks/guard.py [--quick] [--rounds N] [--json FILE]

In process, on one core: milliseconds from a request's text to what both guards found in it, at 12, 90 and 256
word pieces, with a long document in windows at 16,000. `pass` is the encoder's one pass over the text, which
the semantic layer reads too; `guard` all that both guards take, the pass included; `beyond` what they take
where somebody else has asked for the pass already; `fast` the guard with `long_texts.reading: fast`, for the
longest. No two texts are alike, so nothing is known from before.

Through gateways, each pinned to one core in front of one fake worker: CPU time per request of one that only
routes, and of one that reports personal data and attacks as well. Both get the same questions, in turns.

Aims: p50 3 ms at 12 tokens, 10 ms at 90, 400 ms at 16,000, for one quiet core.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from environments import PEERS_DIR
from fake_worker import MODEL
from load import Load
from measured_gateways import fake_workers, running
from peers import RADIXWAY
from processes import process_tree, stop
from radixway.core.config import EncodersConfig
from radixway.semantics.encoders import EncoderService, encode_once, start_service
from radixway.semantics.guard.jailbreak import build_attack_judge
from radixway.semantics.guard.passages import TextPassage
from radixway.semantics.guard.pii.finder import DefaultPersonalDataFinder
from radixway.semantics.guard.pii.pii_head import LAYERS
from report import print_table, write_json
from semantic import send
from semantic_texts import question

LENGTHS = (12, 90, 256, 16_000)
LONG = 4_000
"""From so many tokens on, a tenth of the texts are enough."""


# ---------------------------------------------------------------- in process


def inside(count: int) -> dict[str, dict[str, float]]:
    """Row → milliseconds."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return asyncio.run(_inside(count))


async def _inside(count: int) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory() as home:
        service = start_service(EncodersConfig(home=Path(home)))
        try:
            finder, judge = DefaultPersonalDataFinder(service), build_attack_judge(service)
            fast_finder, fast_judge = (
                DefaultPersonalDataFinder(service, in_part_from=LONG),
                build_attack_judge(service, in_part_from=LONG),
            )

            async def guard(text: str) -> None:
                await asyncio.gather(
                    finder.find(text), judge.judge_passages([TextPassage(text, "user", ("text",))])
                )

            async def fast(text: str) -> None:
                await asyncio.gather(
                    fast_finder.find(text), fast_judge.judge_passages([TextPassage(text, "user", ("text",))])
                )

            async def encode(text: str) -> None:
                await service.encode(text, layers=LAYERS)

            rng = random.Random(0)
            figures: dict[str, dict[str, float]] = {}
            for tokens in LENGTHS:
                texts = [
                    question(tokens, rng) for _ in range(count if tokens < LONG else max(count // 10, 5))
                ]
                for name, before, timed in (
                    ("pass", None, encode),
                    ("guard", None, guard),
                    ("beyond", encode, guard),
                    ("fast", None, fast),
                ):
                    if name == "fast" and tokens < LONG:
                        continue
                    figures[f"{name}, {tokens} tokens"] = await _timed(service, texts, before, timed)
            return figures
        finally:
            await service.aclose()


Reads = Callable[[str], Awaitable[None]]


async def _timed(
    service: EncoderService, texts: Sequence[str], before: Reads | None, timed: Reads
) -> dict[str, float]:
    """Of `timed`, as a request does it that has done `before` already."""
    wall, cpu = [], []
    for number, text in enumerate((*texts[:3], *texts)):  # the first three are for warmth
        with encode_once(service, LAYERS):
            if before is not None:
                await before(text)
            began, began_cpu = time.perf_counter(), time.process_time()
            await timed(text)
            took = time.perf_counter() - began, time.process_time() - began_cpu
        if number >= 3:
            wall.append(took[0] * 1e3)
            cpu.append(took[1] * 1e3)
    return {
        "p50": statistics.median(wall),
        "p99": statistics.quantiles(wall, n=100)[98],
        "cpu_p50": statistics.median(cpu),
    }


# ---------------------------------------------------------------- through gateways


def through_gateway(count: int, rounds: int) -> dict[str, dict[str, float]]:
    """CPU-ms per request of both gateways, by length of the question, and the median difference."""
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="radixway-bench-")))
        guards = {"RADIXWAY__GUARD__ENABLED": "true", "RADIXWAY_HOME": str(scratch / "home")}
        targets = [replace(RADIXWAY, name="routes"), replace(RADIXWAY, name="guards", env=guards)]
        workers = stack.enter_context(fake_workers(1, 4.0))
        load = Load()
        stack.callback(stop, load.process)
        gateways = [stack.enter_context(running(target, workers, PEERS_DIR)) for target in targets]
        for gateway in gateways:
            for process in process_tree(gateway.pid or 0):
                os.sched_setaffinity(process, {min(os.sched_getaffinity(0))})
        added: dict[str, dict[str, float]] = {}
        for tokens in LENGTHS[:3]:
            costs: dict[str, list[float]] = {"routes": [], "guards": []}
            for number in range(-1, rounds):  # the first is for warmth
                rng = random.Random(number)
                texts = [question(tokens, rng) for _ in range(count if number >= 0 else 10)]
                for gateway in gateways:
                    cpu_s, _ = send(gateway, load, scratch / "bodies", texts, MODEL, 4)
                    if number >= 0:
                        costs[gateway.name].append(cpu_s / len(texts) * 1e3)
            both = zip(costs["guards"], costs["routes"], strict=True)
            added[f"{tokens} tokens"] = {name: statistics.median(each) for name, each in costs.items()} | {
                "added": statistics.median(one - other for one, other in both)
            }
        return added


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer texts, two rounds")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rounds = given.rounds or (2 if given.quick else 5)
    through = through_gateway(60 if given.quick else 200, rounds)
    alone = inside(60 if given.quick else 300)
    rows: list[list[Any]] = [[name, *each.values()] for name, each in alone.items()]
    print_table("From text to findings, ms, one core", ["", "p50", "p99", "CPU p50"], rows)
    rows = [[name, *each.values()] for name, each in through.items()]
    print_table("CPU-ms per request through a gateway", ["", "routes", "guards", "added"], rows)
    if given.json is not None:
        write_json(given.json, {"inside": alone, "added": through})


if __name__ == "__main__":
    main()
