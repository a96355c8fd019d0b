"""What an operation on the radix tree costs, and what a cached token weighs.

    python benchmarks/radix_tree.py [--quick] [--json FILE]

The tree holds 10,000 sequences of 2,000 to 8,000 tokens: *shared*, in 100 groups of 100 with 75 % in common,
or *apart*. Keys are packed token ids, in pages of 16 and of 1, with an array of page ids as the payload; or
text of four characters a token, with a payload that holds nothing. Every line runs in a process of its own.

Times are CPU time per call on the full tree, the median of several rounds over random sequences, so that most
of what is read comes from memory and not from a cache. The first column is the yardstick: comparing a
sequence with a copy of itself once, by `startswith`; no tree that looks at its keys can match faster. Memory
is what the resident set grew by while the tree was filled.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import resource
import statistics
import sys
import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from hashlib import shake_128
from multiprocessing import get_context
from operator import add
from pathlib import Path
from typing import Any, Self

from radixway.core.radix import RadixTree
from report import print_table, write_json

SEQUENCES = 10_000
GROUPS = 100
SHORTEST, LONGEST = 2_000, 8_000
SHARED = 0.75
LETTERS = bytes(b"etaoinshrdlucmfw"[i % 16] for i in range(256))

COLUMNS = {
    "compare": "one compare",
    "match": "match",
    "match_new": "+256 new",
    "miss": "miss",
    "match_lock_unlock": "match, lock, unlock",
    "insert": "insert",
    "split": "insert, split",
    "evict": "evict a leaf",
    "bytes_per_token": "bytes/token",
}


@dataclass(slots=True)
class Pages:
    """A payload of one page id per stride, as the engine's; empty where there is nothing to carry."""

    ids: array[int]

    def split(self, at: int) -> tuple[Self, Self]:
        return type(self)(self.ids[:at]), type(self)(self.ids[at:])

    def join(self, more: Self) -> Self:
        return type(self)(self.ids + more.ids)


@dataclass(frozen=True)
class Workload:
    """One line of the table."""

    text: bool
    page_size: int
    shared: bool

    @property
    def name(self) -> str:
        return f"{'text' if self.text else f'page {self.page_size}'}, {'shared' if self.shared else 'apart'}"

    @property
    def width(self) -> int:
        return 1 if self.text else 4 * self.page_size

    def key(self, tokens: int, name: str) -> Any:
        """A key like no other name's; of either kind, four units per token."""
        units = shake_128(name.encode()).digest(4 * tokens)
        return units.translate(LETTERS).decode() if self.text else units

    def payload(self, key: Any) -> Pages:
        return Pages(array("i", () if self.text else range(len(key) // self.width)))

    def sequences(self) -> Iterator[Any]:
        """All sequences, the groups taking turns; the same at every call."""
        rng = random.Random(7)
        if not self.shared:
            for i in range(SEQUENCES):
                yield self.key(rng.randint(SHORTEST, LONGEST), f"sequence {i}")
            return
        lengths = [rng.randint(SHORTEST, LONGEST) for _ in range(GROUPS)]
        prefixes = [self.key(int(SHARED * length), f"group {g}") for g, length in enumerate(lengths)]
        for i in range(SEQUENCES):
            prefix, length = prefixes[i % GROUPS], lengths[i % GROUPS]
            yield prefix + self.key(length - int(SHARED * length), f"member {i}")


def measure(work: Workload, rounds: int, calls: int) -> dict[str, float]:
    """Fill a tree and time every operation on it: microseconds per call, and bytes per token."""
    tree: RadixTree[Any, Pages] = RadixTree(width=work.width)
    before = resident_bytes()
    for key in work.sequences():
        tree.insert(key, work.payload(key))
    gc.collect()
    tokens = tree.size * work.width / 4
    figures = {"million_tokens": tokens / 1e6, "bytes_per_token": (resident_bytes() - before) / tokens}
    times: dict[str, list[float]] = {}

    def timed(name: str, call: Callable[..., Any], *arguments: Iterable[Any]) -> list[Any]:
        """Call with one argument of each after the other, and note the mean."""
        each = list(zip(*arguments, strict=True))
        start = time.thread_time()
        results = [call(*those) for those in each]
        times.setdefault(name, []).append((time.thread_time() - start) / len(each) * 1e6)
        return results

    keys = list(work.sequences())
    gc.freeze()
    rng = random.Random(11)
    news = [work.key(256, f"new {i}") for i in range(calls)]
    for _ in range(rounds):
        some = rng.sample(keys, calls)
        timed("compare", lambda key, copy: key.startswith(copy, 0), some, [k[:-1] + k[-1:] for k in some])
        timed("match", tree.match, some)
        timed("match_new", tree.match, map(add, some, news))
        timed("miss", tree.match, map(add, news, some))
        timed("match_lock_unlock", lambda key: tree.unlock(tree.lock(tree.match(key))), some)

        order = rng.sample(keys, len(keys))
        for key in order:
            tree.match(key)
        oldest = order[:calls]
        freed = timed("evict", tree.evict, [tree.match(key, touch=False).node.size for key in oldest])
        times["evict"][-1] *= calls / sum(map(len, freed))  # now and then a parent goes with its last child
        timed("insert", tree.insert, oldest, map(work.payload, oldest))

    order = rng.sample(keys, rounds * calls)
    for at in range(0, len(order), calls):
        forks = []
        for key, new in zip(order[at : at + calls], news, strict=True):
            leaf = tree.match(key, touch=False).node
            forks.append(key[: (leaf.start + leaf.size // 2) * work.width] + new)
        timed("split", tree.insert, forks, map(work.payload, forks))
    return figures | {name: statistics.median(values) for name, values in times.items()}


def compare_yardsticks(rounds: int) -> dict[str, float]:
    """What comparing 8,192 equal tokens costs in the ways that Python has, everything in a cache."""
    packed = random.Random(7).randbytes(4 * 8192)
    copy = packed[:-1] + packed[-1:]
    pairs: dict[str, tuple[Any, Any]] = {
        "bytes": (packed, copy),
        "array": (array("i", packed), array("i", copy)),
        "list": (array("i", packed).tolist(), array("i", copy).tolist()),
        "memoryview": (memoryview(packed).cast("i"), memoryview(copy).cast("i")),
    }
    figures = {}
    for name, (one, other) in pairs.items():
        times = []
        for _ in range(rounds):
            start = time.thread_time()
            for _ in range(200):
                _ = one == other
            times.append((time.thread_time() - start) / 200 * 1e6)
        figures[name] = statistics.median(times)
    return figures


def resident_bytes() -> int:
    """What this process has in memory now (where /proc does not tell: the most it ever had)."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the radix tree.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    options = parser.parse_args()
    rounds, calls = (3, 500) if options.quick else (9, 1_000)

    results = {}
    for text, page_size in ((False, 16), (False, 1), (True, 1)):
        for shared in (True, False):
            work = Workload(text, page_size, shared)
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
                results[work.name] = fresh.submit(measure, work, rounds, calls).result()
    yardsticks = compare_yardsticks(rounds)

    rows = [[name, *(figures[column] for column in COLUMNS)] for name, figures in results.items()]
    print_table("µs of CPU per call, 10,000 sequences in the tree", ["keys", *COLUMNS.values()], rows)
    print_table("µs to find 8,192 tokens equal", list(yardsticks), [list(yardsticks.values())])
    if options.json:
        write_json(options.json, {"tree": results, "compare_8192_tokens": yardsticks})


if __name__ == "__main__":
    main()
