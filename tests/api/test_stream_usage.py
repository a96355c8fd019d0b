"""Streams are charged by the worker's own count, whether or not the client asks for it."""

from __future__ import annotations

import asyncio
import json

import pytest

from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

USAGE = {"prompt_tokens": 11, "completion_tokens": 7}
TENANTS = {"pricing": {"m": {"prompt_per_1m": 1, "completion_per_1m": 2}}}
COST = (11 + 2 * 7) / 1e6
TEXTS = b"".join(
    b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n' % piece for piece in (b"a", b"b", b"c")
)
TOLD = b"data: " + json.dumps({"choices": [], "usage": USAGE}).encode() + b"\n\n"
DONE = b"data: [DONE]\n\n"


class _Worker:
    """Streams as OpenAI says: the usage in an event of its own, where it is asked for."""

    def __init__(self) -> None:
        self.bodies: list[dict] = []

    async def __call__(self, exchange) -> None:
        body = exchange.json() if exchange.body else {}
        self.bodies.append(body)
        await exchange.begin_stream()
        options = body.get("stream_options") or {}
        for event in TEXTS.split(b"\n\n")[:-1]:
            if options.get("include_usage") and options.get("continuous_usage_stats"):
                event = event[:-1] + b',"usage":{"prompt_tokens":11,"completion_tokens":1}}'
            await exchange.chunk(event + b"\n\n")
        if options.get("include_usage"):
            await exchange.chunk(TOLD + DONE)
        else:
            await exchange.chunk(DONE)
        await exchange.end_stream()


async def stream(gateway, **fields) -> tuple[bytes, str]:
    """The bytes of the answer, and the request's id."""
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "stream": True, **fields}
    async with gateway.client.post(f"{gateway.url}/v1/chat/completions", json=body) as reply:
        return await reply.read(), reply.headers["x-request-id"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, TEXTS + DONE),
        ({"stream_options": None}, TEXTS + DONE),
        ({"stream_options": {"include_usage": False}}, TEXTS + DONE),
        ({"stream_options": {"continuous_usage_stats": True}}, TEXTS + DONE),
        ({"stream_options": {"include_usage": True}}, TEXTS + TOLD + DONE),
    ],
)
async def test_the_charge_is_the_workers_count_and_the_client_gets_what_it_asked_for(options, expected):
    behaviour = _Worker()
    async with scripted_worker(behaviour) as worker, running_gateway(worker.url, tenants=TENANTS) as gateway:
        answer, request_id = await stream(gateway, **options)
        assert answer == expected
        assert behaviour.bodies[-1]["stream_options"]["include_usage"] is True
        charged = (await gateway.get("/usage"))[1]["usage"][0]
        assert (charged["prompt_tokens"], charged["completion_tokens"]) == (11, 7)
        assert charged["estimated"] == 0 and charged["cost"] == pytest.approx(COST)
        rows = (await gateway.get("/requests"))[1]["requests"]
        shown = next(row for row in rows if row["id"] == request_id)
        assert shown["cost"] == charged["cost"] and shown["estimated"] is False


async def test_streams_that_nobody_charges_are_asked_for_as_they_come():
    behaviour = _Worker()
    tenants = {"pricing": {"other": {"prompt_per_1m": 1}}}
    async with scripted_worker(behaviour) as worker, running_gateway(worker.url, tenants=tenants) as gateway:
        assert (await stream(gateway))[0] == TEXTS + DONE
        assert "stream_options" not in behaviour.bodies[-1]


async def test_a_quota_of_tokens_counts_what_streams_used():
    behaviour = _Worker()
    tenants = {"default": {"quotas": {"tokens_per_day": 1000}}}
    async with scripted_worker(behaviour) as worker, running_gateway(worker.url, tenants=tenants) as gateway:
        assert (await stream(gateway))[0] == TEXTS + DONE
        assert (await gateway.get("/usage?tenant=default"))[1]["limits"][0]["used"] == 18


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/messages", {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 9}),
        ("/v1/responses", {"input": "hello"}),
        ("/v1/responses", {"input": "hello", "store": False}),
        ("/v1/completions", {"prompt": "hello"}),
        ("/v1/completions", {"prompt": "hello", "n": 2}),
    ],
)
async def test_a_stream_of_every_form_is_charged_once_by_the_workers_count(path, body):
    behaviour = _Worker()
    async with scripted_worker(behaviour) as worker, running_gateway(worker.url, tenants=TENANTS) as gateway:
        body = {"model": "m", "stream": True, **body}
        async with gateway.client.post(f"{gateway.url}{path}", json=body) as reply:
            assert reply.status == 200 and await reply.read()
        charged = (await gateway.get("/usage"))[1]["usage"]
        assert [(row["requests"], row["cost"], row["estimated"]) for row in charged] == [
            (1, pytest.approx(COST), 0)
        ]


async def test_a_stream_that_the_client_leaves_is_charged_by_what_it_sent():
    begun, left = asyncio.Event(), asyncio.Event()

    async def endless(exchange) -> None:
        await exchange.begin_stream()
        await exchange.chunk(TEXTS)
        begun.set()
        await exchange.until_peer_leaves()
        left.set()

    async with scripted_worker(endless) as worker, running_gateway(worker.url, tenants=TENANTS) as gateway:
        leaving = asyncio.create_task(stream(gateway))
        await begun.wait()
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        await left.wait()
        async with asyncio.timeout(20):
            while not (rows := (await gateway.get("/usage"))[1]["usage"]):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert rows[0]["estimated"] == 1 and rows[0]["cost"] > 0
