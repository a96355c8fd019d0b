"""What scheduler and cache cost per generated token, and whether that grows with what is cached.

    python benchmarks/scheduler_overhead.py [--quick] [--json FILE]

The engine's own scheduler over a model that is only imagined: each token comes at once, so all the time there
is goes into admission, matching, pages, publishing and eviction. Batches of 16 requests begin with 96 tokens
of a sequence that is cached, go on with 32 of their own and generate 32. *room*: the pool has free pages;
*full*: every new page evicts one. CPU time of one thread, medians of several rounds, sizes in turns.
"""

import argparse
import random
import statistics
import time
from array import array
from pathlib import Path

from radixway.engine.cache import PrefixCache
from radixway.engine.pool import PagePool
from radixway.engine.request import Request, SamplingParams
from radixway.engine.scheduler import Scheduler
from report import print_table, write_json

SIZES = (10, 100, 1_000, 10_000)
PAGE, BATCH = 16, 16
CACHED, COMMON, OWN, ANSWER = 128, 96, 32, 32
NEEDED = BATCH * (COMMON + OWN + ANSWER + PAGE) // PAGE
"""Pages that a batch takes at most."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds; ends within a minute")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rounds = 5 if given.quick else 25
    traffics = {(size, full): Traffic(size, full=full) for size in SIZES for full in (False, True)}
    seconds: dict[tuple[int, bool], list[float]] = {arm: [] for arm in traffics}
    for _ in range(rounds):
        for arm, traffic in traffics.items():
            seconds[arm].append(traffic.time_batch())
    figures = {}
    for size in SIZES:
        room, full = (1e6 * statistics.median(seconds[size, f]) / (BATCH * ANSWER) for f in (False, True))
        figures[str(size)] = {"room_us": room, "full_us": full}
    first, last = figures[str(SIZES[0])], figures[str(SIZES[-1])]
    figures["growth"] = {arm: last[arm] / first[arm] for arm in ("room_us", "full_us")}
    rows = [[f"{size:,}", *figures[str(size)].values()] for size in SIZES]
    rows.append([f"{SIZES[-1]:,} : {SIZES[0]}", *figures["growth"].values()])
    print_table("µs per generated token, outside the model", ["cached sequences", "room", "full"], rows)
    if given.json:
        write_json(given.json, figures)


class Traffic:
    """A scheduler whose cache holds `size` sequences that have nothing in common."""

    def __init__(self, size: int, *, full: bool) -> None:
        self._random = random.Random(size)
        self._count = 0
        pages = size * (CACHED // PAGE) + NEEDED * (1 if full else 100)
        cache = PrefixCache(PagePool(pages), PAGE)
        self._scheduler = Scheduler(cache, max_running=BATCH, max_batch_tokens=BATCH * (CACHED + 1))
        self._cached = [self._tokens(CACHED) for _ in range(size)]
        for start in range(0, size, BATCH):
            self._run([self._request(tokens, 1) for tokens in self._cached[start : start + BATCH]])
        while full and cache.pool.free:
            self._run([self._request(self._tokens(min(CACHED, cache.pool.free * PAGE)), 1)])

    def time_batch(self) -> float:
        """Seconds of CPU for a batch from its arrival to its end."""
        requests = [
            self._request(self._random.choice(self._cached)[:COMMON] + self._tokens(OWN), ANSWER)
            for _ in range(BATCH)
        ]
        start = time.thread_time()
        self._run(requests)
        return time.thread_time() - start

    def _run(self, requests: list[Request]) -> None:
        scheduler = self._scheduler
        for request in requests:
            scheduler.add(request)
        while scheduler.running or scheduler.waiting:
            work = scheduler.schedule()
            sampling = [part.request for part in work if part.samples]
            scheduler.advance(work)
            for request in sampling:
                request.tokens.append(7)
                if len(request.tokens) >= request.max_len:
                    scheduler.finish(request)

    def _request(self, tokens: "array[int]", most: int) -> Request:
        self._count += 1
        params = SamplingParams(max_tokens=most)
        return Request(id=str(self._count), tokens=array("i", tokens), params=params, arrival=self._count)

    def _tokens(self, count: int) -> "array[int]":
        return array("i", self._random.choices(range(50_000), k=count))


if __name__ == "__main__":
    main()
