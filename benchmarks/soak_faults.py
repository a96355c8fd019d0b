"""Faults of a soak: workers that are killed, cut streams, register and leave; KV events that get lost."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import subprocess
import sys
import time
import urllib.request
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import zmq
import zmq.asyncio

from processes import free_ports, stop
from soak_clients import LARGE_BYTES, Tally

HERE = Path(__file__).resolve().parent
BLOCK_TOKENS = 16
_BLOCKS = 64
"""Blocks that an event tells of."""
_MAX_CACHED_BLOCKS = 20_000
_KEPT_BATCHES = 1_000
"""Batches that may be asked for again."""
_END = b"\xff" * 8


class SoakError(Exception):
    """The run cannot go on; the message says why."""


@dataclass(slots=True)
class Fleet:
    """Ports of the workers and of their KV events, and the process of the one that is killed."""

    steady: int
    cutting: int
    slow: int
    killed: int
    registered: int
    kv_events: int
    kv_replays: int
    options: tuple[str, ...]
    victim: subprocess.Popen[str] | None = None

    def start_victim(self) -> None:
        self.victim = start_worker(self.killed, options=self.options)

    @property
    def registered_url(self) -> str:
        return f"http://127.0.0.1:{self.registered}"


def start_worker(*ports: int, options: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """A process of pretended workers, once they listen. Raises SoakError."""
    script = [str(HERE / "fake_worker.py"), "--keep-alive-s", "5", *options]
    command = [sys.executable, *script, "--ports", *map(str, ports)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    if process.stdout.readline().strip() != "ready":
        raise SoakError("a pretended worker did not start")
    return process


@contextlib.contextmanager
def running_fleet(scratch: Path) -> Iterator[Fleet]:
    """All workers; their large answers are in a file in `scratch`."""
    large = scratch / "large.json"
    large.write_text(json.dumps({"text": "x" * LARGE_BYTES, "meta_info": {"id": "0"}}))
    options = ("--generated", str(large))
    fleet = Fleet(*free_ports(7), options)
    processes = [
        start_worker(fleet.steady, fleet.registered, options=options),
        start_worker(fleet.cutting, options=("--cut-every", "12", *options)),
        start_worker(fleet.slow, options=("--step-ms", "40", *options)),
    ]
    try:
        fleet.start_victim()
        yield fleet
    finally:
        for process in (*processes, fleet.victim):
            if process is not None:
                stop(process)


def ask(url: str, method: str = "GET", body: bytes | None = None) -> str:
    """The text of an answer. Raises OSError."""
    headers = {"content-type": "application/json"} if body else {}
    request = urllib.request.Request(url, body, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        text: str = answer.read().decode()
        return text


async def kill_and_restart(fleet: Fleet, tally: Tally) -> None:
    """Kill a worker every few seconds, in the middle of whatever it does, and start it again."""
    while True:
        await asyncio.sleep(random.uniform(6, 12))
        assert fleet.victim is not None
        fleet.victim.kill()
        await asyncio.to_thread(fleet.victim.wait)
        tally.count("killed workers")
        await asyncio.sleep(random.uniform(0.5, 3))
        await asyncio.to_thread(fleet.start_victim)


async def register_and_leave(gateway: str, fleet: Fleet, tally: Tally) -> None:
    """Let a worker register itself, serve for some seconds, and leave."""
    while True:
        body = json.dumps({"url": fleet.registered_url, "ttl_s": 30}).encode()
        await asyncio.to_thread(ask, f"http://{gateway}/workers", "POST", body)
        await asyncio.sleep(random.uniform(2, 6))
        await asyncio.to_thread(ask, f"http://{gateway}/workers?url={fleet.registered_url}", "DELETE")
        tally.count("registrations")
        await asyncio.sleep(random.uniform(0.5, 2))


class KvEventPublisher:
    """An engine's cache whose blocks come and go: publishes it as vLLM does, and loses one batch in 100."""

    def __init__(self, fleet: Fleet, tally: Tally) -> None:
        self._fleet = fleet
        self._tally = tally
        self._cached: deque[int] = deque()
        self._next_hash = 1
        self._sequence = 0
        self._history: deque[tuple[bytes, bytes]] = deque(maxlen=_KEPT_BATCHES)

    async def run(self) -> None:
        """Publish 20 batches a second and replay those that are asked for, until cancelled."""
        with zmq.asyncio.Context() as context:
            published, replays = context.socket(zmq.PUB), context.socket(zmq.ROUTER)
            with published, replays:
                published.linger = replays.linger = replays.sndhwm = 0
                published.bind(f"tcp://127.0.0.1:{self._fleet.kv_events}")
                replays.bind(f"tcp://127.0.0.1:{self._fleet.kv_replays}")
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._publish(published))
                    group.create_task(self._replay(replays))

    async def _publish(self, socket: zmq.asyncio.Socket) -> None:
        while True:
            number = self._sequence.to_bytes(8, "big")
            batch = msgspec.msgpack.encode([time.time(), self._next_events(), 0])
            self._sequence += 1
            self._history.append((number, batch))
            self._tally.count("KV event batches")
            if random.random() < 0.01:
                self._tally.count("KV event batches lost")
            else:
                await socket.send_multipart([b"", number, batch])
            await asyncio.sleep(0.05)

    async def _replay(self, socket: zmq.asyncio.Socket) -> None:
        while True:
            *envelope, start = await socket.recv_multipart()
            self._tally.count("KV event replays")
            for number, batch in list(self._history):
                if number >= start:
                    await socket.send_multipart([*envelope, number, batch])
            await socket.send_multipart([*envelope, _END, b""])

    def _next_events(self) -> list[dict[str, Any]]:
        if random.random() < 0.002:
            self._cached.clear()
            return [{"type": "AllBlocksCleared"}]
        new = list(range(self._next_hash, self._next_hash + _BLOCKS))
        self._next_hash += _BLOCKS
        self._cached.extend(new)
        stored = {
            "type": "BlockStored",
            "block_hashes": new,
            "parent_block_hash": None,
            "token_ids": [random.randrange(30_000) for _ in range(_BLOCKS * BLOCK_TOKENS)],
            "block_size": BLOCK_TOKENS,
            "lora_id": None,
            "medium": "GPU",
            "lora_name": None,
        }
        if len(self._cached) <= _MAX_CACHED_BLOCKS:
            return [stored]
        old = [self._cached.popleft() for _ in range(_BLOCKS)]
        return [stored, {"type": "BlockRemoved", "block_hashes": old, "medium": "GPU"}]
