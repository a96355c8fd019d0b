"""What reuse of prefixes is worth: five workloads with the radix cache off and on, beside what it could be.

    python benchmarks/radix_attention.py [--models 40m,135m] [--rounds N] [--quick] [--json FILE]

Both arms are one engine: the same weights, the same asks in the same order (`workloads.py` states the shapes
and answer lengths), the same `max_running`; only `radix_cache` differs. Arms take turns; every round begins
with an empty cache, so the first fill counts. One thread, CPU time, medians over the rounds.

*limit* is arithmetic: prompt tokens to compute without a cache over those with one that never forgets. A
ratio stays below it because answers have to be decoded and every token attends to what is cached. Ratios are
of this engine without reuse, not of another engine. *nothing shared* is the control: there reuse can only
cost. The time to first token is that of one request on an idle engine: 1,000 tokens of system prompt and 100
of question, when nobody has used that system prompt before (cold) and when somebody has (warm).
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import torch

from radixway.core.config.engine import EngineConfig
from radixway.engine.build import build_core
from radixway.engine.engine_core import EngineCore
from radixway.engine.engine_request import RequestOutput
from radixway.engine.sampling_params import SamplingParams
from report import print_table, write_json
from shapes import SHAPES, write_config
from workloads import PUBLISHED, Ask, Limit, workload

ARMS = ("off", "on")


@dataclass(slots=True)
class Run:
    """One workload, once, with the cache off or on."""

    seconds: float
    first_tokens: list[float]
    """Seconds from asking to the first token, one per request."""
    prompt_tokens: int
    cached_tokens: int
    answer_tokens: int
    limit: Limit


@dataclass(slots=True)
class Arms:
    """All runs of one workload."""

    off: list[Run] = field(default_factory=list)
    on: list[Run] = field(default_factory=list)

    def figures(self) -> dict[str, float]:
        """What is printed, by name; times in seconds."""
        off, on = (median(run.seconds for run in getattr(self, arm)) for arm in ARMS)
        run = self.on[0]
        found: dict[str, float] = {
            "ratio": off / on,
            "token_limit": run.limit.ratio,
            "of_limit": off / on / run.limit.ratio,
            "hit_rate": run.cached_tokens / run.prompt_tokens,
            "hit_rate_limit": run.limit.hit_rate,
            "prompt_tokens": run.prompt_tokens,
            "prefill_tokens_saved": run.cached_tokens,
            "answer_tokens": run.answer_tokens,
        }
        for arm, seconds in zip(ARMS, (off, on), strict=True):
            runs: list[Run] = getattr(self, arm)
            waits = sorted(wait for run in runs for wait in run.first_tokens)
            found[f"seconds_{arm}"] = seconds
            found[f"spread_{arm}"] = (max(r.seconds for r in runs) - min(r.seconds for r in runs)) / seconds
            found[f"tokens_per_s_{arm}"] = run.answer_tokens / seconds
            found[f"ttft_p50_{arm}"] = median(waits)
            found[f"ttft_p95_{arm}"] = waits[int(0.95 * (len(waits) - 1))]
        return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", help=f"of {', '.join(SHAPES)}; by default 40m,135m, with --quick 40m")
    parser.add_argument("--rounds", type=int, help="by default 5, with --quick 1")
    parser.add_argument("--max-running", type=int, default=16, help="most requests in a batch, in both arms")
    parser.add_argument("--quick", action="store_true", help="64 of shared_2000's 100 requests, one round")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    names = (given.models or ("40m" if given.quick else "40m,135m")).split(",")
    rounds = given.rounds or (1 if given.quick else 5)
    models = {name: measure(name, rounds, given.max_running, quick=given.quick) for name in names}
    if given.json:
        write_json(given.json, {**models[names[0]], "models": models})


def measure(name: str, rounds: int, max_running: int, *, quick: bool) -> dict[str, object]:
    """Measure one model and print its tables."""
    with tempfile.TemporaryDirectory() as folder:
        model = str(write_config(name, Path(folder)))
        core = build_core(
            EngineConfig(
                model=model, load_format="dummy", device="cpu", kv_tokens=2**18, max_running=max_running
            )
        )
    dtype = core.model_info.dtype
    title = f"{name} {dtype}, batches of at most {max_running}, {rounds} round(s), one thread, CPU time"
    if name != "40m" and dtype == "float32":
        title += "\n(this CPU does not compute in bfloat16 natively: float32 instead)"
    run(core, [Ask(list(range(5, 69)), 4)], cached=True)  # what the first use of a kernel costs
    figures = {}
    for workload_name in PUBLISHED:
        arms = Arms()
        for seed in range(rounds):
            requests = 64 if quick and workload_name == "shared_2000" else None
            take_turns(core, arms, workload_name, requests, seed)
        figures[workload_name] = arms.figures()
        print(f"{workload_name}: {figures[workload_name]['ratio']:.2f} ×", flush=True)
    control = Arms()
    for seed in range(max(rounds, 5)):
        take_turns(core, control, "nothing_shared", 8, seed)
    ttft = first_token(core, 3 if quick else 9)
    best_off, best_on = (min(r.seconds for r in getattr(control, arm)) for arm in ARMS)
    overhead = best_on / best_off - 1
    show(title, figures, overhead, ttft)
    return {
        "model": name,
        "dtype": dtype,
        "rounds": rounds,
        "max_running": max_running,
        "workloads": figures,
        "control": {"overhead": overhead, **control.figures()},
        "ttft": ttft,
    }


def take_turns(core: EngineCore, arms: Arms, name: str, requests: int | None, seed: int) -> None:
    """One round of a workload: both arms, the first one changing from round to round."""
    for arm in ARMS if seed % 2 == 0 else ARMS[::-1]:
        asks = workload(name, core.model_info.vocab_size, requests=requests, seed=seed)
        getattr(arms, arm).append(run(core, asks, cached=arm == "on"))


def run(core: EngineCore, asks: list[Ask], *, cached: bool) -> Run:
    """Answer all of `asks` and what follows from them, from an empty cache on."""
    core.reset_state()
    cache = core.scheduler.cache
    cache.enabled = cached  # what the option radix_cache sets
    asked: dict[str, tuple[Ask, float]] = {}
    history: list[tuple[list[int], Sequence[int]]] = []  # (prompt, its answer; empty when it was asked)
    outputs: list[RequestOutput] = []
    waits = []

    def add(ask: Ask) -> None:
        params = SamplingParams(max_tokens=ask.max_tokens, temperature=0, ignore_eos=True)
        request = core.make_request(str(len(asked)), ask.prompt, params, "", 0)
        asked[request.id] = ask, time.thread_time()
        history.append((ask.prompt, ()))
        core.add_request(request)

    start = time.thread_time()
    for ask in asks:
        add(ask)
    while core.has_work:
        for request, output in core.step():
            ask, since = asked[request.id]
            if output.completion_tokens == 1:
                waits.append(time.thread_time() - since)
            if output.finish is not None:
                outputs.append(output)
                answer = request.tokens[request.prompt_len :]
                history.append((ask.prompt, answer))
                for later in ask.then(answer):
                    add(later)
    seconds = time.thread_time() - start
    limit = Limit(cache.page_size)
    for prompt, answer in history:
        limit.answered(prompt, answer) if answer else limit.asked(prompt)
    return Run(
        seconds,
        waits,
        prompt_tokens=sum(output.prompt_tokens for output in outputs),
        cached_tokens=sum(output.cached_tokens for output in outputs),
        answer_tokens=sum(output.completion_tokens for output in outputs),
        limit=limit,
    )


def first_token(core: EngineCore, rounds: int) -> dict[str, float]:
    """Median seconds to the first token after a system prompt of 1,000 and a question of 100 tokens."""
    core.reset_state()
    draw = random.Random(0)
    times: dict[str, list[float]] = {"cold": [], "warm": []}
    for number in range(rounds):
        system = [draw.randrange(5, core.model_info.vocab_size) for _ in range(1000)]
        for state, found in times.items():
            question = [draw.randrange(5, core.model_info.vocab_size) for _ in range(100)]
            params = SamplingParams(max_tokens=1, temperature=0, ignore_eos=True)
            start = time.thread_time()
            core.add_request(core.make_request(f"{state}-{number}", system + question, params, "", 0))
            while core.has_work:
                core.step()
            found.append(time.thread_time() - start)
    cold, warm = median(times["cold"]), median(times["warm"])
    return {"cold_s": cold, "warm_s": warm, "ratio": cold / warm}


def show(title: str, figures: dict[str, dict[str, float]], overhead: float, ttft: dict[str, float]) -> None:
    columns = ["", "off s", "on s", "ratio", "limit", "of it %", "hits %", "possible %", "prefill saved"]
    rows = [
        [
            name,
            f["seconds_off"],
            f["seconds_on"],
            f["ratio"],
            f["token_limit"],
            100 * f["of_limit"],
            100 * f["hit_rate"],
            100 * f["hit_rate_limit"],
            f"{f['prefill_tokens_saved']:,.0f} of {f['prompt_tokens']:,.0f}",
        ]
        for name, f in figures.items()
    ]
    print_table(title, columns, rows)
    columns = ["", "tok/s off", "on", "TTFT p50 s off", "on", "p95 s off", "on", "spread % off", "on"]
    parts = [("tokens_per_s", 1), ("ttft_p50", 1), ("ttft_p95", 1), ("spread", 100)]
    print_table(
        "Answer tokens per second, time to first token (waiting for a place included), spread of the rounds",
        columns,
        [
            [name, *(scale * f[f"{part}_{arm}"] for part, scale in parts for arm in ARMS)]
            for name, f in figures.items()
        ],
    )
    print(
        f"\nTime to first token, 1,000 + 100 tokens: cold {1e3 * ttft['cold_s']:,.0f} ms, "
        f"warm {1e3 * ttft['warm_s']:,.0f} ms, ratio {ttft['ratio']:.1f}"
        f"\nNothing shared: {100 * overhead:+.2f} % time with the cache on (best of the rounds)"
    )


if __name__ == "__main__":
    main()
