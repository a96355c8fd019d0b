"""What the simulator says of an engine, beside what that engine does.

    python benchmarks/simulator_fidelity.py [--shape 5m] [--quick] [--json FILE]

One engine, a process with one thread and random float32 weights, is asked over HTTP. By people who hold
conversations: each asks, reads the answer, thinks and asks on; every prompt holds all that was said before.
And before and after, with prompts that share nothing, alone, after a prefix of their own, and in batches: the
constants of the simulator's engine model are fitted to these times. What people asked and when is the trace
that the simulator replays with the constants fitted; times to first token, times between tokens and hits are
set beside those measured.
A run has several such parts, because the machine's other work comes and goes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

import aiohttp
import numpy as np

from engine_model import FIRST, write_model
from engine_servers import KV_TOKENS, RADIXWAY, running
from environments import PEERS_DIR
from radixway.core.config import RoundRobinPolicyConfig
from radixway.routing.block_hash import hash_token_blocks, pack_tokens
from radixway.routing.simulator import (
    EngineConstants,
    RequestTrace,
    SimulationOutcome,
    SimulationSettings,
    compute_figures,
)
from radixway.routing.simulator.simulation import TraceSimulation
from radixway.routing.simulator.trace import TraceRequest
from report import print_table, write_json
from shapes import SHAPES

PAGE = 16
STEP_TOKENS = 512  # the engine's `max_batch_tokens` on a CPU
AT_ONCE = 16
PROMPTS = (16, 128, 256, 480, 960, 1440)
BATCHES = ((1, 32), (1, 960), (4, 32), (4, 480), (8, 32), (8, 480), (16, 32))
DECODED = 24
PREFIXES, FRESH = (480, 1440), 128


@dataclass(slots=True)
class Asked:
    """One request as it was sent and answered. Times by `perf_counter`."""

    prompt: list[int]
    sent: float
    came: list[float]
    """When each event with tokens came."""
    answer: list[int]
    cached: int

    @property
    def ttft_s(self) -> float:
        return self.came[0] - self.sent

    @property
    def itl_s(self) -> float:
        return (self.came[-1] - self.came[0]) / (len(self.answer) - 1)


class Client:
    """Sends token ids to one engine's `/generate`."""

    def __init__(self, url: str, session: aiohttp.ClientSession, seed: int, vocabulary: int) -> None:
        self._url = url
        self._session = session
        self.draw = random.Random(seed)
        self._vocabulary = vocabulary

    def words(self, count: int) -> list[int]:
        """Tokens that nobody has seen."""
        return [self.draw.randrange(FIRST, self._vocabulary) for _ in range(count)]

    async def ask(self, prompt: list[int], tokens: int) -> Asked:
        sampling = {"max_new_tokens": tokens, "temperature": 0, "ignore_eos": True}
        body = {"input_ids": prompt, "sampling_params": sampling, "stream": True}
        asked = Asked(prompt, time.perf_counter(), [], [], 0)
        async with self._session.post(f"{self._url}/generate", json=body) as response:
            if response.status != 200:
                raise RuntimeError(f"{response.status}: {await response.text()}")
            async for line in response.content:
                if line.startswith(b"data: {"):
                    asked.came.append(time.perf_counter())
                    event = json.loads(line.removeprefix(b"data: "))
                    asked.answer, asked.cached = event["output_ids"], event["meta_info"]["cached_tokens"]
        if len(asked.answer) != tokens:
            raise RuntimeError(f"{len(asked.answer)} tokens came instead of {tokens}")
        return asked


