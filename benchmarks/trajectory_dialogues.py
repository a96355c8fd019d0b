"""What the gateway's caches give dialogues on an embedded engine: the guide's table, as ratios.

32 dialogues of three turns are held at a time, as in GSM8K: an instruction that all share, a problem, an
answer, two more questions about it. Each turn sends the whole text to `/generate`, through a gateway.

- **with**: the gateway turns the text into the tokens it knows and records what comes back; the engine keeps
  the KV of what it computed.
- **without**: the gateway passes the text on; the engine computes every prompt from its beginning.

Hits are the prompt tokens that the engine says it had cached. Latency is that of a whole answer, by the clock
on the wall; samples are answers. Ratios are without over with, of the same round, the median of the rounds;
the one by CPU is that of engine and gateway together, which other work on the machine blurs least. The
model has random weights (`engine_model.py`, 40M), runs in one thread, and its greedy answers are compared:
they have to be the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median

import aiohttp

from engine_model import text_of, write_model
from processes import cpu_seconds, free_ports, running_radixway
from report import Cell, print_table

AT_ONCE = 32
TURNS = 3
INSTRUCTION, PROBLEM, QUESTION, ANSWERED = 64, 96, 48, 128
"""Tokens."""
ARMS = "with", "without"


@dataclass(slots=True)
class Round:
    """One arm, once."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    latency_s: list[list[float]] = field(default_factory=lambda: [[] for _ in range(TURNS)])
    prompt_tokens: int = 0
    cached_tokens: int = 0
    texts: dict[int, str] = field(default_factory=dict)
    """What was said in each dialogue."""

    @property
    def samples(self) -> int:
        return sum(map(len, self.latency_s))


def run(*, quick: bool, rounds: int | None) -> dict[str, object]:
    """Measure, print and return all figures. `rounds`: 3 by default, 1 if `quick`."""
    rounds = rounds or (1 if quick else 3)
    dialogues = AT_ONCE if quick else 3 * AT_ONCE
    measured: dict[str, list[Round]] = {arm: [] for arm in ARMS}
    with tempfile.TemporaryDirectory(prefix="radixway-bench-") as scratch:
        model = write_model("40m", Path(scratch))
        for number in range(rounds):
            for arm in ARMS if number % 2 else reversed(ARMS):
                with running_stack(model, caches=arm == "with") as (url, pids):
                    measured[arm].append(asyncio.run(hold(url, pids, dialogues, number)))
            if measured["with"][-1].texts != measured["without"][-1].texts:
                print(f"round {number + 1}: the arms did not give the same answers")
    figures = {arm: figures_of(measured[arm]) for arm in ARMS}
    ratios = ratios_of(measured)
    show(figures, ratios, dialogues, rounds)
    return {**figures, "ratios": ratios, "rounds": rounds, "dialogues": dialogues}


