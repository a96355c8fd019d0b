"""Drive an engine core in tests: step by step, with every invariant checked after each step."""

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from radixway.core.config.engine import EngineConfig
from radixway.engine.build import build_core
from radixway.engine.engine_core import EngineCore
from radixway.engine.engine_request import EngineRequest, RequestOutput
from radixway.engine.sampling_params import SamplingParams

GREEDY = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)


def tiny_core(path: Path, **options: Any) -> EngineCore:
    """A core over the model in `path`: float32, pages of 4 tokens, unless `options` say otherwise."""
    defaults = {"model": str(path), "dtype": "float32", "device": "cpu", "page_size": 4, "kv_tokens": 2048}
    return build_core(EngineConfig(**defaults | options))


def submit(
    core: EngineCore,
    prompt: Sequence[int],
    params: SamplingParams = GREEDY,
    *,
    name: str = "",
    **options: Any,
) -> EngineRequest:
    """Queue one request."""
    name = name or f"r{core.stats().requests}"
    request = core.make_request(
        name, prompt, params, options.get("namespace", ""), options.get("priority", 0)
    )
    core.add_request(request)
    return request


def step(core: EngineCore) -> list[RequestOutput]:
    """One step, and a look at every account."""
    outputs = core.step()
    core.scheduler.check()
    return [output for _, output in outputs]


def finish(core: EngineCore, most_steps: int = 10_000) -> list[RequestOutput]:
    """Step until nothing is left to do."""
    outputs = []
    for _ in range(most_steps):
        if not core.has_work:
            return outputs
        outputs += step(core)
    raise AssertionError(f"still busy after {most_steps} steps")


def answers(
    core: EngineCore, prompts: Sequence[Sequence[int]], params: SamplingParams = GREEDY
) -> list[list[int]]:
    """What each prompt is continued by, when all are there from the start."""
    requests = [submit(core, prompt, params) for prompt in prompts]
    finish(core)
    return [list(request.tokens[request.prompt_len :]) for request in requests]


def last_logits(core: EngineCore, prompts: Sequence[Sequence[int]]) -> list[Tensor]:
    """The logits after the last token of each prompt, however many steps they take together."""
    requests = [core.make_request(f"p{i}", prompt, GREEDY, "", 0) for i, prompt in enumerate(prompts)]
    for request in requests:
        core.add_request(request)
    found: dict[str, Tensor] = {}
    while core.has_work:
        work = core.scheduler.schedule()
        logits, ended = core.runner.execute_model(work)
        core.scheduler.update_after_step(work)
        for row, request in zip(logits, ended, strict=True):
            found[request.id] = row.clone()
            core.scheduler.finish_request(request)
        core.scheduler.check()
    return [found[request.id] for request in requests]


def random_tokens(count: int, seed: int = 0, vocabulary: int = 320) -> "array[int]":
    """A prompt without meaning."""
    generator = torch.Generator().manual_seed(seed)
    return array("i", torch.randint(3, vocabulary, (count,), generator=generator).tolist())
