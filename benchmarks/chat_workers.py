"""Pull workers for `chat.py`: published frames, one `token` at a time, of words that are known beforehand.

    python benchmarks/chat_workers.py PORT KEY MODEL WORKERS AT_ONCE PACE

`PACE`: tokens of an answer per second; 0: as fast as the connection takes them. Prints `ready` when all are
connected; ends when killed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from typing import Any

import aiohttp
import uvloop

INPUT, TOTAL = 1024, 2048
"""Lengths of the model."""


def words(count: int) -> Iterator[str]:
    """The tokens of an answer of that length."""
    return (f" w{number}" for number in range(count))


def queue_of(model: str) -> dict[str, Any]:
    """The model's shape, as a worker tells it."""
    return {"model_id": model, "max_input_length": INPUT, "max_total_length": TOTAL, "quantized": False}


class Worker:
    """One connection. Says as many words as `max_new_tokens` has."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, pace: float) -> None:
        self._socket = socket
        self._gap_s = 1 / pace if pace else 0.0
        self._answers: dict[str, asyncio.Task[None]] = {}

    async def hello(self, model: str, at_once: int, extensions: list[str]) -> None:
        """The first frame."""
        config = {"model_config": queue_of(model), "max_parallel_requests": at_once}
        more = {"extensions": extensions} if extensions else {}
        await self._send({"config": config, "hardware_info": {}} | more)

    async def run(self) -> None:
        """Until the connection ends."""
        async for message in self._socket:
            frame = json.loads(message.data)
            kind = frame["request_type"]
            if kind == "work":
                self._answers[frame["id"]] = asyncio.create_task(self._answer(frame))
            elif kind == "cancel":
                self._answers.pop(frame["request_id"]).cancel()
            elif kind == "ping":
                await self._send({"response_type": "pong", "request_id": frame["id"], "metrics": {}})

    async def _answer(self, work: dict[str, Any]) -> None:
        request, said = work["id"], ""
        loop = asyncio.get_running_loop()
        due = loop.time()
        for number, word in enumerate(words(work["parameters"]["sampling_parameters"]["max_new_tokens"])):
            said += word
            token = {"text": word, "log_prob": -0.5, "token_id": number}
            await self._send({"response_type": "token", "request_id": request, **token})
            due += self._gap_s
            await asyncio.sleep(max(0.0, due - loop.time()))
        end = {"text": said, "finish_reason": "length", "metrics": {}}
        await self._send({"response_type": "generated_text", "request_id": request, **end})
        self._answers.pop(request, None)

    async def _send(self, frame: dict[str, Any]) -> None:
        await self._socket.send_str(json.dumps(frame))


async def connect(
    session: aiohttp.ClientSession,
    port: int,
    key: str,
    model: str,
    at_once: int,
    pace: float,
    extensions: list[str] | None = None,
) -> Worker:
    """A worker that has said what it serves."""
    headers = {"X-API-Key": key, "X-Protocol-Version": "1"}
    socket = await session.ws_connect(
        f"http://127.0.0.1:{port}/workers/work", headers=headers, max_msg_size=0
    )
    worker = Worker(socket, pace)
    await worker.hello(model, at_once, extensions or [])
    return worker


async def main(port: int, key: str, model: str, workers: int, at_once: int, pace: float) -> None:
    """Work until killed."""
    async with aiohttp.ClientSession() as session:
        connected = [await connect(session, port, key, model, at_once, pace) for _ in range(workers)]
        print("ready", flush=True)
        await asyncio.gather(*(worker.run() for worker in connected))


if __name__ == "__main__":
    port, key, model, workers, at_once, pace = sys.argv[1:]
    uvloop.run(main(int(port), key, model, int(workers), int(at_once), float(pace)))
