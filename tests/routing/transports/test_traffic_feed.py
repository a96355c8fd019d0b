"""Recording live traffic: a real gateway, its stream, and the trace that comes of it."""

import asyncio
import hashlib
import json
from contextlib import asynccontextmanager
from time import perf_counter

import msgspec
import pytest

from radixway.routing import RoutingRequest
from radixway.routing.block_hash import hash_token_blocks, pack_tokens
from radixway.routing.transports import TrafficFeed
from radixway.routing.transports import traffic_feed as traffic_module
from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, scripted_worker


async def answer_with_usage(exchange: Exchange) -> None:
    await exchange.reply(200, b'{"choices": [], "usage": {"prompt_tokens": 40, "completion_tokens": 7}}')


async def stream(exchange: Exchange) -> None:
    await exchange.begin_stream()
    await exchange.chunk(b'data: {"choices": [{"delta": {"role": "assistant", "content": ""}}]}\n\n')
    for _ in range(3):
        await exchange.chunk(
            b'data: {"choices": [{"delta": {"content": "\\"completion_tokens\\": 99"}}]}\n\n'
        )
    if "stream_options" in exchange.json():
        await exchange.chunk(b'data: {"choices": [], "usage": {"completion_tokens": 5}}\n\n')
    await exchange.chunk(b"data: [DONE]\n\n")
    await exchange.end_stream()


@asynccontextmanager
async def following(gateway, **more):
    """The gateway's traffic, line by line."""
    async with gateway.client.get(gateway.url + "/traffic", **more) as response:
        assert response.status == 200, await response.text()

        async def line() -> dict:
            async with asyncio.timeout(10):
                return json.loads(await response.content.readline())

        yield line


async def test_each_answered_request_is_a_line_of_a_trace_without_text():
    ids = list(range(100, 140))
    async with scripted_worker(answer_with_usage) as worker, running_gateway(worker.url) as gateway:
        async with following(gateway) as line:
            for prompt in (ids, [*ids, *ids]):
                await gateway.post("/v1/completions", {"model": "m", "prompt": prompt})
            first, second = await line(), await line()
    assert (first["input_length"], first["output_length"], first["block_size"]) == (40, 7, 16)
    assert 0 <= first["timestamp"] < second["timestamp"]
    assert len(first["hash_ids"]) == 2
    assert second["hash_ids"][:2] == first["hash_ids"]
    assert set(first) == {"timestamp", "input_length", "output_length", "block_size", "hash_ids"}


async def test_each_follower_is_told_under_a_key_of_its_own():
    ids = list(range(64))
    async with scripted_worker(answer_with_usage) as worker, running_gateway(worker.url) as gateway:
        async with following(gateway) as one, following(gateway) as two:
            await gateway.post("/v1/completions", {"model": "m", "prompt": ids})
            names = [set((await line())["hash_ids"]) for line in (one, two)]
    known = set(hash_token_blocks(pack_tokens(ids), 16))
    unkeyed = {
        int.from_bytes(hashlib.blake2b(block.to_bytes(8, "little"), digest_size=8).digest(), "little")
        for block in known
    }
    assert not names[0] & names[1]
    assert not (names[0] | names[1]) & (known | unkeyed)


@pytest.mark.parametrize(("options", "tokens"), [({}, 3), ({"stream_options": {"include_usage": True}}, 5)])
async def test_a_streams_length_is_the_workers_count_or_its_events(options, tokens):
    async with scripted_worker(stream) as worker, running_gateway(worker.url) as gateway:
        async with following(gateway) as line:
            body = {"model": "m", "messages": [{"role": "user", "content": "x" * 2100}], "stream": True}
            async with gateway.client.post(gateway.url + "/v1/chat/completions", json=body | options) as told:
                assert (await told.read()).endswith(b"data: [DONE]\n\n")
            found = await line()
    assert found["output_length"] == tokens
    assert found["block_size"] == 128
    assert len(found["hash_ids"]) == 4


async def test_what_a_client_left_counts_as_far_as_it_came():
    async def endless(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.chunk(b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n')
        await exchange.until_peer_leaves()

    async with scripted_worker(endless) as worker, running_gateway(worker.url) as gateway:
        async with following(gateway) as line:
            body = {"model": "m", "messages": [{"role": "user", "content": "x" * 200}], "stream": True}
            async with gateway.client.post(gateway.url + "/v1/chat/completions", json=body) as told:
                await told.content.readline()
            assert (await line())["output_length"] == 1


async def test_a_request_is_told_once_however_often_it_is_tried_and_not_at_all_if_refused():
    answers = iter([503, 200, 400, 200])

    async def moody(exchange: Exchange) -> None:
        await exchange.reply(next(answers), b'{"usage": {"completion_tokens": 1}}')

    async with scripted_worker(moody) as worker, running_gateway(worker.url) as gateway:
        async with following(gateway) as line:
            for tokens in (20, 30, 40):
                await gateway.post("/v1/completions", {"model": "m", "prompt": [1] * tokens})
            assert [(await line())["input_length"] for _ in range(2)] == [20, 40]


async def test_sessions_are_told_by_number_and_models_by_nothing():
    async with scripted_worker(answer_with_usage) as worker, running_gateway(worker.url) as gateway:
        async with following(gateway) as line:
            for user in ("ann", "bob", "ann"):
                await gateway.post("/v1/completions", {"model": "m", "prompt": [1] * 20, "user": user})
            sessions = [(await line())["session"] for _ in range(3)]
    assert sessions[0] == sessions[2] != sessions[1]


async def test_nobody_follows_without_the_admin_key():
    async with running_gateway(gateway={"admin_key": "secret"}) as gateway:
        assert (await gateway.get("/traffic"))[0] == 401
        headers = {"authorization": "Bearer secret"}
        async with following(gateway, headers=headers):
            assert gateway.gateway.traffic.has_followers


async def test_a_follower_that_leaves_is_forgotten():
    async with running_gateway() as gateway:
        async with following(gateway):
            assert gateway.gateway.traffic.has_followers
        async with asyncio.timeout(10):
            while gateway.gateway.traffic.has_followers:
                await gateway.get("/health")


async def test_a_gateway_that_stops_ends_the_streams_of_its_followers():
    async with running_gateway() as gateway:
        async with gateway.client.get(gateway.url + "/traffic") as response:
            gateway.gateway.stopping()
            assert await response.content.read() == b""
        async with gateway.client.get(gateway.url + "/traffic") as response:
            assert await response.content.read() == b""


async def test_a_follower_that_falls_behind_gets_no_trace_with_holes(monkeypatch):
    monkeypatch.setattr(traffic_module, "_UNREAD_LINES", 3)
    traffic = TrafficFeed()
    follower = traffic.add_follower()
    prompt = RoutingRequest(tokens=5)
    for tokens in range(1, 6):
        traffic.publish_request(perf_counter(), prompt, tokens)
    assert not traffic.has_followers
    told = [msgspec.json.decode(line)["output_length"] async for line in follower]
    assert told == [1, 2, 3]
