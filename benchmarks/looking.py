"""What it costs to look: a page of `/requests`, a search that finds nothing, the tree behind `/prefixes`.

CPU time, of journals that look like requests' own; `held` is how long the event loop does nothing else.

    python benchmarks/looking.py                     books of 1,000 to 100,000 requests
    python benchmarks/looking.py --json out.json
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from pathlib import Path
from typing import Any

from radixway.api.prefixes.prefix_tree import PromptBlocks, build_prefix_tree
from radixway.api.request_log import RequestSummary
from radixway.api.requests import RequestFilter, RequestSearch
from radixway.core.pipeline import TokenUsage
from radixway.core.telemetry import Journal, JournalStore
from radixway.core.tenants import TokenCost
from report import print_table, write_json

SIZES = (1_000, 10_000, 100_000)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    searches = [(size, *looked(size)) for size in SIZES]
    trees = [(requests, folded(requests)) for requests in (2_000, 10_000)]
    columns = ("requests kept", "first page, ms", "nothing found, ms", "looked at", "held, ms")
    print_table("GET /requests", columns, searches)
    print_table("GET /prefixes, in a thread", ("requests", "ms"), trees)
    if given.json:
        write_json(given.json, {"requests": searches, "prefixes": trees})


def looked(size: int) -> tuple[float, float, int, float]:
    """A first page, and a search that finds nothing."""
    book = JournalStore(size)
    for number in range(size):
        book.save_journal(journal(number))
    search = RequestSearch(book, lambda *_: TokenCost())
    page_ms, _, _ = asyncio.run(timed(search, RequestFilter()))
    none_ms, examined, held_ms = asyncio.run(timed(search, RequestFilter(text="is-not-there")))
    return page_ms, none_ms, examined, held_ms


async def timed(search: RequestSearch, wanted: RequestFilter) -> tuple[float, int, float]:
    """Milliseconds of CPU, journals examined, milliseconds for which nobody else ran."""
    over, gaps = False, [0.0]

    async def beat() -> None:
        last = time.process_time()
        while not over:
            await asyncio.sleep(0)
            now = time.process_time()
            gaps.append(now - last)
            last = now

    beating = asyncio.create_task(beat())
    began = time.process_time()
    page = await search.search_requests(wanted, None, 50)
    took = time.process_time() - began
    over = True
    await beating
    return took * 1e3, page.examined, max(gaps) * 1e3


def journal(number: int) -> Journal:
    """Of a request that was answered."""
    made = Journal(f"{number:032x}")
    made.tenant = "default"
    said: tuple[tuple[str, Any], ...] = (
        ("receive", {"surface": "openai.chat", "model": "m", "stream": False, "bytes": 900}),
        ("answer", {"worker": "gpu1:8000", "status": 200}),
        ("tokens", TokenUsage(900, 100, 600)),
        ("end", RequestSummary(200, 0.1, "m", None, None)),
    )
    made.entries = [(step, 0.1, fields) for step, fields in said]
    return made


def folded(requests: int) -> float:
    """Milliseconds of CPU for the tree of so many prompts, of which 20 beginnings are shared."""
    draw, chains = random.Random(1), []
    for _ in range(requests):
        begin = draw.randrange(20) * 1000
        shared = range(begin, begin + draw.choice([20, 60, 100]))
        blocks = (*shared, *(draw.getrandbits(60) for _ in range(draw.randrange(80))))
        chains.append(PromptBlocks("m", blocks, 16, "default", "gpu1:8000", 0.0, 0))
    began = time.process_time()
    build_prefix_tree(chains, 200, 8)
    return (time.process_time() - began) * 1e3


if __name__ == "__main__":
    main()
