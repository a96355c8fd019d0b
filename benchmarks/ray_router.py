"""Ray Serve's request routers side by side: what one costs a request, and what it finds in replicas' caches.

    python benchmarks/ray_router.py [--chats N] [--turns N] [--at-once N] [--replicas N] [--rounds N]
                                    [--quick] [--json FILE]

One real Ray on this machine, and in it a deployment for each router: Serve's default (power of two), Ray's
own `PrefixCacheAffinityRouter` with the parameters of its guide, and our two. Each has the same replicas,
which hold the embedded engine's radix tree in pages of 64 characters, and no model: they say how much of a
prompt their cache had, add it, and evict what is too much. Each cache holds half of all that is said in a
round. In every round each router gets the same chats, which nobody has seen before; the order of routers
turns. Figures are medians of the rounds.

    router wall   ms a request in what the router does (reads, chooses, routed, completed), by the clock
    router CPU    ms of CPU in them, in the thread that routes, and in the actors that remember prefixes
    of published  router CPU over that of Ray's own class
    all CPU       ms a request of the calling process, Serve's part included, and of the actor
    requests/s    from the calling process, which waits for nothing else
    hits          prompt characters that replicas had, of all
    of possible   the same, over what one cache that never forgets would have had
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import ray
from ray import serve
from ray.serve.config import RequestRouterConfig

from processes import cpu_seconds, process_tree
from radixway.core.radix import RadixTree
from report import print_table, write_json
from timed_routers import ROUTERS

PAGE_CHARS = 64
ACTORS = ("ray::PrefixTreeActor", "ray::PrefixActor")
FIGURES = ("wall_ms", "cpu_ms", "all_cpu_ms", "requests_per_s", "hit_rate", "of_possible")


@dataclass(frozen=True, slots=True)
class Shape:
    """How much is said."""

    chats: int
    turns: int
    at_once: int
    systems: int = 6
    system: int = 2000
    asked: int = 600
    answered: int = 300

    @property
    def said(self) -> int:
        """Characters."""
        return self.systems * self.system + self.chats * self.turns * (self.asked + self.answered)


@dataclass(slots=True)
class ChatRequest:
    """What Ray's class takes: an object with messages."""

    messages: list[dict[str, str]]


class Pages:
    """What edges of the replicas' trees carry."""

    def split(self, at: int) -> tuple[Pages, Pages]:
        return self, self

    def join(self, more: Pages) -> Pages:
        return self


class Cache:
    """An engine's cache of prefixes, as far as it is about which pages are there."""

    def __init__(self, most_chars: int | None) -> None:
        """`most_chars`: None for a cache that never forgets."""
        self._tree: RadixTree[str, Pages] = RadixTree(width=PAGE_CHARS)
        self._most_pages = None if most_chars is None else most_chars // PAGE_CHARS

    def take(self, prompt: str) -> int:
        """How many characters of it were there; now it is."""
        held = self._tree.match(prompt).length
        self._tree.insert(prompt, Pages())
        if self._most_pages is not None:
            self._tree.evict(self._tree.size - self._most_pages)
        return held * PAGE_CHARS


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chats", type=int, default=48)
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="two rounds of 16 chats")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    shape = Shape(16 if given.quick else given.chats, given.turns, given.at_once)
    rounds = 2 if given.quick else given.rounds
    with running_ray():
        bench = Bench(shape, given.replicas)
        figures = asyncio.run(bench.run(rounds))
    published = figures["published"]["cpu_ms"]
    rows = [
        [name, f["wall_ms"], f["cpu_ms"], f["cpu_ms"] / published, *(f[key] for key in FIGURES[2:])]
        for name, f in figures.items()
    ]
    columns = [
        "",
        "router wall",
        "router CPU",
        "of published",
        "all CPU",
        "requests/s",
        "hits",
        "of possible",
    ]
    print_table(
        f"{given.replicas} replicas, {shape.chats} chats of {shape.turns} turns, {shape.at_once} at once",
        columns,
        rows,
    )
    if given.json:
        write_json(given.json, {"shape": {"chats": shape.chats, "turns": shape.turns}, "routers": figures})


@contextmanager
def running_ray() -> Iterator[None]:
    folder = tempfile.mkdtemp(prefix="rwb", dir="/tmp")  # short: sockets lie in it
    try:
        ray.init(
            num_cpus=4,
            include_dashboard=False,
            object_store_memory=100 * 2**20,
            log_to_driver=False,
            _temp_dir=folder,
        )
        serve.start(proxy_location="Disabled")
        yield
        serve.shutdown()
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def deploy(name: str, replicas: int, most_chars: int) -> Any:
    router, kwargs = ROUTERS[name]

    @serve.deployment(
        num_replicas=replicas,
        max_ongoing_requests=100,
        ray_actor_options={"num_cpus": 0},
        request_router_config=RequestRouterConfig(request_router_class=router, request_router_kwargs=kwargs),
        logging_config={"enable_access_log": False},
    )
    class Replica:
        def __init__(self) -> None:
            self.cache = Cache(most_chars)

        async def __call__(self, request: ChatRequest) -> int:
            return self.cache.take(text_of(request.messages))

    app = name.replace(" ", "_")
    return serve.run(Replica.bind(), name=app, route_prefix=None)