@contextlib.contextmanager
def running_stack(model: Path, *, caches: bool) -> Iterator[tuple[str, list[int]]]:
    """An engine behind a gateway: the gateway's URL, and the processes of both."""
    engine_port, port = free_ports(2)
    tokens = AT_ONCE * (INSTRUCTION + PROBLEM + TURNS * (QUESTION + ANSWERED))
    engine = {
        "THREADS": "1",
        "DTYPE": "float32",
        "KV_TOKENS": str(4 * tokens // 16 * 16),
        "MAX_RUNNING": str(AT_ONCE),
        "RADIX_CACHE": str(caches).lower(),
    }
    records = {"ENABLED": str(caches).lower(), "TOKENIZER": str(model)}
    worker = f"http://127.0.0.1:{engine_port}"
    with contextlib.ExitStack() as stack:
        pids = [
            stack.enter_context(
                running_radixway(
                    ["engine", "--host", "127.0.0.1", "--port", str(engine_port), "--model", str(model)],
                    _environment("ENGINE", engine) | {"OMP_NUM_THREADS": "1"},
                    f"{worker}/v1/models",
                )
            ),
            stack.enter_context(
                running_radixway(
                    ["serve", "--host", "127.0.0.1", "--port", str(port), "--worker", worker],
                    _environment("TRAJECTORIES", records),
                    f"http://127.0.0.1:{port}/ready",
                )
            ),
        ]
        yield f"http://127.0.0.1:{port}", pids


def _environment(section: str, values: Mapping[str, str]) -> dict[str, str]:
    return {f"RADIXWAY__{section}__{key}": value for key, value in values.items()}


async def hold(url: str, pids: list[int], dialogues: int, seed: int) -> Round:
    """All dialogues of a round, `AT_ONCE` of them at a time."""
    rng, held, places = random.Random(seed), Round(), asyncio.Semaphore(AT_ONCE)
    instruction = _said(rng, INSTRUCTION)
    questions = [
        [_said(rng, QUESTION if turn else PROBLEM) for turn in range(TURNS)] for _ in range(dialogues)
    ]
    timeout = aiohttp.ClientTimeout(total=1800)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:

        async def speak(number: int) -> None:
            async with places:
                text = instruction
                for turn, question in enumerate(questions[number]):
                    text += question
                    text += await ask(session, url, text, turn, held)
                held.texts[number] = text

        await ask(session, url, _said(rng, PROBLEM), 0, Round())  # what is made once, is made here
        begin, cpu_s = time.perf_counter(), sum(map(cpu_seconds, pids))
        async with asyncio.TaskGroup() as group:
            for number in range(dialogues):
                group.create_task(speak(number))
        held.wall_s = time.perf_counter() - begin
        held.cpu_s = sum(map(cpu_seconds, pids)) - cpu_s
    return held


async def ask(session: aiohttp.ClientSession, url: str, text: str, turn: int, held: Round) -> str:
    """One turn; returns the answer's text."""
    body = {"text": text, "sampling_params": {"max_new_tokens": ANSWERED, "temperature": 0}}
    start = time.perf_counter()
    async with session.post(url + "/generate", json=body) as response:
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {await response.text()}")
        answer = json.loads(await response.read())
    held.latency_s[turn].append(time.perf_counter() - start)
    held.prompt_tokens += answer["meta_info"]["prompt_tokens"]
    held.cached_tokens += answer["meta_info"]["cached_tokens"]
    return str(answer["text"])


def _said(rng: random.Random, tokens: int) -> str:
    return text_of(rng.randrange(5, 8000) for _ in range(tokens))


def figures_of(rounds: list[Round]) -> dict[str, object]:
    """Medians over the rounds."""
    return {
        "hit_rate": median(each.cached_tokens / each.prompt_tokens for each in rounds),
        "latency_s": [median(mean(each.latency_s[turn]) for each in rounds) for turn in range(TURNS)],
        "samples_per_s": median(each.samples / each.wall_s for each in rounds),
        "cpu_s_per_sample": median(each.cpu_s / each.samples for each in rounds),
    }


def ratios_of(measured: Mapping[str, list[Round]]) -> dict[str, object]:
    """How many times better with than without, medians over the rounds."""
    pairs = list(zip(measured["with"], measured["without"], strict=True))
    return {
        "latency": [
            median(mean(other.latency_s[turn]) / mean(one.latency_s[turn]) for one, other in pairs)
            for turn in range(TURNS)
        ],
        "samples_per_s": median(
            one.samples / one.wall_s / (other.samples / other.wall_s) for one, other in pairs
        ),
        "cpu": median(other.cpu_s / other.samples / (one.cpu_s / one.samples) for one, other in pairs),
    }


def show(
    figures: Mapping[str, dict[str, object]], ratios: dict[str, object], dialogues: int, rounds: int
) -> None:
    """Print the guide's table."""
    one, other = (figures[arm] for arm in ARMS)
    rows: list[list[Cell]] = [["hits %", *(100 * _number(each["hit_rate"]) for each in (other, one)), None]]
    for turn in range(TURNS):
        before, after, times = (
            _list(each)[turn] for each in (other["latency_s"], one["latency_s"], ratios["latency"])
        )
        rows.append([f"latency of turn {turn + 1}, s", before, after, times])
    for name, key, times in (
        ("samples/s", "samples_per_s", ratios["samples_per_s"]),
        ("CPU s per sample", "cpu_s_per_sample", ratios["cpu"]),
    ):
        rows.append([name, _number(other[key]), _number(one[key]), _number(times)])
    title = f"{dialogues} dialogues of {TURNS} turns, {AT_ONCE} at a time, engine 40m; {rounds} round(s)"
    print_table(title, ["", "without", "with", "times better"], rows)


def _number(value: object) -> float:
    assert isinstance(value, float)
    return value


def _list(value: object) -> list[float]:
    assert isinstance(value, list)
    return value
