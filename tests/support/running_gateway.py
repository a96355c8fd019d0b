"""A real gateway on a real socket, inside the test's event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from radixway.core.config import load_config
from radixway.core.http import AppServer, bind_tcp
from radixway.gateway.app import Gateway
from radixway.routing import Worker, WorkerState

FAST_HEALTH = {"interval_s": 0.05, "timeout_s": 2, "backoff_max_s": 0.1}


@dataclass
class RunningGateway:
    url: str
    gateway: Gateway
    client: aiohttp.ClientSession
    server: AppServer

    async def post(self, path: str, body: Any, **more: Any) -> tuple[int, Any, Any]:
        """Status, decoded JSON, headers."""
        data = {"data": body} if isinstance(body, bytes) else {"json": body}
        async with self.client.post(self.url + path, **data, **more) as response:
            return response.status, await response.json(content_type=None), response.headers

    async def get(self, path: str, **more: Any) -> tuple[int, Any]:
        async with self.client.get(self.url + path, **more) as response:
            return response.status, await response.json(content_type=None)

    async def chat(self, **fields: Any) -> tuple[int, Any, Any]:
        body = {"model": "m", "messages": [{"role": "user", "content": "hello"}], **fields}
        return await self.post("/v1/chat/completions", body)

    async def until(self, url: str, state: WorkerState) -> Worker:
        """Wait until the worker is in that state."""
        changed = asyncio.Event()
        registry = self.gateway.registry
        registry.on_state.append(lambda _: changed.set())
        async with asyncio.timeout(10):
            while (worker := registry.get_worker(url)) is None or worker.state is not state:
                changed.clear()
                await changed.wait()
        return worker

    async def until_gone(self, url: str) -> None:
        """Wait until the worker is not listed any more."""
        gone = asyncio.Event()
        registry = self.gateway.registry
        registry.on_remove.append(lambda _: gone.set())
        async with asyncio.timeout(10):
            while registry.get_worker(url) is not None:
                gone.clear()
                await gone.wait()

    def in_flight(self) -> int:
        return sum(worker.load.requests for worker in self.gateway.registry)


@asynccontextmanager
async def running_gateway(
    *urls: str,
    wait: bool = True,
    port: int = 0,
    make_server: Callable[[Gateway, socket.socket], AppServer] = Gateway.make_server,
    **sections: Any,
) -> AsyncIterator[RunningGateway]:
    """A gateway in front of the workers at `urls`, once they are ready; `sections` as in radixway.yaml."""
    sections.setdefault("routing", {}).setdefault("health", FAST_HEALTH)
    config = load_config(overrides={"workers": [{"url": url} for url in urls], **sections})
    gateway = Gateway(config)
    server = make_server(gateway, bind_tcp("127.0.0.1", port))
    ready = asyncio.Event()
    serving = asyncio.create_task(server.serve(ready.set))
    await asyncio.wait({serving, asyncio.create_task(ready.wait())}, return_when=asyncio.FIRST_COMPLETED)
    async with gateway.running(), aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as client:
        running = RunningGateway(server.url, gateway, client, server)
        try:
            for url in urls if wait else ():
                await running.until(url, WorkerState.READY)
            yield running
        finally:
            server.stop()
            await serving
