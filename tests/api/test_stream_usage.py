"""Streams are charged by the worker's own count, whether or not the client asks for it."""

from __future__ import annotations

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
        for event in TEXTS.split(b"\n\n")[:-1]:
            await exchange.chunk(event + b"\n\n")
        if (body.get("stream_options") or {}).get("include_usage"):
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
