"""How fast the engine computes, beside `transformers` on the same weights, and what its own Python costs.

    python benchmarks/engine_speed.py [--model DIR | --dummy SHAPE] [--threads N] [--quick] [--json FILE]

*prefill*: one prompt of 512 tokens, nothing cached. *decode*: B requests of 256 tokens each, tokens a second
over all of them. *scheduling* is what a decode step spends outside the forward pass (choosing work, pages,
tree, sampling, outputs). Both engines run in turns in one process, greedily, in float32; best of several
rounds. With one thread (the default) times are CPU time, so that others on the machine disturb little; with
more they are wall time.
"""

import argparse
import tempfile
import time
from array import array
from collections.abc import Callable
from pathlib import Path

import torch

from radixway.core.config.engine import EngineConfig
from radixway.engine.build import build_core
from radixway.engine.engine_core import EngineCore
from radixway.engine.model_loader import find_model
from radixway.engine.sampling_params import SamplingParams
from report import print_table, write_json
from shapes import SHAPES, llama_config

PROMPT, CONTEXT = 512, 256


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", default="bundled", help="directory or hub id; by default the bundled model"
    )
    parser.add_argument("--dummy", choices=SHAPES, help="random weights of a Llama shape instead")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and tokens; ends within a minute")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    clock = time.thread_time if given.threads == 1 else time.perf_counter
    steps, rounds = (16, 2) if given.quick else (48, 5)
    with tempfile.TemporaryDirectory() as folder:
        directory = dummy_model(given.dummy, Path(folder)) if given.dummy else find_model(given.model)
        figures = measure(directory, clock, steps, rounds)
    columns = ["", "ours tok/s", "transformers tok/s", "ratio", "scheduling µs/token"]
    rows = [
        [name, f["ours"], f["transformers"], f["ours"] / f["transformers"], f.get("scheduling_us")]
        for name, f in figures.items()
    ]
    print_table(f"{given.dummy or given.model}, float32, {given.threads} thread(s)", columns, rows)
    if given.json:
        write_json(given.json, {"model": given.dummy or given.model, "threads": given.threads, **figures})


def measure(
    directory: Path, clock: Callable[[], float], steps: int, rounds: int
) -> dict[str, dict[str, float]]:
    """Tokens per second of both, by what they do."""
    from transformers import AutoModelForCausalLM

    theirs = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    core = build_core(EngineConfig(model=str(directory), dtype="float32", device="cpu", kv_tokens=16384))
    figures: dict[str, dict[str, float]] = {"prefill": {"ours": 0.0, "transformers": 0.0}}
    for batch in (1, 8, 16):
        figures[f"decode B={batch}"] = {"ours": 0.0, "transformers": 0.0, "scheduling_us": float("inf")}
    for number in range(rounds):
        best(figures["prefill"], "ours", PROMPT / time_prefill(core, clock, number))
        best(figures["prefill"], "transformers", PROMPT / time_their_prefill(theirs, clock, number))
        for batch in (1, 8, 16):
            figure = figures[f"decode B={batch}"]
            whole, outside = time_decode(core, clock, batch, steps)
            best(figure, "ours", batch * steps / whole)
            figure["scheduling_us"] = min(figure["scheduling_us"], 1e6 * outside / (batch * steps))
            best(figure, "transformers", batch * steps / time_their_decode(theirs, clock, batch, steps))
    return figures


def best(figure: dict[str, float], name: str, value: float) -> None:
    figure[name] = max(figure[name], value)


def prompt(core_vocabulary: int, length: int, seed: int) -> "array[int]":
    generator = torch.Generator().manual_seed(seed)
    return array("i", torch.randint(5, core_vocabulary, (length,), generator=generator).tolist())


def time_prefill(core: EngineCore, clock: Callable[[], float], seed: int) -> float:
    """Seconds for one uncached prompt and its first token."""
    core.flush_cache()
    ids = prompt(core.model_info.vocab_size, PROMPT, seed)
    core.add_request(
        core.make_request(f"prefill-{seed}", ids, SamplingParams(max_tokens=1, temperature=0), "", 0)
    )
    start = clock()
    while core.has_work:
        core.step()
    return clock() - start


def time_decode(core: EngineCore, clock: Callable[[], float], batch: int, steps: int) -> tuple[float, float]:
    """Seconds for `steps` steps of a full batch, and those of them outside the model."""
    core.flush_cache()
    params = SamplingParams(max_tokens=steps + 8, temperature=0, ignore_eos=True)
    requests = [
        core.make_request(f"{batch}-{i}", prompt(core.model_info.vocab_size, CONTEXT, i), params, "", 0)
        for i in range(batch)
    ]
    for request in requests:
        core.add_request(request)
    while any(request.num_remaining_tokens > 1 or request.node is None for request in requests):
        core.step()
    inside = 0.0
    run = core.runner.execute_model

    def timed(work):  # type: ignore[no-untyped-def]
        nonlocal inside
        start = clock()
        result = run(work)
        inside += clock() - start
        return result

    core.runner.execute_model = timed  # type: ignore[method-assign]
    start = clock()
    for _ in range(steps):
        core.step()
    whole = clock() - start
    core.runner.execute_model = run  # type: ignore[method-assign]
    for request in requests:
        core.abort_request(request)
    return whole, whole - inside


def time_their_prefill(model, clock: Callable[[], float], seed: int) -> float:  # type: ignore[no-untyped-def]
    ids = torch.tensor([prompt(model.config.vocab_size, PROMPT, seed).tolist()])
    with torch.inference_mode():
        start = clock()
        model(ids, logits_to_keep=1)
        return clock() - start


def time_their_decode(model, clock: Callable[[], float], batch: int, steps: int) -> float:  # type: ignore[no-untyped-def]
    """Like `generate`, without what it does besides."""
    from transformers import DynamicCache

    ids = torch.tensor([prompt(model.config.vocab_size, CONTEXT, i).tolist() for i in range(batch)])
    cache = DynamicCache(config=model.config)
    with torch.inference_mode():
        ids = model(ids, past_key_values=cache, logits_to_keep=1).logits[:, -1].argmax(-1, keepdim=True)
        start = clock()
        for _ in range(steps):
            ids = model(ids, past_key_values=cache).logits[:, -1].argmax(-1, keepdim=True)
        return clock() - start


def dummy_model(name: str, directory: Path) -> Path:
    """A Llama of that shape with random weights, saved for both to load."""
    import transformers

    config = transformers.LlamaConfig(**llama_config(name))
    transformers.LlamaForCausalLM(config).save_pretrained(directory)
    return directory


if __name__ == "__main__":
    main()
