"""What each policy gives on real engines: two of them behind the gateway, chats of several turns.

    python benchmarks/routing_live.py [--engine embedded|vllm] [--policies a,b] [--hold-s S] [--at-once N]
                                      [--rounds N] [--quick] [--json FILE]

Every arm is a gateway of its own with one policy; the engines stay and their caches are emptied before each.
24 chats of 5 turns (with --quick 16 of 4), six system prompts of 128 tokens among them, 160 asked and 16
answered a turn, in streams, at most `--at-once` open at a time, of which an engine runs 8; the chats come in
an order that is drawn anew for every round, the same for all policies. Each engine's cache holds half of all
that is said, so it matters where a chat goes. One thread for each engine. `--engine vllm` takes vLLM's CPU
build in place of the embedded engine; its first run installs that into a folder of its own (4 GB).

*hits* are the prompt tokens that the engines say they had cached; *possible*, those of one cache that never
forgets. Time to first token is by the clock on the wall, through the gateway; *beside round robin* is round
robin's over the policy's, both of the same round, the median of the rounds (above 1: sooner); *beside the
best* is the lowest mean of all policies over this one's (1: it is the best).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean, median
from typing import Any

import aiohttp

from engine_model import text_of, tokens_of, write_model
from processes import START_S, free_ports, running_radixway
from report import print_table, write_json
from workloads import Limit

POLICIES = (
    "round_robin",
    "random",
    "least_loaded",
    "power_of_two",
    "session",
    "prefix_affinity",
    "kv_aware:overlap_weight=1",
    "kv_aware:overlap_weight=8",
    "expected_time",
)
ENGINES = 2
AT_ONCE = 8
MODEL = "bench"


@dataclass(frozen=True, slots=True)
class Shape:
    """How much is said."""

    chats: int = 24
    turns: int = 5
    systems: int = 6
    system: int = 128
    asked: int = 160
    answered: int = 16

    @property
    def kv_tokens(self) -> int:
        """Of each engine: half of all that is said, in whole pages, and room for what is running."""
        said = self.systems * self.system + self.chats * self.turns * (self.asked + self.answered)
        longest = self.system + self.turns * (self.asked + self.answered)
        return (said // 2 + AT_ONCE // ENGINES * longest) // 16 * 16


@dataclass(slots=True)
class Run:
    """One policy, once."""

    first_s: list[float] = field(default_factory=list)
    prompt_tokens: int = 0
    cached_tokens: int = 0
    requests: dict[str, int] = field(default_factory=dict)

    @property
    def hit_rate(self) -> float:
        return self.cached_tokens / self.prompt_tokens

    @property
    def imbalance(self) -> float:
        """Requests of the busiest engine over the mean."""
        return max(self.requests.values()) * ENGINES / sum(self.requests.values())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--policies", default=",".join(POLICIES), help="round_robin is added for comparison")
    parser.add_argument("--engine", choices=sorted(ENGINE_KINDS), default="embedded")
    parser.add_argument("--hold-s", type=float, help="routing.queue.hold_s of the gateways")
    parser.add_argument("--rounds", type=int, help="by default 5, with --quick 2")
    parser.add_argument("--model", default="40m", help="a shape of benchmarks/shapes.py")
    parser.add_argument("--system", type=int, default=Shape().system, help="tokens of a system prompt")
    parser.add_argument("--asked", type=int, default=Shape().asked, help="tokens asked in a turn")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="requests open at a time")
    parser.add_argument("--quick", action="store_true", help="fewer chats and rounds")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    names = list(dict.fromkeys(["round_robin", *given.policies.split(",")]))
    rounds = given.rounds or (2 if given.quick else 5)
    shape = Shape(system=given.system, asked=given.asked)
    if given.quick:
        shape = replace(shape, chats=16, turns=4)
    runs: dict[str, list[Run]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory(prefix="radixway-bench-") as scratch, contextlib.ExitStack() as stack:
        model = write_model(given.model, Path(scratch))
        engines = stack.enter_context(ENGINE_KINDS[given.engine](model, shape, Path(scratch)))
        with gateway({"policy": "round_robin"}, engines, Path(scratch)) as url:
            asyncio.run(converse(url, replace(shape, chats=8, turns=2), -1))  # first requests are slower
        for number in range(rounds):
            turns = names[number % len(names) :] + names[: number % len(names)]
            for name in turns:
                routing: dict[str, Any] = {"policy": name}
                if given.hold_s is not None:
                    routing["queue"] = {"hold_s": given.hold_s}
                with gateway(routing, engines, Path(scratch)) as url:
                    flush(engines)
                    runs[name].append(asyncio.run(converse(url, shape, number, given.at_once)))
                print(f"round {number + 1}, {name}: {runs[name][-1].hit_rate:.0%} hits", flush=True)
    possible = possible_hits(shape)
    figures = {name: figures_of(found, runs["round_robin"]) for name, found in runs.items()}
    engine = given.model if given.engine == "embedded" else f"{given.engine}, {given.model}"
    show(figures, possible, shape, rounds, engine, given.at_once)
    if given.json:
        means_s = {name: [mean(run.first_s) for run in found] for name, found in runs.items()}
        write_json(
            given.json,
            {"policies": figures, "ttft_means_s": means_s, "possible_hit_rate": possible, "rounds": rounds},
        )


def figures_of(runs: Sequence[Run], base: Sequence[Run]) -> dict[str, float]:
    """Medians over the rounds."""
    pairs = list(zip(runs, base, strict=True))
    return {
        "hit_rate": median(run.hit_rate for run in runs),
        "ttft_mean_s": median(mean(run.first_s) for run in runs),
        "ttft_p50_s": median(median(run.first_s) for run in runs),
        "ttft_mean_ratio": median(mean(other.first_s) / mean(run.first_s) for run, other in pairs),
        "ttft_p50_ratio": median(median(other.first_s) / median(run.first_s) for run, other in pairs),
        "imbalance": median(run.imbalance for run in runs),
    }


def show(
    figures: dict[str, dict[str, float]],
    possible: float,
    shape: Shape,
    rounds: int,
    engine: str,
    at_once: int,
) -> None:
    best_s = min(f["ttft_mean_s"] for f in figures.values())
    print_table(
        f"{ENGINES} engines ({engine}), {shape.chats} chats of {shape.turns} turns, {at_once} at once, "
        f"{rounds} round(s); possible hits {100 * possible:.0f} %",
        [
            "policy",
            "hits %",
            "TTFT mean ms",
            "p50 ms",
            "beside the best",
            "beside round robin",
            "p50",
            "busiest / mean",
        ],
        [
            [
                name,
                100 * f["hit_rate"],
                1e3 * f["ttft_mean_s"],
                1e3 * f["ttft_p50_s"],
                best_s / f["ttft_mean_s"],
                f["ttft_mean_ratio"],
                f["ttft_p50_ratio"],
                f["imbalance"],
            ]
            for name, f in figures.items()
        ],
    )


@dataclass(frozen=True, slots=True)
class RunningEngine:
    """What is known of an engine that answers."""

    worker: dict[str, Any]
    """The entry of `workers` for it."""
    flush_path: str
    """POST there empties its cache."""


@contextlib.contextmanager
def embedded_engines(model: Path, shape: Shape, scratch: Path) -> Iterator[list[RunningEngine]]:
    """Embedded engines that run."""
    env = {"THREADS": "1", "DTYPE": "float32", "KV_TOKENS": str(shape.kv_tokens), "MAX_RUNNING": str(AT_ONCE)}
    env["SERVED_MODEL_NAME"] = MODEL
    options = {f"RADIXWAY__ENGINE__{key}": value for key, value in env.items()} | {"OMP_NUM_THREADS": "1"}
    with contextlib.ExitStack() as stack:
        urls = [f"http://127.0.0.1:{port}" for port in free_ports(ENGINES)]
        for url in urls:
            port = url.rpartition(":")[2]
            command = ["engine", "--host", "127.0.0.1", "--port", port, "--model", str(model)]
            stack.enter_context(running_radixway(command, options, f"{url}/v1/models"))
        yield [RunningEngine({"url": url}, "/flush_cache") for url in urls]


@contextlib.contextmanager
def vllm_engines(model: Path, shape: Shape, scratch: Path) -> Iterator[list[RunningEngine]]:
    """vLLM servers that run, and publish what their caches hold."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from support.vllm_server import BLOCK_TOKENS, VllmServer, running_servers

    options = ["--served-model-name", MODEL, "--max-model-len", "2048", "--max-num-seqs", str(AT_ONCE)]
    blocks = shape.kv_tokens // BLOCK_TOKENS
    folders = [scratch / str(number) for number in range(ENGINES)]
    servers = [VllmServer(model, folder, blocks, options) for folder in folders]
    for server in servers:
        server.env["VLLM_SERVER_DEV_MODE"] = "1"  # /reset_prefix_cache
    with running_servers(*servers):
        yield [RunningEngine(server.section, "/reset_prefix_cache") for server in servers]


