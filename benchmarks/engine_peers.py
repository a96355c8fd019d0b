"""The same weights served by us, by `transformers serve` and by llama-cpp-python: rates and first tokens.

    python benchmarks/engine_peers.py                        both peers, installed on first use
    python benchmarks/engine_peers.py --quick                the model of 40M once; within eight minutes
    python benchmarks/engine_peers.py --peers transformers --models 5m --json out.json

Each server is a process of its own with one thread; all compute in float32 on weights drawn at random, which
must first give the same greedy answers. They get the five workloads of `workloads.py` in turns, as streamed
`/v1/completions` over HTTP, at most `--at-once` requests open at a time. Every round has tokens of its own,
so that each server starts a workload knowing nothing of it, and may keep what it can.

*CPU s* is the time of the server's process tree, which other processes on the machine hardly disturb; rates
and ratios are by it. First tokens are by wall clock, from sending the request to its first text.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import signal
import sys
import tempfile
from pathlib import Path
from statistics import median

from engine_client import Run, WrongAnswerError, run
from engine_model import FIRST, write_model
from engine_servers import ENGINES, KV_TOKENS, RADIXWAY, Server, running
from environments import PEERS_DIR, PeerUnavailableError
from report import print_table, write_json
from shapes import SHAPES
from workloads import PUBLISHED, Ask, workload

WORKLOADS = (*PUBLISHED, "nothing_shared")
QUICK = {"multi_turn": 4, "few_shot": 16, "same_prompt": 16, "shared_2000": 64}  # requests, or chats
Figures = dict[str, float]


def main() -> int:
    names = [engine.name for engine in ENGINES]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", help=f"of {', '.join(SHAPES)}; by default 40m,135m, with --quick 40m")
    parser.add_argument("--peers", default=",".join(names), help="which of them beside us, in any order")
    parser.add_argument("--workloads", help=f"of {', '.join(WORKLOADS)}; --quick leaves out the last")
    parser.add_argument("--rounds", type=int, help="by default 3, with --quick 1")
    parser.add_argument("--at-once", type=int, default=16, help="most requests open at a time, everywhere")
    parser.add_argument("--quick", action="store_true", help="one round, half of the requests or more")
    parser.add_argument("--peers-dir", type=Path, default=PEERS_DIR)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    models = (given.models or ("40m" if given.quick else "40m,135m")).split(",")
    works = given.workloads.split(",") if given.workloads else [*(PUBLISHED if given.quick else WORKLOADS)]
    peers = given.peers.split(",")
    for chosen, known in ((models, SHAPES), (peers, names), (works, WORKLOADS)):
        if unknown := set(chosen) - set(known):
            parser.error(f"{', '.join(sorted(unknown))}: not among {', '.join(known)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    documents, missing = {}, []
    for model in models:
        documents[model] = measure(model, given, {RADIXWAY.name, *peers}, works, missing)
    for line in missing:
        print(f"not measured: {line}")
    if given.json:
        write_json(given.json, {"models": documents, "not_measured": missing})
    return 1 if missing else 0


def measure(
    shape: str, given: argparse.Namespace, names: set[str], works: list[str], missing: list[str]
) -> dict[str, object]:
    """Measure one model with all servers and print its tables; who drops out is added to `missing`."""
    rounds = given.rounds or (1 if given.quick else 3)
    runs: dict[str, dict[str, list[Run]]] = {}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="radixway-bench-")))
        model = write_model(shape, folder)
        servers: list[Server] = []
        for engine in ENGINES:
            if engine.name in names:
                try:
                    starting = running(engine, model, kv_bytes(shape), given.at_once, given.peers_dir)
                    servers.append(stack.enter_context(starting))
                except PeerUnavailableError as reason:
                    missing.append(f"{shape}, {engine.name}: {reason}")
        agreement = same_answers(shape, servers)
        for seed in range(rounds):
            for name in works:
                requests = QUICK.get(name) if given.quick else None
                take_turns(shape, servers, name, requests, seed, given.at_once, runs)
        missing += [f"{shape}, {server.name}: {server.fault}" for server in servers if server.fault]
        servers = [server for server in servers if not server.fault]
    figures = {
        name: {server.name: figures_of(runs[name][server.name]) for server in servers} for name in works
    }
    show(f"{shape} float32, at most {given.at_once} requests at once, {rounds} round(s)", figures, servers)
    for name, agreed in agreement.items():
        print(f"Greedy answers, {name}: {agreed:.0%} of the tokens are ours")
    return {"rounds": rounds, "at_once": given.at_once, "agreement": agreement, "workloads": figures}


def kv_bytes(shape: str) -> int:
    """What `KV_TOKENS` take in float32."""
    hidden, _, layers, heads, kv_heads, _ = SHAPES[shape]
    return KV_TOKENS * layers * 2 * kv_heads * (hidden // heads) * 4


def same_answers(shape: str, servers: list[Server], prompts: int = 8) -> dict[str, float]:
    """The share of greedy tokens that each server has in common with ours, up to the first difference.

    A server that begins one of the answers with another token computes another model: it drops out.
    """
    draw = random.Random(0)
    asks = [Ask([draw.randrange(FIRST, SHAPES[shape][-1]) for _ in range(96)], 16) for _ in range(prompts)]
    answers: dict[str, list[list[int]]] = {}
    for server in servers:
        try:
            found = {id(answer.ask): answer.tokens for answer in run(server, asks, 1).answers}
            answers[server.name] = [found[id(ask)] for ask in asks]
        except WrongAnswerError as fault:
            server.fault = str(fault)
    ours = answers.get(RADIXWAY.name)
    agreement = {}
    for server in servers:
        if ours and server.name in answers and server.name != RADIXWAY.name:
            common = [common_prefix(*pair) for pair in zip(answers[server.name], ours, strict=True)]
            agreement[server.name] = sum(common) / sum(map(len, ours))
            if 0 in common:
                server.fault = "its greedy answers begin with other tokens than ours"
    return agreement


def common_prefix(one: list[int], other: list[int]) -> int:
    """How many tokens two answers have in common before they differ."""
    return next((at for at, pair in enumerate(zip(one, other, strict=True)) if len(set(pair)) > 1), len(one))


def take_turns(
    shape: str,
    servers: list[Server],
    name: str,
    requests: int | None,
    seed: int,
    at_once: int,
    runs: dict[str, dict[str, list[Run]]],
) -> None:
    """One round of a workload: every server, in an order that changes from round to round."""
    order = servers[seed % len(servers) :] + servers[: seed % len(servers)]
    for server in order:
        if server.fault is None:
            try:
                done = run(server, workload(name, SHAPES[shape][-1], requests=requests, seed=seed), at_once)
                runs.setdefault(name, {}).setdefault(server.name, []).append(done)
                figures = f"{done.cpu_s:.1f} CPU s, {done.wall_s:.1f} s"
                print(f"{shape} {name}, {server.name}: {figures}", flush=True)
            except WrongAnswerError as fault:
                server.fault = f"{name}: {fault}"


def figures_of(runs: list[Run]) -> Figures:
    """What is printed of one server and workload, by name: medians over the rounds."""
    cpu, wall = median(run.cpu_s for run in runs), median(run.wall_s for run in runs)
    prompt, answer = (median(getattr(run, f"{part}_tokens") for run in runs) for part in ("prompt", "answer"))
    waits = sorted(answer.first_s for run in runs for answer in run.answers)
    return {
        "cpu_s": cpu,
        "wall_s": wall,
        "cpu_spread": (max(run.cpu_s for run in runs) - min(run.cpu_s for run in runs)) / cpu,
        "prompt_tokens": prompt,
        "answer_tokens": answer,
        "answer_tokens_per_cpu_s": answer / cpu,
        "prompt_tokens_per_cpu_s": prompt / cpu,
        "answer_tokens_per_s": answer / wall,
        "prompt_tokens_per_s": prompt / wall,
        "ttft_p50_s": median(waits),
        "ttft_p95_s": waits[int(0.95 * (len(waits) - 1))],
    }


def show(title: str, figures: dict[str, dict[str, Figures]], servers: list[Server]) -> None:
    """Print what was measured, then each peer's time in ratio to ours."""
    keys = {
        "CPU s": "cpu_s",
        "wall s": "wall_s",
        "answer tok/s": "answer_tokens_per_cpu_s",
        "prompt tok/s": "prompt_tokens_per_cpu_s",
        "first token p50 s": "ttft_p50_s",
        "p95 s": "ttft_p95_s",
    }
    rows = [
        [f"{name}, {server}", *(found[key] for key in keys.values())]
        for name, by_server in figures.items()
        for server, found in by_server.items()
    ]
    print_table(f"{title}; tokens per CPU second", ["", *keys], rows)
    times = {"throughput": "cpu_s", "by wall": "wall_s", "first token p50": "ttft_p50_s", "p95": "ttft_p95_s"}
    ratios = [
        [f"{name}, {peer}", *(found[key] / by_server[RADIXWAY.name][key] for key in times.values())]
        for name, by_server in figures.items()
        if RADIXWAY.name in by_server
        for peer, found in by_server.items()
        if peer != RADIXWAY.name
    ]
    if ratios:
        print_table("How many times faster we are; under 1 is slower", ["", *times], ratios)
    for server in servers:
        if server.engine.note:
            print(f"{server.name} {server.engine.note}.")


if __name__ == "__main__":
    sys.exit(main())
