"""GRPO on the bundled model, through the gateway. See README.md.

python examples/rl_rollout/train.py [--steps 12] [--prompts 4] [--group 16] [--seed 0] [--overlap]
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from statistics import mean

import aiohttp
import torch
import transformers

import radixway
from policy import Policy, Update, group_advantages
from processes import gateway_with_engines
from rollout import Gateway, Rollout

GUIDE = Path(radixway.__file__).parent / "bundled" / "guide"
QUESTIONS = [
    "What is a radix tree?",
    "What is a KV cache?",
    "How do I add a worker?",
    "What is Radixway?",
    "What is continuous batching?",
    "Tell me about the sea.",
    "Which port does the gateway use?",
    "What is prefix caching?",
]


def reward(text: str) -> float:
    """The toy: how much of an answer is the letter `e`."""
    return text.count("e") / max(len(text), 1)


async def train(asked: argparse.Namespace, show: Callable[[dict], None]) -> None:
    """Sample, learn, push, again; `show` is told of every step."""
    torch.manual_seed(asked.seed)
    torch.set_num_threads(asked.threads)
    prompts = chat_prompts(asked.prompts)
    policy = Policy(str(GUIDE), learning_rate=asked.learning_rate)
    running = nullcontext(asked.url) if asked.url else gateway_with_engines(asked.engines)
    async with running as url, aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=600)) as client:
        gateway = Gateway(url, client, in_flight=asked.in_flight, max_new_tokens=asked.max_new_tokens)

        def sample(step: int) -> asyncio.Task[list[list[Rollout | None]]]:
            seed = (asked.seed * 1000 + step) * 100_000
            return asyncio.create_task(gateway.sample(prompts, asked.group, seed))

        await gateway.push(policy.weights(), 0)
        sampling = sample(0)
        for step in range(asked.steps):
            groups = await sampling
            if asked.overlap and step + 1 < asked.steps:
                sampling = sample(
                    step + 1
                )  # with the weights there are; the new ones come in the middle of it
            kept = [[rollout for rollout in group if rollout is not None] for group in groups]
            rewards = [[reward(rollout.text) for rollout in group] for group in kept]
            rollouts = [rollout for group in kept for rollout in group]
            advantages = [gain for group in rewards for gain in group_advantages(group)]
            update = await asyncio.to_thread(policy.update, rollouts, advantages, version=step)
            await gateway.push(policy.weights(), step + 1, abort=asked.overlap)
            show(told(step, groups, rollouts, rewards, update))
            if not asked.overlap and step + 1 < asked.steps:
                sampling = sample(step + 1)


def told(
    step: int,
    groups: list[list[Rollout | None]],
    rollouts: list[Rollout],
    rewards: list[list[float]],
    update: Update,
) -> dict:
    """What there is to say of a step."""
    versions = [version for rollout in rollouts for version in rollout.versions if version is not None]
    return {
        "step": step,
        "reward": mean(value for group in rewards for value in group),
        "exact": len(rollouts) / sum(map(len, groups)),
        "versions": sorted(set(versions)),
        "mixed": sum(len({*rollout.versions} - {None}) > 1 for rollout in rollouts),
        "staleness": mean(step - version for version in versions),
        "gap": update.gap,
        "kl": update.kl,
        "clipped": update.clipped,
        "text": max(rollouts, key=lambda rollout: reward(rollout.text)).text,
    }


def chat_prompts(count: int) -> list[str]:
    """The first questions, as the model's chat template writes them."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(GUIDE)
    return [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], tokenize=False, add_generation_prompt=True
        )
        for question in QUESTIONS[:count]
    ]


def print_row(row: dict) -> None:
    """One line of the table."""
    if row["step"] == 0:
        print("step  reward  exact  versions  mixed  staleness  max |Δlogp|  KL to first  clipped")
    versions = ",".join(map(str, row["versions"]))
    print(
        f"{row['step']:4}  {row['reward']:6.3f}  {row['exact']:5.0%}  {versions:>8}  {row['mixed']:5}"
        f"  {row['staleness']:9.2f}  {row['gap']:11.1e}  {row['kl']:11.4f}  {row['clipped']:7.1%}",
        flush=True,
    )


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", help="a gateway that runs with --trajectories and the bundled model")
    parser.add_argument("--engines", type=int, default=1, help="how many to start where there is no --url")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--group", type=int, default=16, help="answers to each prompt")
    parser.add_argument("--in-flight", type=int, default=64, help="answers asked for at a time")
    parser.add_argument("--max-new-tokens", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=2e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--overlap", action="store_true", help="sample the next step's answers while training"
    )
    parser.add_argument("--log", type=Path, help="a JSONL file for the table's rows")
    return parser.parse_args(given)


def main() -> None:
    """Train, and print a table."""
    asked = arguments()
    transformers.utils.logging.disable_progress_bar()

    def show(row: dict) -> None:
        print_row(row)
        if asked.log:
            with asked.log.open("a") as log:
                log.write(json.dumps(row) + "\n")

    asyncio.run(train(asked, show))


if __name__ == "__main__":
    main()
