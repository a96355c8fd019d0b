"""An engine behind aiohttp's own HTTP server, which refuses requests that are not to the letter."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass
class StrictEngine:
    """Answers every chat completion with two words, streamed where that is asked for."""

    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    """The bodies that came."""

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.asked.append(body)
        usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
        if not body.get("stream"):
            choice = {"index": 0, "message": {"content": "Hi you"}, "finish_reason": "stop"}
            return web.json_response({"choices": [choice], "usage": usage})
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for delta, reason in (({"content": "Hi"}, None), ({"content": " you"}, None), ({}, "stop")):
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            await response.write(b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n")
        await response.write(b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        return response


async def _health(_: web.Request) -> web.Response:
    return web.json_response({})


async def _models(_: web.Request) -> web.Response:
    return web.json_response({"object": "list", "data": [{"id": "m"}]})


@asynccontextmanager
async def strict_engine() -> AsyncIterator[StrictEngine]:
    engine, app = StrictEngine(), web.Application()
    app.router.add_get("/health", _health)
    app.router.add_get("/v1/models", _models)
    app.router.add_post("/v1/chat/completions", engine.complete)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        engine.url = f"http://{host}:{port}"
        yield engine
    finally:
        await runner.cleanup()
