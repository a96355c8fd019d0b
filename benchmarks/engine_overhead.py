"""What scheduler, cache, plan and sampler cost beside the model, and whether that grows with what is cached.

    python benchmarks/engine_overhead.py [--rounds N] [--quick] [--json FILE]

The engine is whole; its model is tiny. Measured is the CPU time of a step without that of the model's forward
pass: Python for the most part, one thread, µs, medians of the rounds. The cache is full, with so many
sequences of 256 random tokens, and what a request adds has to be evicted. Every prompt has 256 tokens, of
which the first half is cached.

- *decode*: per generated token, in a batch of 1 and of 16; page borders and publishing included.
- *request*: per request, from being queued to its first and only token: matching, admission, eviction,
  publishing, sampling and release.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import deque
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from radixway.core.config.engine import EngineConfig
from radixway.engine.build import build_core
from radixway.engine.engine_request import EngineRequest
from radixway.engine.sampling_params import SamplingParams
from radixway.engine.transformer_model import AttendFunction, TransformerModel
from report import print_table, write_json
from shapes import write_config

CACHED = (10, 100, 1_000, 10_000)
PAGE_SIZES = (1, 16)
LENGTH = 256
STEPS = 32
BATCH = 16


class TimedModel(TransformerModel):
    """A model that counts the CPU time it takes."""

    seconds = 0.0

    def forward(self, tokens: Tensor, positions: Tensor, attend: AttendFunction) -> Tensor:
        start = time.thread_time()
        result = super().forward(tokens, positions, attend)
        self.seconds += time.thread_time() - start
        return result

    def compute_logits(self, hidden: Tensor) -> Tensor:
        start = time.thread_time()
        result = super().compute_logits(hidden)
        self.seconds += time.thread_time() - start
        return result


class Loaded:
    """An engine with a full cache of `cached` sequences."""

    def __init__(self, page_size: int, cached: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            config = EngineConfig(
                model=str(write_config("tiny", Path(folder))),
                load_format="dummy",
                device="cpu",
                dtype="float32",
                page_size=page_size,
                kv_tokens=(cached + 2 * BATCH) * LENGTH,
                max_running=BATCH,
            )
            self.core = build_core(config)
        self.model = TimedModel(
            *(getattr(self.core.runner.model, field.name) for field in fields(TransformerModel))
        )
        self.core.runner.model = self.model
        self._draw = random.Random(cached)
        self._names = iter(range(10**9))
        self._known: deque[list[int]] = deque(maxlen=cached)
        for _ in range(cached):
            self._cache(self._text(LENGTH))

    def decode(self, batch: int) -> float:
        """Seconds outside the model per generated token."""
        requests = [self._new(self._prompt(), STEPS + 2 * BATCH) for _ in range(batch)]
        for request in requests:
            self.core.add_request(request)
        while not all(request.completion_tokens for request in requests):
            self.core.step()
        start, inside, tokens = time.thread_time(), self.model.seconds, 0
        for _ in range(STEPS):
            tokens += len(self.core.step())
        seconds = time.thread_time() - start - (self.model.seconds - inside)
        for request in requests:
            self.core.abort_request(request)
        return seconds / tokens

    def request(self) -> float:
        """Seconds outside the model for one request of one token."""
        prompt = self._prompt()
        start, inside = time.thread_time(), self.model.seconds
        self.core.add_request(self._new(prompt, 1))
        while self.core.has_work:
            self.core.step()
        return time.thread_time() - start - (self.model.seconds - inside)

    def _prompt(self) -> list[int]:
        """One that begins like something that is cached: of the newer half, which is not evicted yet."""
        known = self._draw.choice(list(self._known)[len(self._known) // 2 :])
        prompt = known[: LENGTH // 2] + self._text(LENGTH // 2)
        self._known.append(prompt)
        return prompt

    def _new(self, prompt: list[int], max_tokens: int) -> EngineRequest:
        params = SamplingParams(max_tokens=max_tokens, temperature=0, ignore_eos=True)
        return self.core.make_request(str(next(self._names)), prompt, params, "", 0)

    def _cache(self, tokens: list[int]) -> None:
        """Have `tokens` in the cache without computing them."""
        cache, request = self.core.scheduler.cache, self._new(tokens, 1)
        cache.lock_prefix(request)
        cache.allocate_slots(request, LENGTH)
        request.num_computed_tokens = LENGTH
        cache.free_request(request)
        self._known.append(tokens)

    def _text(self, length: int) -> list[int]:
        return self._draw.choices(range(5, self.core.model_info.vocab_size), k=length)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, help="by default 25, with --quick 7")
    parser.add_argument("--quick", action="store_true", help="fewer rounds; ends within a minute")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    figures = measure(given.rounds or (7 if given.quick else 25))
    columns = ["µs outside the model", *(f"{cached:,} cached" for cached in CACHED), "last / first"]
    rows = [
        [name, *(found[cached] for cached in CACHED), found[CACHED[-1]] / found[CACHED[0]]]
        for name, found in figures.items()
    ]
    print_table("CPU time per generated token (decode) and per request, one thread", columns, rows)
    if given.json:
        write_json(
            given.json, {name: {str(n): us for n, us in found.items()} for name, found in figures.items()}
        )


def measure(rounds: int) -> dict[str, dict[int, float]]:
    """µs by kind and number of cached sequences; all of them take turns in every round."""
    kinds: dict[str, Callable[[Loaded], float]] = {
        "decode, batch 1": lambda engine: engine.decode(1),
        f"decode, batch {BATCH}": lambda engine: engine.decode(BATCH),
        "request": lambda engine: engine.request(),
    }
    found: dict[str, dict[int, float]] = {}
    for page_size in PAGE_SIZES:
        engines = {cached: Loaded(page_size, cached) for cached in CACHED}
        for name, kind in kinds.items():
            times: dict[int, list[float]] = {cached: [] for cached in CACHED}
            for number in range(rounds + 1):
                for cached, engine in engines.items():
                    seconds = kind(engine)
                    if number:  # the first round is for what happens only once
                        times[cached].append(seconds)
            found[f"page size {page_size}, {name}"] = {n: 1e6 * median(times[n]) for n in CACHED}
    return found


if __name__ == "__main__":
    main()
