"""Own machines first, hosted models when these cannot answer; splits of an alias between both."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest

from radixway.routing import WorkerState
from support.hosted_gateway import ASK, explain, fronted, step
from support.hosted_providers import PNG, error_body
from support.running_gateway import FAST_HEALTH
from support.scripted_worker import Exchange, scripted_worker

PRICED = {"pricing": {"prompt_per_1m": 1000, "completion_per_1m": 2000}}


async def test_own_workers_come_first_and_a_hosted_one_when_they_are_down():
    async with (
        scripted_worker() as own,
        fronted("anthropic", own.url, worker=PRICED, routing={"health": FAST_HEALTH}) as (provider, gateway),
    ):
        for _ in range(3):
            _, _, headers = await gateway.chat()
        assert provider.bodies == []
        journal = await explain(gateway, headers)
        assert not any(each["step"] == "hosted" for each in journal["steps"])
        assert (journal["row"]["provider"], journal["row"]["overflow"]) == (None, None)
        await own.kill()
        status, answer, headers = await gateway.chat()
        assert (status, answer["choices"][0]["message"]["content"]) == (200, "Hello there")
        journal = await explain(gateway, headers)
        told = step(journal, "hosted")
        assert (told["provider"], told["model"], told["prompt_per_1m"]) == (
            "anthropic",
            "anthropic-model",
            1000,
        )
        assert told["overflow"] in ("own workers fail", "no own worker can answer")
        assert (journal["row"]["provider"], journal["row"]["overflow"]) == ("anthropic", told["overflow"])
        assert "overflow" in journal["row"]["flags"]
        assert journal["row"]["cost"] == pytest.approx((129 * 1000 + 5 * 2000) / 1e6)


async def test_a_dry_run_says_that_a_provider_would_answer_and_why():
    guard = {"pii": {"hosted": "forbid"}, "audit": {"enabled": False}}
    sections = {"worker": PRICED, "routing": {"health": FAST_HEALTH}, "guard": guard}
    async with (
        scripted_worker() as own,
        fronted("openai", own.url, **sections) as (provider, gateway),
    ):
        told = (await gateway.post("/rehearse", ASK))[1]
        assert told["worker"] in own.url
        await own.kill()
        await gateway.until(own.url, WorkerState.DOWN)
        told = (await gateway.post("/rehearse", ASK))[1]
        assert provider.url.endswith(told["worker"].removesuffix("/v1"))
        hosted = step(told, "hosted")
        assert (hosted["provider"], hosted["overflow"]) == ("openai", "no own worker can answer")
        assert hosted["prompt_per_1m"] == 1000
        mail = [{"role": "user", "content": "Write to anna.lind@example.org please"}]
        told = (await gateway.post("/rehearse", {**ASK, "messages": mail}))[1]
        assert told["refusal"]["code"] == "hosted_forbidden"
        status, answer, _ = await gateway.post("/select", ASK)
        assert (status, provider.bodies) == (503, []), answer


async def test_a_long_queue_overflows_and_says_so():
    asked, go = asyncio.Event(), asyncio.Event()

    async def hold(exchange: Exchange) -> None:
        asked.set()
        await go.wait()
        await exchange.reply(200, b"{}")

    routing = {"max_in_flight_per_worker": 1, "overflow": {"queue_s": 0.05}}
    async with (
        scripted_worker(hold) as own,
        fronted("gemini", own.url, routing=routing) as (_, gateway),
    ):
        first = asyncio.create_task(gateway.chat())
        await asked.wait()
        status, answer, headers = await gateway.chat()
        assert (status, answer["choices"][0]["message"]["content"]) == (200, "Hello there")
        told = step(await explain(gateway, headers), "hosted")
        assert "0.05 s" in told["overflow"] or "queues take" in told["overflow"]
        go.set()
        assert (await first)[0] == 200


async def test_who_waits_is_hosted_once_the_provider_takes_more():
    asked, go = asyncio.Event(), asyncio.Event()

    async def hold(exchange: Exchange) -> None:
        asked.set()
        await go.wait()
        await exchange.reply(200, b"{}")

    routing = {"max_in_flight_per_worker": 1, "overflow": {"queue_s": 0.05}}
    async with (
        scripted_worker(hold) as own,
        fronted("openai", own.url, routing=routing) as (provider, gateway),
    ):
        told = error_body("openai", 429, "Rate limit reached", "rate_limit_exceeded")
        provider.scene.refusals = [(429, told, {"retry-after-ms": "300"})]
        first = asyncio.create_task(gateway.chat())
        await asked.wait()
        async with asyncio.timeout(10):
            status, answer, _ = await gateway.chat()
        assert (status, answer["choices"][0]["message"]["content"]) == (200, "Hello there")
        assert (len(provider.bodies), first.done()) == (2, False)
        go.set()
        assert (await first)[0] == 200


async def test_a_queue_may_overflow_to_another_model():
    asked, go = asyncio.Event(), asyncio.Event()

    async def hold(exchange: Exchange) -> None:
        asked.set()
        await go.wait()
        await exchange.reply(200, b"{}")

    routing = {"max_in_flight_per_worker": 1, "overflow": {"to": "big", "queue_s": 0.05}}
    entry = {"models": {"big": "gpt-x"}}
    async with (
        scripted_worker(hold) as own,
        fronted("openai", own.url, routing=routing, worker=entry) as (provider, gateway),
    ):
        first = asyncio.create_task(gateway.chat())
        await asked.wait()
        status, _, headers = await gateway.chat()
        assert (status, headers["x-radixway-fallback"]) == (200, "big")
        assert provider.bodies[-1]["model"] == "gpt-x"
        journal = await explain(gateway, headers)
        assert step(journal, "fallback")["reason"] == "queue_too_long"
        assert (
            "queues take" in step(journal, "hosted")["overflow"]
            or "waited" in step(journal, "hosted")["overflow"]
        )
        assert (await gateway.chat(model="unknown"))[0] == 404
        go.set()
        assert (await first)[0] == 200


async def test_a_tenant_of_own_pools_never_leaves_the_own_machines():
    tenants = {
        "inside": {"keys": [{"key": "k-inside"}], "pools": ["gpus"]},
        "any": {"keys": [{"key": "k-any"}]},
    }
    async with fronted("openai", tenants=tenants) as (provider, gateway):

        async def ask(key: str) -> int:
            headers = {"authorization": f"Bearer {key}"}
            return (await gateway.post("/v1/chat/completions", ASK, headers=headers))[0]

        assert (await ask("k-any"), await ask("k-inside")) == (200, 503)
        assert len(provider.bodies) == 1


async def test_personal_data_stays_where_the_guard_forbids_hosted_models():
    guard = {"pii": {"hosted": "forbid"}, "audit": {"enabled": False}}
    mail = [{"role": "user", "content": "Write to anna.lind@example.org please"}]
    async with fronted("openai", guard=guard) as (provider, gateway):
        assert (await gateway.chat())[0] == 200
        status, answer, _ = await gateway.chat(messages=mail)
        assert (status, answer["error"]["code"]) == (403, "hosted_forbidden")
        assert len(provider.bodies) == 1
    async with scripted_worker() as own, fronted("openai", own.url, guard=guard) as (provider, gateway):
        assert (await gateway.chat(messages=mail))[0] == 200
        assert provider.bodies == []
    masked = {"pii": {"hosted": "forbid", "action": "mask"}, "audit": {"enabled": False}}
    async with fronted("openai", guard=masked) as (provider, gateway):
        assert (await gateway.chat(messages=mail))[0] == 200
        assert "anna.lind" not in json.dumps(provider.bodies)


async def test_no_form_of_personal_data_leaves():
    """What the guard cannot read counts as personal data: pictures, files, recordings, ids of tokens."""
    guard = {"pii": {"hosted": "forbid"}, "audit": {"enabled": False}}
    mail = "Write to anna.lind@example.org please"
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    file = {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PNG}", "filename": "a.pdf"}}
    told = {"role": "tool", "tool_call_id": "c", "content": mail}
    schema = {"name": "x", "schema": {"type": "object", "description": mail}}
    bodies = [
        ("/v1/chat/completions", {"messages": [told]}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": [image]}]}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": [file]}]}),
        (
            "/v1/chat/completions",
            {**ASK, "response_format": {"type": "json_schema", "json_schema": schema}},
        ),
        ("/v1/messages", {"messages": [{"role": "user", "content": mail}], "max_tokens": 5}),
        ("/v1/messages", {**ASK, "system": [{"type": "text", "text": mail}], "max_tokens": 5}),
        ("/v1/responses", {"input": mail, "store": False}),
        ("/v1/responses/input_tokens", {"input": mail}),
        ("/v1/completions", {"prompt": mail}),
        ("/v1/completions", {"prompt": [9906, 1917, 0, 4]}),
        ("/v1/embeddings", {"input": ["hello", mail]}),
        ("/v1/embeddings", {"input": [9906, 1917]}),
        ("/v1/embeddings", {"input": [[9906, 1917]]}),
        ("/v1/audio/speech", {"input": mail, "voice": "x"}),
        ("/v1/images/generations", {"prompt": mail}),
    ]
    async with fronted("openai", guard=guard) as (provider, gateway):
        for path, fields in bodies:
            status, answer, _ = await gateway.post(path, {"model": "m", **fields})
            assert status in (403, 501), (path, fields, status, answer)
        form = aiohttp.FormData({"model": "m"})
        form.add_field("file", b"RIFF", filename="a.wav")
        async with gateway.client.post(gateway.url + "/v1/audio/transcriptions", data=form) as response:
            assert response.status == 403
        assert provider.bodies == []
        assert (await gateway.chat())[0] == 200


async def test_a_split_keeps_sessions_and_is_shown():
    split = {"fast": {"split": {"m": 50, "other": 50}}}
    async with (
        scripted_worker(models=["other"]) as own,
        fronted("openai", own.url, routing={"model_aliases": split}) as (_, gateway),
    ):
        chosen: dict[str, set[str]] = {}
        for turn in range(40):
            session = f"s{turn % 20}"
            _, _, headers = await gateway.post(
                "/v1/chat/completions", {**ASK, "model": "fast"}, headers={"x-session-id": session}
            )
            told = step(await explain(gateway, headers), "split")
            assert told["weights"] == {"m": 50, "other": 50}
            chosen.setdefault(session, set()).add(told["model"])
        assert all(len(models) == 1 for models in chosen.values())
        assert set.union(*chosen.values()) == {"m", "other"}
        listed = {card["id"]: card for card in (await gateway.get("/v1/models"))[1]["data"]}
        assert listed["fast"]["split"] == {"m": 50, "other": 50}
