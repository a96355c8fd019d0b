"""What the semantic layer saves against one big model for everything: time, price, CPU.

    python benchmarks/semantic_value.py [--rounds N] [--requests N] [--quick] [--json FILE]

Two embedded engines behind a gateway: the bundled model, and the same one with eight times as many layers,
those added changing nothing: it says the same, at eight times the work and, here, eight times the price per
token. One thread each. The same workload goes through four gateways:

- *one big model*, under a system prompt of one sentence: what savings are a share of;
- *one prompt for all*: the same with the fourteen categories' prompts in one, which is what it takes to say
  as much where nobody knows what a question is about;
- *cheaper model*: the gateway reads the category, gives its prompt, and chooses between the two models by
  `preference: cheap`. Their scores are those of Llama 3.1 70B and 8B Instruct by category in MMLU-Pro (the
  sample of `python tools/evaluate.py routing`), and `least_share` is .7;
- *and the cache*: the same with the semantic cache, empty at the start.

The workload: everyday prompts over 14 categories, of which a part comes again in the same words (the popular
ones more often) and a part in other words. What the cache saves is what comes again, so the shares are to be
read with the figures: .25 and .15 by default (public reports have 31 to 69 % hits). Four requests are open at
a time, in streams. Every share saved is of the same round's *one big model*; the table has the median of the
rounds. Thinking is not measured: the bundled model cannot.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import re
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any

import aiohttp
import numpy as np
import torch
from safetensors.torch import load_file, save_file

import radixway.bundled
from processes import START_S, cpu_seconds, free_ports, running_radixway
from radixway.core.config.semantic import CATEGORIES
from radixway.semantics.decisions.system_prompts import SHIPPED_PROMPTS
from report import print_table, write_json

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from evaluation.routing import SAMPLE, read_tables

ROOT = Path(__file__).resolve().parents[1]
GUIDE = Path(radixway.bundled.__file__).parent / "guide"
PROMPTS = ROOT / "tools" / "domain_data" / "heldout_en.txt"
PAIRS = ROOT / "tools" / "evaluation" / "data" / "cache_must_hit.txt"
TIMES = 8
PRICES = {"small": 0.1, "big": 0.1 * TIMES}
SCORED_AS = {"small": "Meta-Llama-3_1-8B-Instruct", "big": "Meta-Llama-3_1-70B-Instruct"}
LEAST_SHARE = 0.7
BASE, LONG, CHEAPER, CACHE = ARMS = ("one big model", "one prompt for all", "cheaper model", "and the cache")
AT_ONCE = 4
ANSWER_TOKENS = 32
SYSTEM = {
    BASE: "You are a helpful assistant.",
    LONG: " ".join(prompt.en for prompt in SHIPPED_PROMPTS.values()),
}
CLAIMED = {"latency": "40–60 %", "cost": "55 %"}


@dataclass(slots=True)
class Run:
    """One arm, once."""

    first_s: list[float] = field(default_factory=list)
    whole_s: list[float] = field(default_factory=list)
    cost: float = 0.0
    cpu_s: float = 0.0
    """Of the gateway and both engines."""
    gateway_cpu_s: float = 0.0
    hits: int = 0
    small: int = 0
    prompt_tokens: int = 0
    kept: list[float] = field(default_factory=list)
    """The answering model's score over the big one's, of requests that a model answered."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, help="by default 3, with --quick 1")
    parser.add_argument("--requests", type=int, help="by default 120, with --quick 40")
    parser.add_argument("--repeats", type=float, default=0.25, help="share that comes again word by word")
    parser.add_argument("--paraphrases", type=float, default=0.15, help="share that comes in other words")
    parser.add_argument("--quick", action="store_true", help="fewer requests and rounds")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rounds = given.rounds or (1 if given.quick else 3)
    count = given.requests or (40 if given.quick else 120)
    scores = category_scores()
    runs: dict[str, list[Run]] = {arm: [] for arm in ARMS}
    with tempfile.TemporaryDirectory(prefix="radixway-bench-") as scratch, contextlib.ExitStack() as stack:
        engines = {
            "small": stack.enter_context(engine("small", GUIDE)),
            "big": stack.enter_context(engine("big", write_big(Path(scratch)))),
        }
        for number in range(rounds):
            asked = workload(count, given.repeats, given.paraphrases, number)
            for arm in (*ARMS[number % 4 :], *ARMS[: number % 4]):
                flush(engines)
                with gateway(arm, engines, scores, Path(scratch)) as (url, pid):
                    runs[arm].append(asyncio.run(measure(arm, url, pid, engines, asked, scores)))
                print(
                    f"round {number + 1}, {arm}: {fmean(runs[arm][-1].whole_s):.2f} s a request", flush=True
                )
    figures = {arm: summarise(runs[arm], runs[BASE]) for arm in ARMS}
    show(figures, count, given.repeats, given.paraphrases, rounds)
    if given.json:
        setting = {
            "requests": count,
            "repeats": given.repeats,
            "paraphrases": given.paraphrases,
            "rounds": rounds,
        }
        write_json(given.json, {"setting": setting, "arms": figures})


