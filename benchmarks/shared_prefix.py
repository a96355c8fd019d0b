"""What attending once to a shared prefix gives a decoding batch: the same engine with it and without.

    python benchmarks/shared_prefix.py [--dummy SHAPE] [--threads N] [--quick] [--json FILE]

B requests decode greedily over a prefix they all share and 64 tokens of their own, in float32. Both ways run
in turns in one process; medians of several rounds. With one thread (the default) times are CPU time.
"""

import argparse
import statistics
import tempfile
import time
from array import array
from collections.abc import Callable
from pathlib import Path

import torch

from engine_speed import dummy_model, prompt
from radixway.core.config.engine import EngineConfig
from radixway.engine.build import build_core
from radixway.engine.engine_core import EngineCore
from radixway.engine.sampling_params import SamplingParams
from report import print_table, write_json
from shapes import SHAPES

OWN = 64
CASES = ((2048, 4), (2048, 16), (512, 16), (128, 16))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dummy", choices=SHAPES, default="40m", help="random weights of this Llama shape")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and steps; ends within a minute")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    clock = time.thread_time if given.threads == 1 else time.perf_counter
    steps, rounds = (4, 3) if given.quick else (16, 5)
    with tempfile.TemporaryDirectory() as folder:
        directory = dummy_model(given.dummy, Path(folder))
        config = EngineConfig(model=str(directory), dtype="float32", device="cpu", kv_tokens=16384)
        core = build_core(config)
    figures = {}
    for prefix, batch in CASES:
        seconds: dict[bool, list[float]] = {False: [], True: []}
        for number in range(rounds):
            for share in (number % 2 == 0, number % 2 == 1):
                seconds[share].append(time_decode(core, clock, prefix, batch, steps, share))
        each, once = (batch * steps / statistics.median(seconds[share]) for share in (False, True))
        figures[f"B={batch} over {prefix}"] = {"each": each, "once": once, "ratio": once / each}
    columns = ["", "each for itself tok/s", "once for all tok/s", "ratio"]
    rows = [[name, figure["each"], figure["once"], figure["ratio"]] for name, figure in figures.items()]
    print_table(f"{given.dummy}, float32, {given.threads} thread(s)", columns, rows)
    if given.json:
        write_json(given.json, figures)


def time_decode(
    core: EngineCore, clock: Callable[[], float], prefix: int, batch: int, steps: int, share: bool
) -> float:
    """Seconds for `steps` steps of a batch that has its prompts computed."""
    core.flush_cache()
    core.runner.attention.shares = share
    vocabulary = core.model_info.vocab_size
    params = SamplingParams(max_tokens=steps + batch + 64, temperature=0, ignore_eos=True)
    common = prompt(vocabulary, prefix, 0)
    requests = [
        core.make_request(f"{share}-{i}", array("i", common + prompt(vocabulary, OWN, i + 1)), params, "", 0)
        for i in range(batch)
    ]
    for request in requests:
        core.add_request(request)
    while any(request.num_remaining_tokens > 1 or request.node is None for request in requests):
        core.step()
    start = clock()
    for _ in range(steps):
        core.step()
    seconds = clock() - start
    for request in requests:
        core.abort_request(request)
    return seconds


if __name__ == "__main__":
    main()
