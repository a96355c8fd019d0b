"""What it costs to read what a request means: in process, and through a gateway beside one that only routes.

    .venv/bin/python benchmarks/semantic.py [--quick] [--rounds N] [--json FILE]

Signals: one process on one core. Milliseconds of the clock and of CPU time (all threads) from a request's
text to its verdict: by a keyword among 5,000 and six patterns, which needs no encoder; and with every kind of
signal, at 12, 90 and 256 word pieces.

The request path: two gateways in front of one fake worker, each pinned to one core. One only routes; the
other reads requests for `auto`: all signals, choice of a model, thinking, system prompt. Both get the same
questions, no two alike, in turns; what reading adds is the difference of their CPU time per request. A third
gateway has the semantic cache as well and is asked again what it was asked before, in the same words and in
others; the time is from sending a request to the first byte of its answer over one connection.

Aims: a keyword's decision under 0.3 ms; all signals p50 3 ms at 12 tokens, 10 ms at 90, p99 50 ms at 256; a
hit of the cache under 5 ms; under 10 CPU-ms added at the median. They are for one quiet core.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from environments import PEERS_DIR
from fake_worker import MODEL
from load import Job, Load
from measured_gateways import Gateway, WrongAnswerError, fake_workers, running
from peers import RADIXWAY
from processes import cpu_seconds, process_tree, stop
from radixway.core.config import EncodersConfig
from radixway.core.config.semantic import CATEGORIES, SemanticConfig
from radixway.semantics.decisions import (
    MissingSignals,
    RequestQuestion,
    SemanticSnapshot,
    SignalReader,
    compile_snapshot,
)
from radixway.semantics.decisions.snapshot import KINDS
from radixway.semantics.decisions.verdict import judge_signals
from radixway.semantics.encoders import start_service
from radixway.semantics.encoders.heads import DOMAIN_HEAD, DomainHead
from radixway.semantics.signals.base import SignalSet
from report import print_table, write_json
from semantic_texts import question

LENGTHS = (12, 90, 256)
KEYWORDS = [f"term{number:04}" for number in range(5000)]
MUST_HIT = Path(__file__).parents[1] / "tools" / "evaluation" / "data" / "cache_must_hit.txt"


def configuration() -> dict[str, Any]:
    """Every kind of signal, fourteen categories, all of them answered by the fake worker's model."""
    return {
        "default_model": MODEL,
        "shipped_prompts": True,
        "keyword_rules": [{"category": "law", "keywords": KEYWORDS, "operator": "OR"}],
        "regex_rules": [
            {"name": f"pattern-{number}", "pattern": rf"\bcode-{number}-\d+\b", "action": "log"}
            for number in range(6)
        ],
        "embedding_rules": [
            {"category": "psychology", "candidates": ["Why do I put things off?", "I cannot sleep for worry"]}
        ],
        "signals": {
            "headers": [{"name": "beta", "header": "x-beta"}],
            "context": [{"name": "long", "min_tokens": "4K"}],
            "complexity": [
                {
                    "name": "proofs",
                    "hard": {"candidates": ["Prove that there are infinitely many primes"]},
                    "easy": {"candidates": ["What is two plus two?"]},
                }
            ],
        },
        "categories": [
            {"name": name, "model_scores": [{"model": MODEL, "score": 1.0, "use_reasoning": False}]}
            for name in CATEGORIES
        ],
    }


# ---------------------------------------------------------------- in process