def summarise(runs: Sequence[Run], base: Sequence[Run]) -> dict[str, float]:
    """Medians over the rounds; what is saved is a share of the same round's first arm."""

    def saved(of: Any) -> float:
        return median(1 - of(run) / of(other) for run, other in zip(runs, base, strict=True))

    requests = len(runs[0].whole_s)
    return {
        "ttft_mean_s": median(fmean(run.first_s) for run in runs),
        "ttft_p50_s": median(median(run.first_s) for run in runs),
        "ttft_p95_s": median(float(np.quantile(run.first_s, 0.95)) for run in runs),
        "whole_mean_s": median(fmean(run.whole_s) for run in runs),
        "whole_p50_s": median(median(run.whole_s) for run in runs),
        "whole_p95_s": median(float(np.quantile(run.whole_s, 0.95)) for run in runs),
        "saved_ttft": saved(lambda run: fmean(run.first_s)),
        "saved_ttft_p50": saved(lambda run: median(run.first_s)),
        "saved_ttft_p95": saved(lambda run: float(np.quantile(run.first_s, 0.95))),
        "saved_latency": saved(lambda run: fmean(run.whole_s)),
        "saved_latency_p50": saved(lambda run: median(run.whole_s)),
        "saved_latency_p95": saved(lambda run: float(np.quantile(run.whole_s, 0.95))),
        "saved_cost": saved(lambda run: run.cost),
        "saved_cpu": saved(lambda run: run.cpu_s),
        "gateway_cpu_ms": median(1e3 * run.gateway_cpu_s / requests for run in runs),
        "hit_share": median(run.hits / requests for run in runs),
        "small_share": median(run.small / requests for run in runs),
        "prompt_tokens": median(run.prompt_tokens / requests for run in runs),
        "score_kept": median(fmean(run.kept) for run in runs),
    }


def show(
    figures: Mapping[str, Mapping[str, float]], count: int, repeats: float, paraphrases: float, rounds: int
) -> None:
    print_table(
        f"{count} requests, {repeats:.0%} repeats, {paraphrases:.0%} paraphrases, {rounds} round(s); "
        "saved, in % of one big model",
        ["", "TTFT mean", "p50", "p95", "whole mean", "p50", "p95", "price", "CPU"],
        [
            [arm, *(100 * of[f"saved_{name}"] for name in (
                "ttft", "ttft_p50", "ttft_p95", "latency", "latency_p50", "latency_p95", "cost", "cpu"
            ))]
            for arm, of in figures.items()
        ],
    )  # fmt: skip
    print(f"the proposal says: latency {CLAIMED['latency']}, cost {CLAIMED['cost']}")
    print_table(
        "and how",
        [
            "",
            "TTFT mean ms",
            "whole ms",
            "prompt tokens",
            "small %",
            "hits %",
            "score kept",
            "gateway CPU ms",
        ],
        [
            [
                arm,
                1e3 * of["ttft_mean_s"],
                1e3 * of["whole_mean_s"],
                of["prompt_tokens"],
                100 * of["small_share"],
                100 * of["hit_share"],
                of["score_kept"],
                of["gateway_cpu_ms"],
            ]
            for arm, of in figures.items()
        ],
    )


