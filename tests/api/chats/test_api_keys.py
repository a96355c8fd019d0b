"""Keys at the chats' door: users', tenants', workers', trusted servers'."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from radixway.chat.api_keys import KeyScope
from radixway.chat.records import MessageState
from radixway.chat.service import ChatService
from support.chat_user import ChatUser
from support.hand_driven_worker import worker_info
from support.running_gateway import RunningGateway, running_gateway
from support.scripted_worker import Exchange, ScriptedWorker, scripted_worker

MODEL = {"name": "nobody-serves-it", "model_id": "x", "max_input_length": 99, "max_total_length": 999}
TENANTS = {
    "acme": {
        "keys": [
            {"key": "acme-eve", "user": "eve"},
            {"key": "acme-adam", "user": "adam"},
            {"key": "acme-trusted", "scopes": ["trusted"]},
            {"key": "acme-admin", "scopes": ["admin"]},
            {"key": "acme-worker", "scopes": ["worker"]},
        ]
    },
    "umbrella": {"keys": [{"key": "umbrella-eve", "user": "eve"}], "models": ["other-*"]},
}


async def answer(exchange: Exchange) -> None:
    await exchange.begin_stream()
    event = {"choices": [{"index": 0, "delta": {"content": "Hi."}, "finish_reason": "stop"}]}
    await exchange.chunk(b"data: " + json.dumps(event).encode() + b"\n\ndata: [DONE]\n\n")
    await exchange.end_stream()


@pytest.fixture
async def worker() -> AsyncIterator[ScriptedWorker]:
    async with scripted_worker(answer) as worker:
        yield worker


@pytest.fixture
async def gateway(
    worker: ScriptedWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RunningGateway]:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    chat = {
        "database": f"sqlite:///{tmp_path / 'chats.db'}",
        "workers": {"ping_s": 0.05},
        "lease_s": 0.6,
        "waits_s": 600,
        "models": [MODEL],
    }
    async with running_gateway(worker.url, chat=chat, tenants=TENANTS) as gateway:
        yield gateway


def room(gateway: RunningGateway) -> ChatService:
    assert gateway.gateway.chats is not None and gateway.gateway.chats.service is not None
    return gateway.gateway.chats.service


async def test_a_tenants_key_chats_as_the_user_it_names(gateway: RunningGateway) -> None:
    eve = ChatUser(gateway, "acme-eve")
    asked = await eve.asked()
    assert (await eve.heard(asked))[-1]["message"]["content"] == "Hi."
    by_header = {"X-API-Key": "acme-eve"}
    _, listed = await gateway.get("/chats", headers=by_header)
    assert [chat["id"] for chat in listed["chats"]] == [asked["chat_id"]]
    for key in ("acme-adam", "umbrella-eve", "acme-trusted"):
        assert (await ChatUser(gateway, key).call("GET", "/chats"))[1]["chats"] == [], key


async def test_a_tenants_users_are_answered_by_its_models_alone(gateway: RunningGateway) -> None:
    asked = await ChatUser(gateway, "umbrella-eve").asked()
    end = (await ChatUser(gateway, "umbrella-eve").heard(asked))[-1]
    assert end["event_type"] == "error" and "m" in end["error"]


async def test_a_key_of_another_purpose_is_not_for_chatting(gateway: RunningGateway) -> None:
    keys = room(gateway).api_keys
    texts = [
        (await keys.create_key("k", scope))[1]
        for scope in (KeyScope.WORKER, KeyScope.TRUSTED, KeyScope.ADMIN)
    ]
    for key in ("acme-worker", *texts):
        assert (await ChatUser(gateway, key).call("GET", "/chats"))[0] == 403, key
    assert (await ChatUser(gateway, "acme-admin").call("GET", "/admin/workers"))[0] == 200
    for key in ("acme-eve", "acme-trusted", "acme-worker"):
        assert (await ChatUser(gateway, key).call("GET", "/admin/workers"))[0] == 403, key


async def test_a_worker_comes_with_a_key_for_workers_alone(gateway: RunningGateway) -> None:
    keys = room(gateway).api_keys
    made, text = await keys.create_key("gpu-7", KeyScope.WORKER)
    for key in (text, "acme-worker"):
        async with _connect(gateway, key) as socket:
            await socket.send_json(worker_info())
            assert (await socket.receive_json())["request_type"] == "ping"
    _, wrong = await keys.create_key("k", KeyScope.ADMIN)
    await keys.revoke_key(made.id)
    for key in (text, wrong, "acme-eve", "rxw_nothing"):
        async with _connect(gateway, key) as socket:
            assert (await socket.receive_json())["request_type"] == "wrong_api_key", key


async def test_a_worker_whose_key_is_revoked_is_shut_out_while_it_is_connected(
    gateway: RunningGateway,
) -> None:
    keys = room(gateway).api_keys
    made, text = await keys.create_key("gpu-7", KeyScope.WORKER)
    async with asyncio.timeout(10), _connect(gateway, text) as socket:
        await socket.send_json(worker_info())
        assert (await socket.receive_json())["request_type"] == "ping"
        await keys.revoke_key(made.id)
        while (frame := await socket.receive_json())["request_type"] == "ping":
            pass
        assert frame["request_type"] == "wrong_api_key"
        assert (await socket.receive()).data == 4401


def _connect(gateway: RunningGateway, key: str) -> Any:
    headers = {"X-Protocol-Version": "1", "X-API-Key": key}
    return gateway.client.ws_connect(f"{gateway.url}/workers/work", headers=headers)


def _client(api_key: str, client: str = "website") -> dict[str, str]:
    who = {"api_key": api_key, "client": client, "user_id": "1", "provider_account_id": "1"}
    return {"TrustedClient": base64.b64encode(json.dumps(who | {"username": "U"}).encode()).decode()}


async def test_trusted_servers_of_tenants_have_users_of_their_own_even_by_the_same_names(
    gateway: RunningGateway,
) -> None:
    _, text = await room(gateway).api_keys.create_key("website", KeyScope.TRUSTED, client="website")
    ids = set()
    for key in (text, "acme-trusted"):
        status, user, _ = await gateway.post("/auth/trusted", None, headers=_client(key))
        assert status == 200
        assert await gateway.get("/auth/check", headers=_client(key)) == (200, user["id"])
        ids.add(user["id"])
    assert len(ids) == 2


async def test_a_trusted_server_is_no_other_provider(gateway: RunningGateway) -> None:
    _, bound = await room(gateway).api_keys.create_key("website", KeyScope.TRUSTED, client="website")
    assert (await gateway.post("/auth/trusted", None, headers=_client(bound, "website")))[0] == 200
    for client in ("forum", "debug", "google", "tenant", "local", "https://idp.example"):
        for key in [bound] if client == "forum" else [bound, "acme-trusted"]:
            status, _, _ = await gateway.post("/auth/trusted", None, headers=_client(key, client))
            assert status == 401, client


async def test_who_was_deleted_is_out_at_once_by_every_way_in(gateway: RunningGateway) -> None:
    home = room(gateway)
    user = await home.accounts.enroll_user("default", "local", "eve", "Eve", new_id="eve")
    pair = await home.token_issuer.issue_pair(user.id)
    _, key = await home.api_keys.create_key("laptop", KeyScope.USER, user_id=user.id)
    ways = [ChatUser(gateway, pair.access), ChatUser(gateway, key)]
    assert [(await way.call("GET", "/chats"))[0] for way in ways] == [200, 200]
    root = ChatUser(gateway, home.secrets.root_token)
    assert (await root.call("DELETE", f"/admin/users/{user.id}"))[0] == 200
    assert [(await way.call("GET", "/chats"))[0] for way in ways] == [401, 401]
    assert (await gateway.get("/auth/refresh", headers={"Refresh": pair.refresh}))[0] == 401


async def test_who_is_deleted_hears_no_more_of_an_answer_under_way(gateway: RunningGateway) -> None:
    home = room(gateway)
    user = await home.accounts.enroll_user("default", "house", "eve", "Eve", new_id="eve")
    eve = ChatUser(gateway, (await home.token_issuer.issue_pair(user.id)).access)
    asked = await eve.asked(model="nobody-serves-it")
    events = f"{gateway.url}/chats/{asked['chat_id']}/messages/{asked['id']}/events"
    async with asyncio.timeout(20), gateway.client.get(events, headers=eve.headers) as response:
        assert response.status == 200
        assert (await eve.call("DELETE", "/account/"))[0] == 200
        await response.read()
    assert (await home.messages.get_message(asked["id"])).state == MessageState.CANCELLED
