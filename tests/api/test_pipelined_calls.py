"""A client that has sent its next request, and leaves before the first is answered."""

from __future__ import annotations

import asyncio
import json

from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, scripted_worker

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


class Stuck:
    """A worker that begins a stream, and then says nothing till its caller leaves."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.left = asyncio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        await exchange.begin_stream()
        event = {"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}]}
        await exchange.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")
        self.asked.set()
        await exchange.until_peer_leaves()
        self.left.set()


async def test_a_client_that_pipelines_and_leaves_frees_its_worker():
    stuck = Stuck()
    async with scripted_worker(stuck) as worker, running_gateway(worker.url) as gateway:
        host, _, port = gateway.url.removeprefix("http://").rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        body = json.dumps(CHAT | {"stream": True}).encode()
        call = b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n%b" % (
            len(body),
            body,
        )
        writer.write(call * 2)
        async with asyncio.timeout(20):
            await stuck.asked.wait()
            assert gateway.in_flight() == 1
            writer.close()
            await stuck.left.wait()
        assert gateway.in_flight() == 0
        assert len([each for each in worker.requests if each.path == "/v1/chat/completions"]) == 1