def workload(count: int, repeats: float, paraphrases: float, seed: int) -> list[str]:
    """Questions in the order in which they are asked; what comes again comes after its first time."""
    draw = random.Random(seed)
    pairs = [tuple(line.split(" | ")) for line in PAIRS.read_text("utf-8").splitlines() if " | " in line]
    pairs = [pair for pair in pairs if pair[0].isascii() and not pair[0].startswith("#")]
    pairs = draw.sample(pairs, min(round(paraphrases * count), len(pairs)))
    again = round(repeats * count)
    lines = [line for line in PROMPTS.read_text("utf-8").splitlines() if " | " in line]
    fresh = list(dict.fromkeys(one for one, _ in pairs))
    everyday = [line.split(" | ", 1)[1] for line in lines if not line.startswith("#")]
    fresh += draw.sample(everyday, min(count - again - len(pairs) - len(fresh), len(everyday)))
    draw.shuffle(fresh)
    popular = draw.choices(fresh, [1 / rank for rank in range(1, len(fresh) + 1)], k=again)
    when = {question: draw.random() for question in fresh}
    events = [(at, question) for question, at in when.items()]
    events += [(draw.uniform(when[question], 1), question) for question in popular]
    events += [(draw.uniform(when[one], 1), other) for one, other in pairs]
    return [question for _, question in sorted(events)]


def category_scores() -> dict[str, dict[str, float]]:
    """By category, then model: share of MMLU-Pro's questions that the model of that kind answers."""
    table = read_tables(SAMPLE)["mmlu_pro"]
    right = table.of(tuple(SCORED_AS.values()))
    labels = np.array(table.categories)
    return {
        label: dict(zip(SCORED_AS, (float(x) for x in right[labels == label].mean(axis=0)), strict=True))
        for label in CATEGORIES
    }


def write_big(directory: Path) -> Path:
    """The bundled model with `TIMES` as many layers, those added giving nothing to the residual stream."""
    config = json.loads((GUIDE / "config.json").read_text())
    layers = config["num_hidden_layers"]
    config["num_hidden_layers"] = TIMES * layers
    config["layer_types"] = config["layer_types"][:1] * (TIMES * layers)
    weights = load_file(GUIDE / "model.safetensors")
    for name, weight in list(weights.items()):
        if found := re.match(r"model\.layers\.(\d+)\.(.+)", name):
            silent = found[2].startswith(("self_attn.o_proj", "mlp.down_proj"))
            for copy in range(1, TIMES):
                to = f"model.layers.{int(found[1]) + copy * layers}.{found[2]}"
                weights[to] = torch.zeros_like(weight) if silent else weight.clone()
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        (directory / name).write_bytes((GUIDE / name).read_bytes())
    return directory


@contextlib.contextmanager
def engine(name: str, model: Path) -> Iterator[tuple[str, int]]:
    """A running engine; gives its URL and process."""
    (port,) = free_ports(1)
    env = {"THREADS": "1", "DTYPE": "float32", "KV_TOKENS": "16384", "MAX_RUNNING": str(AT_ONCE)}
    options = {f"RADIXWAY__ENGINE__{key}": value for key, value in env.items()}
    options |= {"RADIXWAY__ENGINE__SERVED_MODEL_NAME": name, "OMP_NUM_THREADS": "1"}
    url = f"http://127.0.0.1:{port}"
    command = ["engine", "--host", "127.0.0.1", "--port", str(port), "--model", str(model)]
    with running_radixway(command, options, f"{url}/v1/models") as pid:
        yield url, pid