async def calibrate(client: Client, rounds: int) -> Iterator[tuple[list[float], float]]:
    """Prompts alone, after a prefix, batches that decode: what each has of every constant, its seconds."""
    rows: list[list[float]] = []
    seconds: list[float] = []
    for size in PROMPTS:
        alone = [(await client.ask(client.words(size), 1)).ttft_s for _ in range(rounds)]
        rows.append([-(-size // STEP_TOKENS), size, 0, 0, size * (size - 1) / 2])
        seconds.append(median(alone))
    for cached in PREFIXES:
        after = []
        for _ in range(rounds):
            prefix = client.words(cached)
            await client.ask(prefix, 1)
            after.append((await client.ask([*prefix, *client.words(FRESH)], 1)).ttft_s)
        rows.append([1, FRESH, 0, 0, FRESH * cached + FRESH * (FRESH - 1) / 2])
        seconds.append(median(after))
    for batch, size in BATCHES:
        gaps: list[float] = []
        for _ in range(max(1, rounds // 2)):
            answers = await asyncio.gather(*(client.ask(client.words(size), DECODED) for _ in range(batch)))
            last_first = max(answer.came[0] for answer in answers)
            for answer in answers:
                gaps += [b - a for a, b in pairwise(answer.came) if a >= last_first]
        rows.append([1, 0, batch, batch * (size + DECODED / 2), 0])
        seconds.append(fmean(gaps))
    return zip(rows, seconds, strict=True)


def fit(rows: Sequence[Sequence[float]], seconds: Sequence[float]) -> list[float]:
    """Coefficients, none below 0, with which `rows` make `seconds`: least squares of relative errors."""
    left, right = np.array(rows, float) / np.array(seconds)[:, None], np.ones(len(seconds))
    used = list(range(left.shape[1]))
    while True:
        found = np.linalg.lstsq(left[:, used], right, rcond=None)[0]
        if (found >= 0).all():
            return [float(found[used.index(at)]) if at in used else 0.0 for at in range(left.shape[1])]
        del used[int(found.argmin())]


async def converse(client: Client, people: int, turns: int, think_s: float) -> list[Asked]:
    """Everybody's requests, in the order in which they were sent."""
    done: list[Asked] = []
    system = client.words(160)

    async def person() -> None:
        said = list(system)
        for _ in range(turns):
            await asyncio.sleep(client.draw.expovariate(1 / think_s))
            said += client.words(client.draw.randrange(20, 200))
            asked = await client.ask(list(said), client.draw.randrange(8, 48))
            done.append(asked)
            said += asked.answer

    await asyncio.gather(*(person() for _ in range(people)))
    return sorted(done, key=lambda asked: asked.sent)


def as_trace(done: Sequence[Asked]) -> RequestTrace:
    """What `radixway record` would have written."""
    return RequestTrace(
        [
            TraceRequest(
                asked.sent - done[0].sent,
                len(asked.prompt),
                len(asked.answer),
                tuple(hash_token_blocks(pack_tokens(asked.prompt), PAGE)),
            )
            for asked in done
        ],
        PAGE,
    )


def beside(parts: Sequence[tuple[EngineConstants, list[Asked]]]) -> dict[str, dict[str, float]]:
    """Each figure as simulated, as measured, and their ratio, over all parts together."""
    simulated, measured = SimulationOutcome(), SimulationOutcome()
    for constants, done in parts:
        setting = SimulationSettings(workers=1, kv_tokens=KV_TOKENS, constants=constants)
        outcome = TraceSimulation(as_trace(done), RoundRobinPolicyConfig(), setting).run_trace()
        for whole, ttft_s, itl_s, cached in (
            (simulated, outcome.ttft_s, outcome.itl_s, outcome.cached_tokens),
            (
                measured,
                [asked.ttft_s for asked in done],
                [asked.itl_s for asked in done],
                sum(asked.cached for asked in done),
            ),
        ):
            whole.ttft_s += ttft_s
            whole.itl_s += itl_s
            whole.cached_tokens += cached
            whole.input_tokens += outcome.input_tokens
    both = compute_figures(simulated), compute_figures(measured)
    table: dict[str, dict[str, float]] = {}
    for name in ("ttft_mean_s", "ttft_p50_s", "ttft_p99_s", "itl_mean_s", "hit_rate"):
        ours, theirs = (getattr(figures, name) for figures in both)
        table[name] = {"simulated": ours, "measured": theirs, "ratio": ours / theirs}
    return table


async def measure(url: str, given: argparse.Namespace) -> list[tuple[EngineConstants, list[Asked]]]:
    """The parts of a run: constants fitted to the times before and after, and what people asked."""
    parts = []
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=300)) as session:
        client = Client(url, session, given.seed, SHAPES[given.shape][-1])
        await calibrate(client, 1)  # whatever is only done once
        before = list(await calibrate(client, 2))
        for _ in range(2 if given.quick else 6):
            done = await converse(client, given.people, 4, given.think_s)
            after = list(await calibrate(client, 2))
            coefficients = fit(*zip(*before, *after, strict=True))
            parts.append((EngineConstants(*coefficients, step_tokens=STEP_TOKENS, max_running=AT_ONCE), done))
            before = after
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=SHAPES, default="5m", help="random weights of this Llama shape")
    parser.add_argument("--people", type=int, default=8)
    parser.add_argument(
        "--think-s", type=float, default=0.5, help="mean pause between an answer and the next"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="two parts; ends within a minute")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="radixway-bench-") as folder:
        model = write_model(given.shape, Path(folder))
        with running(RADIXWAY, model, 0, AT_ONCE, PEERS_DIR) as server:
            parts = asyncio.run(measure(server.url, given))
    figures, requests = beside(parts), sum(len(done) for _, done in parts)
    fitted = {
        name: [getattr(constants, name) for constants, _ in parts]
        for name in ("step_s", "prefill_s", "decode_s", "context_s", "attention_s")
    }
    print_table(
        "constants fitted, µs",
        ["", *(f"part {number + 1}" for number in range(len(parts)))],
        [[name, *(value * 1e6 for value in values)] for name, values in fitted.items()],
    )
    rows = [[name, *(f"{figure[what]:.4f}" for what in figure)] for name, figure in figures.items()]
    title = f"{requests} requests of {given.people} people, {given.shape}"
    print_table(title, ["", "simulated", "measured", "ratio"], rows)
    if given.json:
        write_json(given.json, {"constants": fitted, "figures": figures, "requests": requests})


if __name__ == "__main__":
    main()
