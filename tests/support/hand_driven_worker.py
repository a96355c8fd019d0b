"""A worker whose every frame a test decides on, over a real WebSocket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from support.running_gateway import RunningGateway

KEY = "0000"
MODEL = {"model_id": "m", "max_input_length": 1024, "max_total_length": 2048, "quantized": False}
CHAT = {"allow_debug_auth": True, "debug_api_keys": [KEY], "models": [{"name": "m", **MODEL}]}
HEADERS = {"X-API-Key": KEY, "X-Protocol-Version": "1"}


def worker_info(at_once: int = 1, **more: Any) -> dict[str, Any]:
    config = {"model_config": MODEL, "max_parallel_requests": at_once}
    return {"config": config, "hardware_info": {"uname_sysname": "Linux", "gpus": []}} | more


class HandDrivenWorker:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    async def send(self, frame: Any) -> None:
        await self.socket.send_str(frame if isinstance(frame, str) else json.dumps(frame))

    async def frame(self) -> dict[str, Any]:
        """The next one that is no ping."""
        async with asyncio.timeout(10):
            while True:
                frame: dict[str, Any] = json.loads(await self.socket.receive_str())
                if frame.get("request_type") != "ping":
                    return frame

    async def work(self) -> str:
        """The id of the next job."""
        frame = await self.frame()
        assert frame["request_type"] == "work", frame
        return str(frame["id"])

    async def say(self, request: str, *words: str) -> None:
        for word in words:
            token = {"text": word, "log_prob": -0.1, "token_id": 5}
            await self.send({"request_id": request, "response_type": "token"} | token)

    async def finish(self, request: str, text: str, finish_reason: str = "eos_token") -> None:
        end = {"text": text, "finish_reason": finish_reason, "metrics": None, "used_plugin": None}
        await self.send({"request_id": request, "response_type": "generated_text"} | end)

    async def fail(self, request: str, error: str) -> None:
        await self.send({"request_id": request, "response_type": "error", "error": error, "metrics": None})

    async def closed(self) -> int | None:
        """How the server closed it, after the frames that are left."""
        async with asyncio.timeout(10):
            while (await self.socket.receive()).type is aiohttp.WSMsgType.TEXT:
                pass
        return self.socket.close_code


@asynccontextmanager
async def hand_driven_worker(
    gateway: RunningGateway, at_once: int = 1, **more: Any
) -> AsyncIterator[HandDrivenWorker]:
    """One that has said what it serves."""
    url = f"{gateway.url}/workers/work"
    async with gateway.client.ws_connect(url, headers=HEADERS) as socket:
        worker = HandDrivenWorker(socket)
        await worker.send(worker_info(at_once, **more))
        yield worker
