"""The application on a real Ray: hits of chats with several turns, and what kills and scaling cost.

    python benchmarks/ray_app.py [--rounds N] [--times N] [--at-once N] [--quick] [--json FILE]

One gateway and two engine replicas (`radixway.cluster.ray_serve`) on this machine, asked through Serve's
proxy.

*Hits*: the chats of `routing_live.py`, four at a time (`--at-once`) in an order drawn anew for each round,
caches emptied before. Each engine has room for all that is said, so that only the way that requests take
decides; *possible* is one cache that never forgets.

*Faults*: six clients ask without a pause, half of them in streams, while one of two replicas is killed by
`ray.kill`, or while the deployment goes from two replicas to four to one. *Unanswered* requests ended without
the first byte of an answer, *broken* ones after it; a refusal (any status but 200) is unanswered.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import mean, median
from typing import Any

import aiohttp
import ray
from ray import serve

from engine_model import text_of, write_model
from radixway.core.config import load_config
from radixway.gateway.ray_serve import build_app
from ray_local import local_ray
from report import print_table, write_json
from routing_live import AT_ONCE, MODEL, Shape, converse, flush, possible_hits

CLIENTS = 6
CHATS_AT_ONCE = 4
SETTLE_S = 600.0
"""Longest that replicas may take to start or to drain."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, help="of chats; by default 5, with --quick 2")
    parser.add_argument("--times", type=int, help="each fault; by default 5, with --quick 1")
    parser.add_argument("--at-once", type=int, default=CHATS_AT_ONCE, help="chats at a time")
    parser.add_argument("--model", default="40m", help="a shape of benchmarks/shapes.py")
    parser.add_argument("--quick", action="store_true", help="fewer chats, rounds and faults")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rounds = given.rounds or (2 if given.quick else 5)
    times = given.times or (1 if given.quick else 5)
    shape = Shape(chats=16, turns=4) if given.quick else Shape()
    with tempfile.TemporaryDirectory(prefix="radixway-bench-") as scratch, local_ray() as url:
        settings = {"model": str(write_model(given.model, Path(scratch))), "served_model_name": MODEL}
        settings |= {"dtype": "float32", "kv_tokens": 2 * shape.kv_tokens, "max_running": AT_ONCE}
        application = Application(url, settings)
        figures = asyncio.run(measure(application, shape, rounds, times, given.at_once))
    show(figures, shape, rounds, times)
    if given.json:
        write_json(given.json, figures)


class Application:
    """What is deployed, and how it is changed."""

    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        self.url = url
        self._settings = settings

    async def deploy(self, replicas: int) -> list[str]:
        """That many engines; returns their URLs once the gateway has them."""
        engines = [{"settings": self._settings, "replicas": replicas}]
        config = load_config(overrides={"chat": {"enabled": False}, "ray": {"engines": engines}})
        await asyncio.to_thread(serve.run, build_app(config), name="radixway")
        return await self.engines(replicas)

    async def engines(self, number: int) -> list[str]:
        """Wait until the gateway has exactly that many, ready all."""
        async with asyncio.timeout(SETTLE_S), aiohttp.ClientSession() as session:
            while True:
                async with session.get(f"{self.url}/list_workers") as response:
                    workers = (await response.json())["workers"]
                if [worker["state"] for worker in workers] == ["ready"] * number:
                    return [worker["url"] for worker in workers]
                await asyncio.sleep(0.1)

    def kill_one(self) -> None:
        """As Ray kills actors."""
        actors = ray.util.list_named_actors(all_namespaces=True)
        replica = next(a for a in actors if a["name"].startswith("SERVE_REPLICA::radixway#engine"))
        ray.kill(ray.get_actor(replica["name"], namespace=replica["namespace"]))


async def measure(
    application: Application, shape: Shape, rounds: int, times: int, at_once: int
) -> dict[str, Any]:
    """All figures."""
    runs = []
    engines = await application.deploy(2)
    for number in range(rounds):
        await asyncio.to_thread(flush, engines)
        runs.append(await converse(application.url, shape, number, at_once))
        print(f"round {number + 1}: {runs[-1].hit_rate:.1%} hits", flush=True)
    killed, scaled = Counter[str](), Counter[str]()
    for number in range(times):
        async with load(application.url, killed):
            application.kill_one()
            await asyncio.sleep(1)  # until Ray knows, and not while the gateway still counts two
            await application.engines(2)
        async with load(application.url, scaled):
            await application.deploy(4)
            await application.deploy(1)
        await application.deploy(2)
        print(f"faults {number + 1}: killed {dict(killed)}, scaled {dict(scaled)}", flush=True)
    return {
        "hit_rate": median(run.hit_rate for run in runs),
        "possible_hit_rate": possible_hits(shape),
        "ttft_mean_s": median(mean(run.first_s) for run in runs),
        "imbalance": median(run.imbalance for run in runs),
        "killed": dict(killed),
        "scaled": dict(scaled),
    }


@asynccontextmanager
async def load(url: str, ends: Counter[str]) -> AsyncIterator[None]:
    """Clients that ask without a pause; how each request ended is counted."""
    stop = asyncio.Event()
    timeout = aiohttp.ClientTimeout(total=300)
    async with aiohttp.ClientSession(timeout=timeout) as session:

        async def client(streamed: bool) -> None:
            body = {"model": MODEL, "prompt": text_of(range(100, 140)), "max_tokens": 16, "stream": streamed}
            while not stop.is_set():
                ends[await ask(session, url, body)] += 1

        tasks = [asyncio.create_task(client(number % 2 == 0)) for number in range(CLIENTS)]
        try:
            yield
        finally:
            stop.set()
            await asyncio.gather(*tasks)


async def ask(session: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> str:
    """How one request ends: `answered`, `unanswered`, or `broken` after its first byte."""
    begun = False
    said = b""
    try:
        async with session.post(f"{url}/v1/completions", json=body) as response:
            if response.status != 200:
                return "unanswered"
            async for part in response.content.iter_any():
                begun = True
                said += part
    except (aiohttp.ClientError, TimeoutError):
        return "broken" if begun else "unanswered"
    if body["stream"]:
        return "answered" if said.endswith(b"data: [DONE]\n\n") and b'"error"' not in said else "broken"
    return "answered" if json.loads(said)["usage"]["completion_tokens"] == 16 else "broken"


def show(figures: dict[str, Any], shape: Shape, rounds: int, times: int) -> None:
    """Two tables."""
    print_table(
        f"{shape.chats} chats of {shape.turns} turns through Serve, two engines, {rounds} round(s)",
        ["", "hits %", "possible %", "TTFT mean ms", "busiest / mean"],
        [
            [
                "radixway in Ray",
                100 * figures["hit_rate"],
                100 * figures["possible_hit_rate"],
                1e3 * figures["ttft_mean_s"],
                figures["imbalance"],
            ]
        ],
    )
    names = ("answered", "unanswered", "broken")
    print_table(
        f"requests under load, each fault {times} time(s)",
        ["", *names],
        [
            [fault, *(figures[key].get(name, 0) for name in names)]
            for fault, key in (("one of two replicas killed", "killed"), ("2 → 4 → 1 replicas", "scaled"))
        ],
    )


if __name__ == "__main__":
    main()
