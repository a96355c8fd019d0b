"""What weights and KV in few bits cost in accuracy, and what they save in memory.

    python benchmarks/quantization.py [--model DIR] [--quick] [--json FILE]

The model as it is, in float32, answers questions greedily. The same tokens are then given to each variant,
one after another as if it had sampled them, and its distribution of every next token is compared with the
full model's: *KL* is the mean of KL(full ‖ variant) in nats, *agrees* how often both have the same likeliest
token. *same answer*: how many answers are word for word the same when the variant answers by itself.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from radixway.core.config.engine import EngineConfig
from radixway.core.tokenizer import Tokenizer
from radixway.engine.build import build_core
from radixway.engine.engine_core import EngineCore
from radixway.engine.engine_request import EngineRequest
from radixway.engine.errors import EngineError
from radixway.engine.sampling_params import SamplingParams
from report import print_table, write_json

VARIANTS: dict[str, dict[str, Any]] = {
    "KV int8": {"kv_cache_dtype": "int8"},
    "KV fp8": {"kv_cache_dtype": "fp8"},
    "weights int8wo": {"quantization": "int8wo"},
    "weights int4wo": {"quantization": "int4wo"},
    "weights int8wo, KV int8": {"quantization": "int8wo", "kv_cache_dtype": "int8"},
    "bfloat16": {"dtype": "bfloat16"},
}
QUESTIONS = [
    "What is a radix tree?",
    "What is a KV cache?",
    "What is prefix caching?",
    "What is continuous batching?",
    "What is a gateway?",
    "How does RadixAttention work?",
    "What is a semantic cache?",
    "What is speculative decoding?",
    "什么是 KV cache?",
    "什么是基数树?",
    "什么是前缀缓存?",
    "Why does the order of requests matter?",
]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="bundled", help="directory or hub id; by default the bundled one")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="fewer questions; ends within a minute")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    questions, longest = (QUESTIONS[:4], 64) if given.quick else (QUESTIONS, 256)
    full = core_of(given.model)
    prompts = [prompt_ids(Tokenizer.load(full.model_info.path), question) for question in questions]
    spoken = answers(full, prompts, longest)
    expected = forced(full, prompts, spoken)
    figures: dict[str, dict[str, float]] = {}
    for name, options in VARIANTS.items():
        try:
            core = core_of(given.model, **options)
        except EngineError as error:
            print(f"{name}: left out, {error}")
            continue
        figures[name] = compare(core, prompts, spoken, expected, longest) | sizes(core)
    tokens = sum(map(len, spoken))
    columns = ["", "KL, nats", "agrees %", "same answer %", "KV bytes/token", "layers' MB"]
    itself = {"kl": 0.0, "agreement": 1.0, "same_answers": 1.0} | sizes(full)
    rows = [
        [name, f"{f['kl']:.5f}", 100 * f["agreement"], 100 * f["same_answers"], int(f["kv_bytes"]), f["mb"]]
        for name, f in {"float32": itself, **figures}.items()
    ]
    print_table(f"{given.model}: {len(prompts)} answers, {tokens} tokens, against float32", columns, rows)
    if given.json:
        write_json(given.json, {"model": given.model, "tokens": tokens, "variants": figures})


def core_of(model: str, **options: Any) -> EngineCore:
    """An engine core in float32 unless `options` say otherwise."""
    return build_core(EngineConfig(**{"model": model, "dtype": "float32", "kv_tokens": 8192} | options))


def prompt_ids(tokenizer: Tokenizer, question: str) -> list[int]:
    """A chat of one question."""
    text = tokenizer.render([{"role": "user", "content": question}], add_generation_prompt=True)
    return tokenizer.encode(text, add_special_tokens=False)


def answers(core: EngineCore, prompts: list[list[int]], longest: int) -> list[list[int]]:
    """Greedy answers, of at most `longest` tokens."""
    params = SamplingParams(temperature=0, max_tokens=longest)
    requests = [core.make_request(f"a{i}", prompt, params, "", 0) for i, prompt in enumerate(prompts)]
    for request in requests:
        core.add_request(request)
    while core.has_work:
        core.step()
    return [list(request.tokens[request.prompt_len :]) for request in requests]


def forced(core: EngineCore, prompts: list[list[int]], spoken: list[list[int]]) -> list[Tensor]:
    """Log-probabilities [len(answer), vocabulary] before each token of each answer, decoded one by one."""
    core.flush_cache()
    params = SamplingParams(temperature=0, max_tokens=max(map(len, spoken)))
    requests = [core.make_request(f"f{i}", prompt, params, "", 0) for i, prompt in enumerate(prompts)]
    rows: dict[EngineRequest, list[Tensor]] = {request: [] for request in requests}
    for request in requests:
        core.add_request(request)
    texts = dict(zip(requests, spoken, strict=True))
    while core.has_work:
        work = core.scheduler.schedule()
        logits, ended = core.runner.execute_model(work)
        core.scheduler.update_after_step(work)
        for row, request in zip(logits, ended, strict=True):
            rows[request].append(row.log_softmax(-1).clone())
            if len(rows[request]) == len(texts[request]):
                core.scheduler.finish_request(request)
            else:
                request.tokens.append(texts[request][len(rows[request]) - 1])
    return [torch.stack(rows[request]) for request in requests]


def compare(
    core: EngineCore, prompts: list[list[int]], spoken: list[list[int]], expected: list[Tensor], longest: int
) -> dict[str, float]:
    """How far `core` is from what was expected."""
    full, ours = torch.cat(expected), torch.cat(forced(core, prompts, spoken))
    kl = (full.exp() * (full - ours)).sum(-1)
    own = answers(core, prompts, longest)
    return {
        "kl": float(kl.mean()),
        "agreement": float((full.argmax(-1) == ours.argmax(-1)).float().mean()),
        "same_answers": sum(a == b for a, b in zip(own, spoken, strict=True)) / len(spoken),
    }


def sizes(core: EngineCore) -> dict[str, float]:
    """Bytes of KV per token, and of the layers' weights in 10**6 bytes."""
    store = core.runner._attention._store  # type: ignore[attr-defined]
    layers = core.runner.model.layers
    linears = [linear for layer in layers for linear in (layer.qkv, layer.output, layer.gate_up, layer.down)]
    return {
        "kv_bytes": store.page_bytes / store.page_size,
        "mb": sum(stored_bytes(linear._weight) for linear in linears) / 1e6,
    }


def stored_bytes(weight: Tensor) -> int:
    """Bytes of a weight, or of the tensors that a rounded one is made of."""
    if hasattr(weight, "__tensor_flatten__"):
        return sum(stored_bytes(getattr(weight, name)) for name in weight.__tensor_flatten__()[0])
    return weight.numel() * weight.element_size()


if __name__ == "__main__":
    main()