ENGINE_KINDS = {"embedded": embedded_engines, "vllm": vllm_engines}


@contextlib.contextmanager
def gateway(routing: dict[str, Any], engines: Sequence[RunningEngine], scratch: Path) -> Iterator[str]:
    """A gateway that routes so in front of `engines`; gives its URL."""
    (port,) = free_ports(1)
    config = scratch / "radixway.yaml"
    config.write_text(json.dumps({"routing": routing, "workers": [engine.worker for engine in engines]}))
    command = ["serve", "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    url = f"http://127.0.0.1:{port}"
    with running_radixway(command, {}, f"{url}/ready"):
        wait_for_workers(url)
        yield url


def wait_for_workers(url: str) -> None:
    """Return when both engines are candidates."""
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        with urllib.request.urlopen(url + "/health", timeout=5) as answer:
            if json.load(answer)["workers"]["ready"] == ENGINES:
                return
        time.sleep(0.05)
    raise SystemExit("the engines did not become ready")


def flush(engines: Sequence[RunningEngine]) -> None:
    """Empty the engines' caches."""
    for engine in engines:
        asked = urllib.request.Request(engine.worker["url"] + engine.flush_path, method="POST")
        with urllib.request.urlopen(asked, timeout=30):
            pass


async def converse(url: str, shape: Shape, seed: int, at_once: int = AT_ONCE) -> Run:
    """All chats of a round through the gateway at `url`."""
    draw = random.Random(seed)
    systems = [text(draw, shape.system) for _ in range(shape.systems)]
    chats = [Chat(str(number), systems[number % shape.systems], draw, shape) for number in range(shape.chats)]
    run, places = Run(), asyncio.Semaphore(at_once)
    draw.shuffle(chats)
    timeout = aiohttp.ClientTimeout(total=600)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:

        async def speak(chat: Chat) -> None:
            for asked in chat.questions:
                async with places:
                    chat.said += asked
                    chat.said += await ask(session, url, chat, shape, run)

        async with asyncio.TaskGroup() as group:
            for chat in chats:
                group.create_task(speak(chat))
    return run


class Chat:
    """One conversation: what has been said, as tokens, and what will be asked."""

    def __init__(self, name: str, system: list[int], draw: random.Random, shape: Shape) -> None:
        self.name = name
        self.said = list(system)
        self.questions = [text(draw, shape.asked) for _ in range(shape.turns)]


async def ask(session: aiohttp.ClientSession, url: str, chat: Chat, shape: Shape, run: Run) -> list[int]:
    """One turn; returns the answer's tokens."""
    body = {
        "model": MODEL,
        "prompt": text_of(chat.said),
        "max_tokens": shape.answered,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "session_id": chat.name,
    }
    answer, first = "", None
    start = time.perf_counter()
    async with session.post(url + "/v1/completions", json=body) as response:
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {await response.text()}")
        worker = response.headers["x-radixway-worker"]
        run.requests[worker] = run.requests.get(worker, 0) + 1
        async for line in response.content:
            if not line.startswith(b"data: {"):
                continue
            chunk = json.loads(line.removeprefix(b"data: "))
            if came := "".join(choice["text"] for choice in chunk["choices"]):
                first = first or time.perf_counter() - start
                answer += came
            if usage := chunk.get("usage"):
                run.prompt_tokens += usage["prompt_tokens"]
                run.cached_tokens += usage["prompt_tokens_details"]["cached_tokens"]
    if first is None:
        raise RuntimeError("an answer without a token")
    run.first_s.append(first)
    return tokens_of(answer)


def text(draw: random.Random, length: int) -> list[int]:
    return [draw.randrange(5, 8000) for _ in range(length)]


def possible_hits(shape: Shape) -> float:
    """The hit rate of one cache that never forgets."""
    limit, draw = Limit(16), random.Random(0)
    systems = [text(draw, shape.system) for _ in range(shape.systems)]
    for number in range(shape.chats):
        said = list(systems[number % shape.systems])
        for _ in range(shape.turns):
            said += text(draw, shape.asked)
            limit.asked(said)
            answer = text(draw, shape.answered)
            limit.answered(said, answer)
            said += answer
    return limit.hit_rate


if __name__ == "__main__":
    main()