def text_of(messages: list[dict[str, str]]) -> str:
    return "".join(f"<{message['role']}>{message['content']}" for message in messages)


class Chats:
    """What people ask in one round: the same for every router."""

    def __init__(self, shape: Shape, seed: int) -> None:
        self._rng = random.Random(seed)
        systems = [self._words(shape.system) for _ in range(shape.systems)]
        self.chats = [
            [systems[number % shape.systems], *(self._turn(shape) for _ in range(shape.turns))]
            for number in range(shape.chats)
        ]

    def _turn(self, shape: Shape) -> tuple[str, str]:
        return self._words(shape.asked), self._words(shape.answered)

    def _words(self, chars: int) -> str:
        return self._rng.randbytes(chars // 2 + 1).hex()[:chars]


class Bench:
    """A deployment for each router."""

    def __init__(self, shape: Shape, replicas: int) -> None:
        self.shape = shape
        # Pages that are running are not to be evicted either: hence a little more than a half.
        most = shape.said // 2 + shape.at_once * (shape.system + shape.turns * (shape.asked + shape.answered))
        self.handles = {name: deploy(name, replicas, most) for name in ROUTERS}

    async def run(self, rounds: int) -> dict[str, dict[str, float]]:
        """Medians, by router."""
        await self._settle()
        seen: dict[str, list[dict[str, float]]] = {name: [] for name in ROUTERS}
        names = list(ROUTERS)
        for number in range(rounds):
            for name in names[number % len(names) :] + names[: number % len(names)]:
                seen[name].append(await self._round(self.handles[name], Chats(self.shape, number)))
        return {
            name: {key: median(one[key] for one in ones) for key in FIGURES} for name, ones in seen.items()
        }

    async def _settle(self) -> None:
        """Queues are probed, actors are there."""
        for handle in self.handles.values():
            for number in range(20):
                await handle.remote(ChatRequest([{"role": "user", "content": f"{number} hello" * 20}]))
        while len(actors()) < len(ROUTERS) - 1:
            await handle.remote(ChatRequest([]))

    async def _round(self, handle: Any, chats: Chats) -> dict[str, float]:
        router = handle._router._asyncio_router.request_router
        before = Snapshot(router)
        held = asked = possible = 0
        endless = Cache(None)
        places = asyncio.Semaphore(self.shape.at_once)

        async def chat(system: str, *turns: tuple[str, str]) -> None:
            nonlocal held, asked, possible
            async with places:
                messages = [{"role": "system", "content": system}]
                for question, answer in turns:
                    messages = [*messages, {"role": "user", "content": question}]
                    had = await handle.remote(ChatRequest(messages))
                    text = text_of(messages)
                    held += had
                    possible += endless.take(text)
                    asked += len(text)
                    messages = [*messages, {"role": "assistant", "content": answer}]

        await asyncio.gather(*(chat(*one) for one in chats.chats))
        spent = Snapshot(router).since(before)
        requests = self.shape.chats * self.shape.turns
        return {
            "wall_ms": 1000 * spent.wall_s / requests,
            "cpu_ms": 1000 * (spent.cpu_s + spent.actors_s) / requests,
            "all_cpu_ms": 1000 * (spent.own_s + spent.actors_s) / requests,
            "requests_per_s": requests / spent.clock_s,
            "hit_rate": held / asked,
            "of_possible": held / possible,
        }


class Snapshot:
    """What has been spent until now."""

    def __init__(self, router: Any) -> None:
        self.wall_s, self.cpu_s = router.wall_s, router.cpu_s
        self.own_s = time.process_time()
        self.actors_s = sum(cpu_seconds(pid) for pid in actors())
        self.clock_s = time.perf_counter()

    def since(self, before: Snapshot) -> Snapshot:
        for name, value in vars(before).items():
            setattr(self, name, getattr(self, name) - value)
        return self


def actors() -> list[int]:
    """The processes of the actors that remember prefixes, in our Ray."""
    found = []
    for pid in process_tree(os.getpid()):
        if Path(f"/proc/{pid}/cmdline").read_text(errors="replace").startswith(ACTORS):
            found.append(pid)
    return found


if __name__ == "__main__":
    main()
