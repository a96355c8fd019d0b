"""Whoever has no key is told so by the head of a request: nothing of its body is read."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from radixway.cluster.session_ownership.ownership_keys import GatewayFleet
from support.free_ports import find_port
from support.running_gateway import running_gateway
from support.web_served import Peer, head

KEYS = {"one": {"keys": [{"key": "the-key-of-one"}]}}
DECLARED_BYTES = 1_000_000

TENANTS_PATHS = [
    "/v1/chat/completions",
    "/v1/completions",
    "/generate",
    "/sessions/s/v1/messages",
    "/sessions",
    "/add_worker",
    "/abort_request",
    "/v1/responses",
]
CHATS_PATHS = [
    "/chats",
    "/chats/c/prompter_message",
    "/v1/chats",
    "/v1/chats/c/messages",
    "/v1/webhooks",
]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has chats of its own."""
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))


async def answer_to_head(url: str, path: str, *headers: str) -> tuple[int, dict[str, str], bytes]:
    """What comes back before anything of the body is sent."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    peer = Peer(*await asyncio.open_connection(host, int(port)))
    try:
        await peer.send(head(path, f"content-length: {DECLARED_BYTES}", *headers, method="POST"))
        return await peer.answer()
    finally:
        peer.close()


@pytest.mark.parametrize("key", [(), ("authorization: Bearer wrong",)], ids=["none", "wrong"])
async def test_a_call_without_the_key_is_refused_by_its_head(key):
    async with running_gateway(tenants=KEYS) as gateway:
        for path in TENANTS_PATHS + CHATS_PATHS:
            status, headers, _ = await answer_to_head(gateway.url, path, *key)
            assert status in ((401, 403) if path in CHATS_PATHS else (401,)), path
            assert headers["connection"] == "close", path


async def test_an_administrators_call_without_the_key_is_refused_by_its_head():
    async with running_gateway(gateway={"admin_key": "the-admins"}) as gateway:
        for path in ("/add_worker", "/remove_worker", "/update_weights_from_disk", "/auth/operator"):
            status, headers, _ = await answer_to_head(gateway.url, path)
            assert (status, headers["connection"]) == (401, "close"), path


async def test_a_session_that_may_be_another_gateways_is_refused_by_its_head():
    ports = [find_port() for _ in range(2)]
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    way = {"gateways": {"self_url": urls[0], "all": urls, "key": "a key of sixteen characters"}}
    async with running_gateway(port=ports[0], scale=way, tenants=KEYS) as gateway:
        for path in ("/sessions", "/sessions/s/v1/messages", "/generate"):
            assert (await answer_to_head(gateway.url, path))[0] == 401, path
        theirs = GatewayFleet(
            urls[1], urls
        ).make_owned_name()  # with the key the body is read, and says that it is the other's
        status, told, _ = await gateway.post(
            "/sessions", {"session_id": theirs}, headers={"x-api-key": "the-key-of-one"}
        )
        assert (status, told["error"]["code"]) == (503, "gateway_away")


async def test_a_body_that_stalls_is_told_in_the_protocols_words():
    limits = {"server": {"body_timeout_s": 0.05}}
    async with running_gateway(limits=limits) as gateway:
        for path in (
            "/v1/chat/completions",
            "/sessions/s/v1/messages",
            "/v1/responses",
            "/chats",
            "/add_worker",
        ):
            status, _, body = await answer_to_head(gateway.url, path)
            told = json.loads(body)
            if path == "/chats":
                assert status in (403, 408) and isinstance(told["detail"], str)
            else:
                assert (status, "stalled" in told["error"]["message"]) == (408, True), path
        async with gateway.client.get(f"{gateway.url}/metrics/prometheus") as answer:
            assert 'radixway_server_limit_hits_total{limit="slow_bodies"} 4.0' in await answer.text()
