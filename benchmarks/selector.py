"""What choosing a worker costs: block index and selector, per call, and what the index weighs.

    python benchmarks/selector.py [--rounds N] [--quick] [--json FILE]

One process, one thread, CPU time; a figure is the median over the rounds of the mean over a round's calls.
A choice is `Selector.select_worker`, `reserve`, and the lease's `release`, by `expected_time` unless said
otherwise,
for a prompt of 100 blocks of which workers hold eight different shares; each is busy with eight requests.
*hash* is naming the blocks of a prompt, which comes before. The index is filled as KV events fill it; the map
for removals is what a worker's feed keeps beside it (`kv_events`). Memory is what the process grows by.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from statistics import median

import psutil

from radixway.core.config import RoutingConfig, WorkerSettings, parse_policy
from radixway.routing import RoutingRequest, Selector, Worker
from radixway.routing.block_hash import hash_token_blocks
from report import print_table, write_json

BLOCK_TOKENS = 16


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, help="by default 15, with --quick 5")
    parser.add_argument("--quick", action="store_true", help="a smaller index and fewer rounds")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rounds = given.rounds or (5 if given.quick else 15)
    entries = 100_000 if given.quick else 1_000_000
    memory = index_memory(entries)
    picks = {count: pick_times(count, "expected_time", rounds) for count in (1, 8, 100)}
    policies = {
        name: pick_times(8, name, rounds)["pick_us"]
        for name in ("round_robin", "least_loaded", "power_of_two", "kv_aware", "expected_time")
    }
    matches = {blocks: match_time(blocks, entries, rounds) for blocks in (100, 1000)}
    hashes = {blocks: hash_time(blocks, rounds) for blocks in (100, 1000)}
    show(picks, policies, matches, hashes, memory)
    if given.json:
        write_json(
            given.json,
            {
                "pick_us": picks,
                "policies_us": policies,
                "match_us": matches,
                "hash_us": hashes,
                "memory": memory,
            },
        )


def fleet(count: int, policy: str) -> tuple[Selector, list[Worker]]:
    """A selector by that policy and so many workers, whose events it follows."""
    selector = Selector(RoutingConfig(policy=parse_policy(policy)), rng=random.Random(0))
    workers = [Worker(WorkerSettings(url=f"http://worker-{number}")) for number in range(count)]
    for worker in workers:
        selector.add_worker(worker)
        selector.index.set_followed(worker.slot, True)
    return selector, workers


def names(count: int, draw: random.Random) -> list[int]:
    """Names of blocks as hashes are: 64 random bits."""
    return [draw.getrandbits(64) for _ in range(count)]


def timed(call: Callable[[], object], rounds: int, calls: int) -> float:
    """Microseconds of CPU time per call."""
    call()
    found = []
    for _ in range(rounds):
        gc.collect()
        start = time.process_time()
        for _ in range(calls):
            call()
        found.append((time.process_time() - start) / calls * 1e6)
    return median(found)


def pick_times(count: int, policy: str, rounds: int) -> dict[str, float]:
    """A choice among `count` workers for a prompt of 100 blocks, and its parts."""
    draw = random.Random(1)
    selector, workers = fleet(count, policy)
    blocks = names(100, draw)
    for number, worker in enumerate(workers):
        selector.index.add_blocks(worker.slot, blocks[: 13 * (number % 8)])
        selector.index.add_blocks(worker.slot, names(1000, draw))
        for _ in range(8):
            selector.ledger.reserve(worker, RoutingRequest(stream=True), draw.randrange(10_000))
    request = RoutingRequest(
        tokens=100 * BLOCK_TOKENS + 5, blocks=blocks, block_tokens=BLOCK_TOKENS, tokenized=True, stream=True
    )

    def whole() -> None:
        selector.reserve(selector.select_worker(request, workers)).release()

    return {
        "pick_us": timed(whole, rounds, 300),
        "choose_us": timed(lambda: selector.select_worker(request, workers), rounds, 300),
    }


def match_time(blocks: int, entries: int, rounds: int) -> float:
    """A prompt of so many blocks, all held by one of eight workers, in an index of so many entries."""
    draw = random.Random(2)
    selector, workers = fleet(8, "kv_aware")
    prompt = names(blocks, draw)
    for number, worker in enumerate(workers):
        selector.index.add_blocks(worker.slot, prompt[: blocks * (number + 1) // 8])
        selector.index.add_blocks(worker.slot, names(entries // 8, draw))
    return timed(lambda: selector.index.match_prefix(prompt, 0.0), rounds, 300)


def hash_time(blocks: int, rounds: int) -> float:
    packed = array("I", (random.Random(3).randrange(100_000) for _ in range(blocks * BLOCK_TOKENS))).tobytes()
    return timed(lambda: hash_token_blocks(packed, BLOCK_TOKENS), rounds, 100)


def index_memory(entries: int) -> dict[str, float]:
    """MB of an index of so many blocks of one worker, without and with the map for its removals."""
    draw = random.Random(4)
    process = psutil.Process()
    selector, (worker,) = fleet(1, "kv_aware")
    gc.collect()
    before = process.memory_info().rss
    for _ in range(entries // 1000):
        selector.index.add_blocks(worker.slot, names(1000, draw))
    gc.collect()
    alone = process.memory_info().rss
    removals = {draw.getrandbits(64): name for name in selector.index.blocks_in_tier(worker.slot)}
    gc.collect()
    with_maps = process.memory_info().rss
    assert len(removals) == entries
    scale = 1e6 * entries / 1_000_000
    return {
        "entries": entries,
        "mb_per_million": (alone - before) / scale,
        "mb_per_million_with_maps": (with_maps - before) / scale,
    }


def show(
    picks: dict[int, dict[str, float]],
    policies: dict[str, float],
    matches: dict[int, float],
    hashes: dict[int, float],
    memory: dict[str, float],
) -> None:
    base = picks[8]["pick_us"]
    print_table(
        "A choice for a prompt of 100 blocks, µs of CPU time",
        ["workers", "pick, reserve, free", "of it pick", "beside 8 workers"],
        [[count, f["pick_us"], f["choose_us"], f["pick_us"] / base] for count, f in picks.items()],
    )
    print_table(
        "By policy, 8 workers",
        ["policy", "pick, reserve, free"],
        [[name, us] for name, us in policies.items()],
    )
    print_table(
        "The index, µs",
        ["blocks", "match", "hash"],
        [[blocks, matches[blocks], hashes[blocks]] for blocks in matches],
    )
    print(
        f"\nMemory per million blocks: {memory['mb_per_million']:.0f} MB, "
        f"with the map for removals {memory['mb_per_million_with_maps']:.0f} MB"
    )


if __name__ == "__main__":
    main()
