"""A worker that speaks `/generate` and follows a script, and a gateway in front of it that resumes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from support.running_gateway import RunningGateway, running_gateway
from support.scripted_worker import Exchange, scripted_worker

ABORT = {"type": "abort", "message": "new weights"}

ASK = {
    "input_ids": [7, 8, 9],
    "return_logprob": True,
    "sampling_params": {"max_new_tokens": 10, "min_new_tokens": 3, "temperature": 0},
}

hang = object()
"""In place of a reply or an event: nothing comes any more."""


def text_of(ids: list[int]) -> str:
    """A letter for each token."""
    return "".join(chr(ord("a") + token % 26) for token in ids)


def reply(ids: list[int], finish: Any = None, *, prompt: int = 3, version: str = "1", **meta: Any) -> dict:
    """What a worker answers that has sampled `ids`."""
    return {
        "text": text_of(ids),
        "output_ids": ids,
        "meta_info": {
            "id": "r",
            "finish_reason": {"type": "stop", "matched": 2} if finish is None else finish,
            "prompt_tokens": prompt,
            "completion_tokens": len(ids),
            "cached_tokens": 1,
            "weight_version": version,
            "output_token_logprobs": [[-0.5 - token, token, None] for token in ids],
            "e2e_latency": 0.5,
            **meta,
        },
    }


def so_far(*ids: int, finish: Any = None, **more: Any) -> dict:
    """An event of a stream that repeats the whole answer."""
    event = reply(list(ids), ABORT, **more)
    event["meta_info"]["finish_reason"] = finish
    return event


def only_new(count: int, *ids: int, finish: Any = None, **more: Any) -> dict:
    """An event of a stream that holds only what is new; `count` tokens have been sampled by then."""
    event = so_far(*ids, finish=finish, **more)
    event["meta_info"]["completion_tokens"] = count
    return event


class Script:
    """A behaviour: the replies, in order; the last one again and again. Lists are streams, or batches."""

    def __init__(self, *replies: Any, abort_status: int = 200) -> None:
        self.replies = list(replies)
        self.bodies: list[dict] = []
        self.aborted: list[str] = []
        self.abort_status = abort_status
        self.told = asyncio.Event()
        """An abort has come."""
        self.hanging = asyncio.Event()
        self.asked = asyncio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        body = exchange.json() if exchange.body else {}
        if exchange.path == "/abort_request":
            self.aborted.append(body["rid"])
            await exchange.reply(self.abort_status, b"{}")
            self.told.set()
        elif exchange.path == "/tokenize":
            await exchange.reply(200, b'{"tokens": [7, 8, 9], "count": 3}')
        elif exchange.path == "/detokenize":
            await exchange.reply(200, json.dumps({"text": text_of(body["tokens"])}).encode())
        else:
            self.bodies.append(body)
            self.asked.set()
            answer = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
            await self._answer(exchange, answer, stream=bool(body.get("stream")))

    async def _answer(self, exchange: Exchange, answer: Any, *, stream: bool) -> None:
        if answer is hang:
            self.hanging.set()
            await exchange.until_peer_leaves()
        elif isinstance(answer, tuple):
            await exchange.reply(answer[0], json.dumps(answer[1]).encode())
        elif not stream:
            await exchange.reply(200, answer if isinstance(answer, bytes) else json.dumps(answer).encode())
        else:
            await self._stream(exchange, answer)

    async def _stream(self, exchange: Exchange, events: list[Any]) -> None:
        await exchange.begin_stream()
        for event in events:
            if event is hang:
                self.hanging.set()
                await exchange.until_peer_leaves()
                return
            await exchange.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")
        await exchange.chunk(b"data: [DONE]\n\n")
        await exchange.end_stream()


@asynccontextmanager
async def gateway_with(script: Script, **abort: Any) -> AsyncIterator[RunningGateway]:
    """A gateway that resumes what the script's worker aborts; at the end nothing of it is left."""
    abort = {"wait_s": 0} | abort
    async with scripted_worker(script) as worker:
        async with running_gateway(worker.url, trajectories={"enabled": True, "abort": abort}) as gateway:
            yield gateway
            await until_idle(gateway)


async def until_idle(gateway: RunningGateway) -> None:
    """No request is at a worker, and none is known."""
    async with asyncio.timeout(10):
        while gateway.in_flight() or len(gateway.gateway.aborted):
            await gateway.get("/health")


async def ask(gateway: RunningGateway, **fields: Any) -> tuple[int, Any, Any]:
    """Status, answer, headers."""
    return await gateway.post("/generate", ASK | fields)


async def events_of(gateway: RunningGateway, **fields: Any) -> list[Any]:
    """The events of a stream, which ends as it should."""
    body = ASK | {"stream": True} | fields
    async with gateway.client.post(gateway.url + "/generate", json=body) as response:
        raw = await response.read()
    assert raw.count(b"[DONE]") == 1 and raw.endswith(b"data: [DONE]\n\n")
    return [json.loads(line[5:]) for line in raw.split(b"\n") if line.startswith(b"data: {")]


async def steps(gateway: RunningGateway, headers: Any, name: str) -> list[Any]:
    """What a request's journal says of one step."""
    _, journal = await gateway.get(f"/explain/{headers['x-request-id']}")
    return [step for step in journal["steps"] if step["step"] == name]
