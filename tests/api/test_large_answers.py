"""Workers that send more than allowed: their answers are cut, and cost the gateway no more than the bound."""

from __future__ import annotations

import asyncio
import gzip
from typing import Any

import pytest

from radixway.core.http import server_sent_events
from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, scripted_worker

LIMITS = {"workers": {"max_answer_bytes": 100_000, "max_header_bytes": 2000, "max_header_count": 20}}
HELLO = [{"role": "user", "content": "hello"}]
ASKED: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": HELLO},
    "/v1/completions": {"prompt": "hello"},
    "/generate": {"text": "hello"},
}


async def without_end(exchange: Exchange) -> None:
    """JSON, as far as anybody reads it."""
    exchange.writer.write(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{"text": "')
    while True:
        exchange.writer.write(b"x" * 10_000)
        await exchange.writer.drain()


@pytest.mark.parametrize("path", ASKED)
async def test_an_answer_without_end_is_cut_named_and_not_asked_for_again(path: str) -> None:
    async with (
        scripted_worker(without_end) as one,
        scripted_worker(without_end) as other,
        running_gateway(one.url, other.url, limits=LIMITS) as gateway,
    ):
        status, said, _ = await gateway.post(path, {"model": "m", **ASKED[path]})
        assert (status, said["error"]["code"]) == (502, "worker_failed")
        assert "more than 100000 bytes (limits.workers.max_answer_bytes)" in said["error"]["message"]
        assert len(one.requests) + len(other.requests) == 1, "another worker would answer as much"
        async with asyncio.timeout(10):
            await (one if one.requests else other).hung_up.wait()
        assert not any(worker.breaker.tripped for worker in gateway.gateway.registry)
        assert gateway.in_flight() == 0


async def test_clients_who_ask_for_too_much_close_no_worker_for_others() -> None:
    async def answer(exchange: Exchange) -> None:
        await (without_end(exchange) if "much" in exchange.json() else exchange.reply(200, b"{}"))

    async with scripted_worker(answer) as worker, running_gateway(worker.url, limits=LIMITS) as gateway:
        for _ in range(20):
            assert (await gateway.chat(much=True))[0] == 502
        assert (await gateway.chat())[0] == 200
        assert gateway.gateway.registry.get_worker(worker.url).breaker.state(0) == "closed"


async def test_a_head_without_end_is_a_failure_of_its_worker_and_another_is_asked() -> None:
    async def talk(exchange: Exchange) -> None:
        exchange.writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            exchange.writer.write(b"x-more: and more\r\n" * 100)
            await exchange.writer.drain()

    async with (
        scripted_worker(talk) as endless,
        scripted_worker() as well,
        running_gateway(endless.url, well.url, limits=LIMITS, routing={"policy": "round_robin"}) as gateway,
    ):
        assert [(await gateway.chat())[0] for _ in range(4)] == [200] * 4
        assert endless.requests


async def test_a_first_event_without_end_is_cut_and_not_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_sent_events, "MAX_EVENT_BYTES", 100_000)

    async def talk(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.chunk(b"data: ")
        while True:
            await exchange.chunk(b"x" * 10_000)

    async with scripted_worker(talk) as worker, running_gateway(worker.url) as gateway:
        status, said, _ = await gateway.chat(stream=True)
        assert (
            status == 502 and "an event of its answer has more than 100000 bytes" in said["error"]["message"]
        )
        assert len(worker.requests) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_what_was_not_asked_for_packed_is_not_unpacked(stream: bool) -> None:
    async def pack(exchange: Exchange) -> None:
        body = gzip.compress(b"[" + b" " * 50_000_000 + b"]")
        head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(body)
        exchange.writer.write(head + body)
        await exchange.writer.drain()

    async with scripted_worker(pack) as worker, running_gateway(worker.url) as gateway:
        status, said, _ = await gateway.chat(stream=stream)
        assert status == 502 and "it is compressed (gzip)" in said["error"]["message"]
        assert worker.requests[0].headers["accept-encoding"] == "identity"


async def test_a_health_check_that_is_packed_is_not_unpacked() -> None:
    asked = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (head := await reader.readuntil(b"\r\n\r\n")) and b"/v1/models" not in head:
            writer.write(b"HTTP/1.1 404 X\r\ncontent-length: 0\r\n\r\n")
        assert b"gzip" not in head.lower()
        body = gzip.compress(b'{"data": [{"id": "m"}]}' + b" " * 50_000_000)
        writer.write(
            b"HTTP/1.1 200 X\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        )
        await writer.drain()
        asked.set()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with running_gateway() as gateway:
            await gateway.post("/add_worker", {"url": url})
            async with asyncio.timeout(10):
                await asked.wait()
            assert gateway.gateway.registry.get_worker(url).models == ()
