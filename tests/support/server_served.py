"""A server on a real socket in the test's own event loop, over a scripted engine or the real one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2 as httpx
from openai import AsyncOpenAI

from radixway.core.http import bind_tcp
from radixway.engine.server.app import EngineApp
from radixway.engine.server.launcher import serve_app


@dataclass
class Served:
    """A running server and ways to talk to it."""

    url: str
    app: EngineApp
    engine: Any
    http: httpx.AsyncClient
    openai: AsyncOpenAI
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        return await self.http.post(path, json=body, headers=headers)

    async def chat(self, **fields: Any) -> httpx.Response:
        return await self.post(
            "/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], **fields}
        )

    async def info(self) -> dict[str, Any]:
        """What /server_info says."""
        info: dict[str, Any] = (await self.http.get("/server_info")).json()
        return info

    async def idle(self) -> None:
        """Wait until nothing runs and no request holds KV."""
        while (stats := (await self.info())["stats"])["running"] or stats["waiting"] or stats["kv_used"]:
            pass


@asynccontextmanager
async def serving(app: EngineApp) -> AsyncIterator[Served]:
    """Serve `app` on a free port until left."""
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    with bind_tcp("127.0.0.1", 0) as listener:
        running = asyncio.create_task(
            serve_app(app, listener, stop=stop, on_ready=ready.set_result, drain_s=5)
        )
        url = await ready
        async with (
            httpx.AsyncClient(base_url=url, timeout=60) as http,
            AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as openai,
        ):
            yield Served(url, app, app.service.engine, http, openai, stop)
        stop.set()
        await running