def signals(count: int) -> dict[str, dict[str, float]]:
    """Row → milliseconds."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return asyncio.run(_signals(count))


async def _signals(count: int) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory() as home:
        service = start_service(EncodersConfig(home=Path(home)))
        try:
            head = DomainHead.load_file(DOMAIN_HEAD, await service.wait_until_ready())
            section = SemanticConfig.model_validate(configuration())
            snapshot = await compile_snapshot(section, service.encode, head)
            reader = SignalReader(service.encode)
            rng = random.Random(0)
            worded = [
                question(12, rng).replace("?", f" {rng.choice(KEYWORDS)} {KEYWORDS[0]}?")
                for _ in range(count)
            ]
            figures = {
                "keyword decides": await _timed(
                    reader, snapshot, worded, lambda read: judge_signals(snapshot.rules, read), {"keyword"}
                )
            }
            for tokens in LENGTHS:
                texts = [question(tokens, rng) for _ in range(count)]
                every = set(KINDS)
                figures[f"all signals, {tokens} tokens"] = await _timed(
                    reader, snapshot, texts, _demand_all, every
                )
            return figures
        finally:
            await service.aclose()


def _demand_all(read: SignalSet) -> MissingSignals | str:
    """A judge that is content when every kind was read."""
    missing = frozenset(kind for kind in KINDS if not read.has_kind(kind))
    return MissingSignals(missing) if missing else "all"


async def _timed(
    reader: SignalReader,
    snapshot: SemanticSnapshot,
    texts: Sequence[str],
    judged: Callable[[SignalSet], Any],
    kinds: set[str],
) -> dict[str, float]:
    wall, cpu = [], []
    for number, text in enumerate((*texts[:3], *texts)):  # the first three are for warmth
        began, began_cpu = time.perf_counter(), time.process_time()
        read, _, failed = await reader.read_signals(snapshot, RequestQuestion(text, text), judged)
        took = time.perf_counter() - began, time.process_time() - began_cpu
        if failed or not kinds <= read.latencies_s.keys():
            raise SystemExit(f"not every signal was read: {failed or sorted(read.latencies_s)}")
        if number >= 3:
            wall.append(took[0] * 1e3)
            cpu.append(took[1] * 1e3)
    at = statistics.quantiles(wall, n=100)
    return {
        "p50": statistics.median(wall),
        "p99": at[98],
        "cpu_p50": statistics.median(cpu),
        "cpu_p99": statistics.quantiles(cpu, n=100)[98],
    }


# ---------------------------------------------------------------- through gateways


def through_gateway(count: int, rounds: int) -> dict[str, Any]:
    """What reading adds to a request, and what a hit of the cache takes."""
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="radixway-bench-")))
        file = scratch / "semantic.yaml"
        file.write_text(yaml.safe_dump(configuration()))
        reads = {"RADIXWAY__SEMANTIC__CONFIG": str(file), "RADIXWAY__SEMANTIC__WATCH": "false"}
        targets = [
            replace(RADIXWAY, name="routes"),
            replace(RADIXWAY, name="reads", env=reads),
            replace(RADIXWAY, name="caches", env=reads | {"RADIXWAY__SEMANTIC_CACHE__ENABLED": "true"}),
        ]
        workers = stack.enter_context(fake_workers(1, 4.0))
        load = Load()
        stack.callback(stop, load.process)
        gateways = [stack.enter_context(running(target, workers, PEERS_DIR)) for target in targets]
        for gateway in gateways:
            for process in process_tree(gateway.pid or 0):
                os.sched_setaffinity(process, {min(os.sched_getaffinity(0))})
        bodies = scratch / "bodies"
        added = {
            str(tokens): _added(gateways[0], gateways[1], load, bodies, tokens, count, rounds)
            for tokens in LENGTHS
        }
        return {"added": added, "hits": _hits(gateways[2], load, bodies, rounds)}


def _added(
    routes: Gateway, reads: Gateway, load: Load, bodies: Path, tokens: int, count: int, rounds: int
) -> dict[str, float]:
    """CPU-ms per request of both, and the median difference."""
    costs: dict[str, list[float]] = {"routes": [], "reads": []}
    for number in range(-1, rounds):  # the first is for warmth
        rng = random.Random(number)
        texts = [question(tokens, rng) for _ in range(count if number >= 0 else 10)]
        for gateway, model in ((routes, MODEL), (reads, "auto")):
            cpu_s, _ = send(gateway, load, bodies, texts, model, 4)
            if number >= 0:
                costs[gateway.name].append(cpu_s / len(texts) * 1e3)
    differences = [one - other for one, other in zip(costs["reads"], costs["routes"], strict=True)]
    return {name: statistics.median(each) for name, each in costs.items()} | {
        "added": statistics.median(differences)
    }


def _hits(gateway: Gateway, load: Load, bodies: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Milliseconds to the first byte: of a miss, of the same question again, of one in other words."""
    pairs = list(_must_hit())
    send(gateway, load, bodies, [one for one, _ in pairs[:5]], "auto", 1)  # for warmth
    _purge(gateway)
    told: dict[str, list[float]] = {"miss": [], "same words": [], "other words": []}
    counted: dict[str, float] = dict.fromkeys(told, 0.0)
    for _ in range(rounds):
        _purge(gateway)
        for name, texts in (
            ("miss", list(dict.fromkeys(one for one, _ in pairs))),
            ("same words", [one for one, _ in pairs]),
            ("other words", [other for _, other in pairs]),
        ):
            before = _count_of_hits(gateway)
            _, first_byte_s = send(gateway, load, bodies, texts, "auto", 1)
            counted[name] += (_count_of_hits(gateway) - before) / len(texts) / rounds
            told[name] += first_byte_s
    return {
        name: {
            "p50": statistics.median(each) * 1e3,
            "p90": statistics.quantiles(each, n=10)[8] * 1e3,
            "hit_share": counted[name],
        }
        for name, each in told.items()
    }


def _must_hit() -> Iterator[tuple[str, str]]:
    for line in MUST_HIT.read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            one, _, other = line.partition(" | ")
            yield one, other


def send(
    gateway: Gateway, load: Load, bodies: Path, texts: Sequence[str], model: str, connections: int
) -> tuple[float, list[float]]:
    """The CPU seconds of the gateway, and seconds to each first byte. Raises WrongAnswerError."""
    lines = [json.dumps({"model": model, "messages": [{"role": "user", "content": text}]}) for text in texts]
    bodies.write_text("\n".join(lines))
    before = cpu_seconds(gateway.pid or 0)
    result = load.run(Job(gateway.port, len(texts), connections, 0, bodies_file=str(bodies)))
    if result.errors:
        raise WrongAnswerError(f"{gateway.name}: {next(iter(result.errors))}")
    return cpu_seconds(gateway.pid or 0) - before, result.first_byte_s


def _count_of_hits(gateway: Gateway) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{gateway.port}/cache/stats", timeout=30) as reply:
        return int(json.load(reply)["counts"].get("hits", 0))


def _purge(gateway: Gateway) -> None:
    asked = urllib.request.Request(f"http://127.0.0.1:{gateway.port}/cache/flush", b"{}")
    with urllib.request.urlopen(asked, timeout=30):
        pass


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
    inside = signals(60 if given.quick else 300)
    rows = [
        [name, each["p50"], each["p99"], each["cpu_p50"], each["cpu_p99"]] for name, each in inside.items()
    ]
    print_table("From text to verdict, ms, one core", ["", "p50", "p99", "CPU p50", "CPU p99"], rows)
    rows = [[f"{tokens} tokens", *each.values()] for tokens, each in through["added"].items()]
    print_table("CPU-ms per request through a gateway", ["", "routes", "reads", "added"], rows)
    rows = [
        [name, each["p50"], each["p90"], 100 * each["hit_share"]] for name, each in through["hits"].items()
    ]
    print_table("The cache: ms to the first byte", ["", "p50", "p90", "hits %"], rows)
    if given.json is not None:
        write_json(given.json, {"signals": inside, **through})


if __name__ == "__main__":
    main()
