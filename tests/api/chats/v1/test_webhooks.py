"""Webhooks over HTTP, from their making to what they are told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.chatting import Chatter, login
from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, scripted_worker


@pytest.fixture
async def eve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Chatter]:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    webhooks = {"http": True, "allowed_networks": ["127.0.0.1"], "per_user": 2}
    async with (
        scripted_worker() as worker,
        running_gateway(worker.url, chat={"allow_debug_auth": True, "webhooks": webhooks}) as gateway,
    ):
        yield await login(gateway, "eve")


async def test_an_answer_s_end_reaches_whoever_asked_to_be_told(eve: Chatter) -> None:
    heard: asyncio.Queue[tuple[dict[str, str], bytes]] = asyncio.Queue()

    async def receive(exchange: Exchange) -> None:
        await exchange.reply(204, b"")
        heard.put_nowait((exchange.headers, exchange.body))

    async with scripted_worker(receive) as receiver:
        body = {"url": f"{receiver.url}/hook", "events": ["answer.completed"]}
        status, hook = await eve.call("POST", "//v1/webhooks", body)
        assert status == 201 and hook["secret"].startswith("whsec_") and hook["events"] == body["events"]
        turn = await eve.ask(await eve.chat(), "hello", model="m")
        headers, told = await asyncio.wait_for(heard.get(), 20)
    assert json.loads(told)["data"]["message_id"] == turn["answer"]["id"]
    assert headers["webhook-signature"].startswith("v1,") and headers["user-agent"] == "radixway-webhooks"
    _, listed = await eve.call("GET", "//v1/webhooks")
    assert [each["id"] for each in listed] == [hook["id"]] and "secret" not in listed[0]


async def test_webhooks_are_changed_tested_looked_into_and_removed(eve: Chatter) -> None:
    _, hook = await eve.call("POST", "//v1/webhooks", {"url": "http://127.0.0.1:1/"})
    path = f"//v1/webhooks/{hook['id']}"
    assert (await eve.call("PATCH", path, {"enabled": False, "events": ["chat.deleted"]}))[1][
        "enabled"
    ] is False
    _, rotated = await eve.call("POST", f"{path}/rotate")
    assert rotated["secret"] != hook["secret"]
    assert (await eve.call("POST", f"{path}/test"))[0] == 202
    status, (delivery,) = await eve.call("GET", f"{path}/deliveries")
    assert (status, delivery["type"], delivery["chat_id"]) == (200, "webhook.test", None)
    assert (await eve.call("POST", f"{path}/deliveries/nothing/retry"))[0] == 404
    mallory = await login(eve.gateway, "mallory")
    assert (await mallory.call("GET", path))[0] == (await mallory.call("DELETE", path))[0] == 404
    assert (await eve.call("DELETE", path))[0] == 204
    assert (await eve.call("GET", path))[0] == 404


async def test_what_is_wrong_with_a_webhook_is_named(eve: Chatter) -> None:
    for body, field in (
        ({"url": "http://192.168.0.1/"}, "url"),
        ({"url": "gopher://a.b"}, "url"),
        ({"url": "https://a.b", "events": ["answer.pondered"]}, "events"),
        ({"url": "https://a.b", "evnets": []}, "evnets"),
        ({}, "url"),
    ):
        status, told = await eve.call("POST", "//v1/webhooks", body)
        assert status == 422 and field in told["detail"][0]["loc"], body


async def test_nobody_has_more_webhooks_than_are_allowed(eve: Chatter) -> None:
    for status in (201, 201, 409):
        assert (await eve.call("POST", "//v1/webhooks", {"url": "https://a.b/"}))[0] == status