@contextlib.contextmanager
def gateway(
    arm: str,
    engines: Mapping[str, tuple[str, int]],
    scores: Mapping[str, Mapping[str, float]],
    scratch: Path,
) -> Iterator[tuple[str, int]]:
    """A gateway with what the arm has; gives its URL and process."""
    (port,) = free_ports(1)
    settings: dict[str, Any] = {"workers": [{"url": url} for url, _ in engines.values()]}
    if arm not in SYSTEM:
        settings["semantic"] = semantic(scores)
        settings["encoders"] = {"preload": True}
    if arm == CACHE:
        settings["semantic_cache"] = {"enabled": True}
    config = scratch / "radixway.yaml"
    config.write_text(json.dumps(settings), encoding="utf-8")
    url = f"http://127.0.0.1:{port}"
    command = ["serve", "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    with running_radixway(command, {"OMP_NUM_THREADS": "1"}, f"{url}/ready") as pid:
        wait_for_workers(url, len(engines))
        yield url, pid


def semantic(scores: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """The section: both models for each category."""
    return {
        "default_model": "big",
        "shipped_prompts": True,
        "preference": {
            "default": "cheap",
            "least_share": LEAST_SHARE,
            "completion_tokens": ANSWER_TOKENS,
        },
        "categories": [
            {
                "name": label,
                "model_scores": [
                    {"model": model, "score": scores[label][model], "use_reasoning": False}
                    for model in PRICES
                ],
            }
            for label in CATEGORIES
        ],
        "model_config": {
            model: {"pricing": {"prompt_per_1m": PRICES[model], "completion_per_1m": PRICES[model]}}
            for model in PRICES
        },
    }


def wait_for_workers(url: str, count: int) -> None:
    """Return when all engines are candidates."""
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        with urllib.request.urlopen(url + "/health", timeout=5) as answer:
            if json.load(answer)["workers"]["ready"] == count:
                return
        time.sleep(0.05)
    raise SystemExit("the engines did not become ready")


def flush(engines: Mapping[str, tuple[str, int]]) -> None:
    """Empty the engines' caches."""
    for url, _ in engines.values():
        with urllib.request.urlopen(urllib.request.Request(url + "/flush_cache", method="POST"), timeout=30):
            pass


async def measure(
    arm: str,
    url: str,
    pid: int,
    engines: Mapping[str, tuple[str, int]],
    asked: Sequence[str],
    scores: Mapping[str, Mapping[str, float]],
) -> Run:
    """The whole workload through the gateway at `url`."""
    places = asyncio.Semaphore(AT_ONCE)
    timeout = aiohttp.ClientTimeout(total=600)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        await ask(session, url, arm, "Good morning, are you there?", Run(), scores)  # loads the encoder
        run, pids = Run(), [engine_pid for _, engine_pid in engines.values()]
        began, gateway_began = sum(map(cpu_seconds, (pid, *pids))), cpu_seconds(pid)

        async def one(question: str) -> None:
            async with places:
                await ask(session, url, arm, question, run, scores)

        async with asyncio.TaskGroup() as group:
            for question in asked:
                group.create_task(one(question))
    run.cpu_s = sum(map(cpu_seconds, (pid, *pids))) - began
    run.gateway_cpu_s = cpu_seconds(pid) - gateway_began
    return run


async def ask(
    session: aiohttp.ClientSession,
    url: str,
    arm: str,
    question: str,
    run: Run,
    scores: Mapping[str, Mapping[str, float]],
) -> None:
    """One request, streamed."""
    messages = [{"role": "user", "content": question}]
    if arm in SYSTEM:
        messages.insert(0, {"role": "system", "content": SYSTEM[arm]})
    body = {
        "model": "big" if arm in SYSTEM else "auto",
        "messages": messages,
        "max_tokens": ANSWER_TOKENS,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    first, usage = None, {"prompt_tokens": 0, "completion_tokens": 0}
    start = time.perf_counter()
    async with session.post(url + "/v1/chat/completions", json=body) as response:
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {await response.text()}")
        async for line in response.content:
            if line.startswith(b"data: {"):
                chunk = json.loads(line.removeprefix(b"data: "))
                if any(choice["delta"].get("content") for choice in chunk["choices"]):
                    first = first or time.perf_counter() - start
                usage = chunk.get("usage") or usage
    whole = time.perf_counter() - start
    run.first_s.append(first or whole)
    run.whole_s.append(whole)
    if response.headers.get("x-vsr-cache-hit") == "true":
        run.hits += 1
        return
    model = response.headers.get("x-vsr-selected-model", "big")
    category = response.headers.get("x-vsr-selected-category")
    run.small += model == "small"
    run.prompt_tokens += usage["prompt_tokens"]
    run.cost += (usage["prompt_tokens"] + usage["completion_tokens"]) * PRICES[model] / 1e6
    run.kept.append(scores[category][model] / scores[category]["big"] if category else 1.0)


if __name__ == "__main__":
    main()
