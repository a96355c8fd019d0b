"""What a gateway in Ray pays to reach an engine replica: over HTTP to its own port, or by Serve's handle.

    python benchmarks/ray_transport.py [--quick] [--json FILE]

One deployment answers both ways with the same bytes: whole answers of 400 bytes, and streams of 50 pieces,
one every 4 ms, as an engine's steps come. A second one, in a process of its own, asks with what each way has:
the gateway's own HTTP client, and `handle.options(stream=True)`. CPU time is that of these two processes;
handles go from one to the other. Rounds alternate; figures are medians of the rounds.

The replica does no work beyond answering, so the figures are what the way costs and nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from statistics import median
from typing import Any

from ray import serve
from ray.serve.handle import DeploymentHandle

from radixway.core.config import WorkerLimitsConfig
from radixway.core.http import AppServer, Receive, Scope, Send, bind_tcp
from radixway.routing.transports.upstream import UpstreamOrigin
from ray_local import local_ray
from report import print_table, write_json

PIECE = b'data: {"choices":[{"index":0,"delta":{"content":" token"}}]}\n\n'
PIECES = 50
STEP_S = 0.004
WHOLE = b"x" * 400
BODY = b'{"prompt":"' + b"p" * 1000 + b'"}'
AT_ONCE = 16


async def pieces(path: str) -> AsyncIterator[bytes]:
    """What is answered at `path`."""
    if path == "/whole":
        yield WHOLE
        return
    for _ in range(PIECES):
        await asyncio.sleep(STEP_S)
        yield PIECE


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """The answers over HTTP."""
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-length", b"%d" % len(WHOLE))] if scope["path"] == "/whole" else []
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    async for piece in pieces(scope["path"]):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body"})


@serve.deployment(max_ongoing_requests=1000, ray_actor_options={"num_cpus": 0})
class Answering:
    """The replica that is asked."""

    async def __init__(self) -> None:
        listener = bind_tcp("127.0.0.1", 0)
        self._port = listener.getsockname()[1]
        self._serving = asyncio.create_task(AppServer(application, listener, drain_s=0).serve())

    def port(self) -> int:
        """Of its HTTP server."""
        return self._port

    def cpu_s(self) -> float:
        """Of its process so far."""
        return time.process_time()

    async def answer(self, path: str, body: bytes) -> AsyncIterator[bytes]:
        """The answers by handle."""
        async for piece in pieces(path):
            yield piece


@serve.deployment(ray_actor_options={"num_cpus": 0})
class Asking:
    """The replica that asks, as a gateway does."""

    def __init__(self, answering: DeploymentHandle) -> None:
        self._answering = answering
        self._origin: UpstreamOrigin | None = None

    async def measure(self, way: str, path: str, requests: int) -> dict[str, float]:
        """CPU seconds per 1,000 requests at each end; the median first piece of one at a time."""
        if self._origin is None:
            port = await self._answering.port.remote()
            self._origin = UpstreamOrigin(
                "127.0.0.1", port, None, idle_s=60, connect_s=5, limits=WorkerLimitsConfig()
            )
        ask = self._over_http if way == "http" else self._by_handle
        await _many(ask, path, AT_ONCE)
        began, there = time.process_time(), await self._answering.cpu_s.remote()
        await _many(ask, path, requests)
        there = await self._answering.cpu_s.remote() - there
        own = time.process_time() - began
        first = [await ask(path) for _ in range(20)]
        return {
            "asking": 1000 * own / requests,
            "answering": 1000 * there / requests,
            "first_s": median(first),
        }

    async def _over_http(self, path: str) -> float:
        assert self._origin is not None
        head = b"POST %b HTTP/1.1\r\nhost: e\r\ncontent-length: %d\r\n\r\n" % (path.encode(), len(BODY))
        began, size = time.perf_counter(), 0
        answer = await self._origin.send_request(head + BODY)
        await answer.read_head()
        first = 0.0
        while True:
            size += len(answer.take_body())
            if size and not first:
                first = time.perf_counter() - began
            if answer.complete:
                break
            await answer.wait_arrival()
        _check(path, size)
        return first

    async def _by_handle(self, path: str) -> float:
        began, size, first = time.perf_counter(), 0, 0.0
        async for piece in self._answering.options(stream=True).answer.remote(path, BODY):
            first = first or time.perf_counter() - began
            size += len(piece)
        _check(path, size)
        return first


def _check(path: str, size: int) -> None:
    expected = len(WHOLE) if path == "/whole" else PIECES * len(PIECE)
    if size != expected:
        raise RuntimeError(f"{size} bytes in place of {expected}")


async def _many(ask: Callable[[str], Coroutine[Any, Any, float]], path: str, requests: int) -> None:
    """That many requests, `AT_ONCE` at a time."""
    left = iter(range(requests))

    async def client() -> None:
        for _ in left:
            await ask(path)

    await asyncio.gather(*(client() for _ in range(AT_ONCE)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer requests and rounds")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rounds, whole, streams = (3, 200, 64) if given.quick else (5, 1000, 320)
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    with local_ray():
        handle = serve.run(Asking.bind(Answering.bind()), route_prefix=None)
        for number in range(rounds):
            for way in ("http", "handle") if number % 2 == 0 else ("handle", "http"):
                for path, requests in (("/whole", whole), ("/stream", streams)):
                    figures = handle.measure.remote(way, path, requests).result()
                    found.setdefault((path, way), []).append(figures)
            print(f"round {number + 1} of {rounds}", flush=True)
    show(found, given.json)


def show(found: dict[tuple[str, str], list[dict[str, float]]], file: Path | None) -> None:
    """Medians, and by handle over HTTP of the same round."""
    rows, data = [], {}
    for (path, way), runs in sorted(found.items()):
        total = [run["asking"] + run["answering"] for run in runs]
        base = [run["asking"] + run["answering"] for run in found[path, "http"]]
        ratio = median(one / other for one, other in zip(total, base, strict=True))
        name = f"{path.removeprefix('/')}, {way}"
        figures = {key: median(run[key] for run in runs) for key in runs[0]} | {"beside_http": ratio}
        data[name] = figures
        rows.append(
            [name, figures["asking"], figures["answering"], ratio, 1e3 * figures["first_s"]],
        )
    print_table(
        "CPU seconds per 1,000 requests, first piece of one request at a time",
        ["", "asking", "answering", "both beside HTTP", "first ms"],
        rows,
    )
    if file is not None:
        write_json(file, data)


if __name__ == "__main__":
    main()
