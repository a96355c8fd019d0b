"""Servers that speak for their own users, and how much users may ask for."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.running_gateway import RunningGateway, running_gateway

MODEL = {"name": "m", "model_id": "m", "max_input_length": 8192, "max_total_length": 16384}


def header(**changes: Any) -> dict[str, str]:
    """Of a server that speaks for one of its users."""
    client = {"api_key": "6969", "client": "website", "user_id": "u", "provider_account_id": "a"}
    whole = json.dumps(client | {"username": "Eve"} | changes).encode()
    return {"TrustedClient": base64.b64encode(whole).decode()}


@pytest.fixture
async def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RunningGateway]:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    chat = {
        "allow_debug_auth": True,
        "trusted_client_keys": ["6969"],
        "models": [MODEL],
        "while_busy": "enqueue",
        "limits": {"messages_per_user": 3, "per_s": 3600, "at_once": 2},
    }
    async with running_gateway(chat=chat) as gateway:
        yield gateway


@pytest.mark.parametrize(
    "text",
    [
        "!!!",
        "",
        "AAAA",
        base64.b64encode(b"[]").decode(),
        base64.b64encode(b'{"api_key": 1}').decode(),
        "A" * 9000,
    ],
)
async def test_garbage_is_refused_in_words(gateway: RunningGateway, text: str) -> None:
    for path in ("/chats", "/auth/check"):
        assert (await gateway.get(path, headers={"TrustedClient": text}))[0] == 401


async def test_a_trusted_server_has_users_of_its_own(gateway: RunningGateway) -> None:
    assert await gateway.get("/chats", headers=header()) == (404, {"detail": "User not found"})
    status, user, _ = await gateway.post("/auth/trusted", None, headers=header())
    assert status == 200 and user["id"] == "u"
    wins = header() | {"Authorization": "Bearer nonsense"}
    assert await gateway.get("/auth/check", headers=wins) == (200, "u")
    assert (await gateway.post("/auth/trusted", None, headers=header(api_key="7")))[0] == 401


async def test_it_cannot_speak_for_anybody_elses(gateway: RunningGateway) -> None:
    assert (await gateway.get("/auth/callback/debug?code=adam"))[0] == 200
    adam = header(user_id="adam", provider_account_id="adam")
    assert (await gateway.post("/auth/trusted", None, headers=adam))[0] == 404
    assert (await gateway.get("/chats", headers=adam))[0] == 404


async def test_whoever_asks_too_much_is_told_when_to_come_again(gateway: RunningGateway) -> None:
    who = header()
    await gateway.post("/auth/trusted", None, headers=who)
    asked = [await ask(gateway, who) for _ in range(3)]
    assert [status for status, _, _ in asked] == [200, 200, 429]
    assert asked[-1][2]["Retry-After"] == "1" and "2 answers at a time" in asked[-1][1]["detail"]
    for _, answer, _ in asked[:2]:
        assert (await delete(gateway, f"/chats/{answer['chat_id']}", who)) == 200
    asked = [await ask(gateway, who) for _ in range(2)]
    assert [status for status, _, _ in asked] == [200, 429]
    assert 1 < int(asked[-1][2]["Retry-After"]) <= 1200


async def ask(gateway: RunningGateway, who: dict[str, str]) -> tuple[int, Any, Any]:
    """For an answer in a new chat."""
    _, chat, _ = await gateway.post("/chats", {}, headers=who)
    path = f"/chats/{chat['id']}"
    _, said, _ = await gateway.post(f"{path}/prompter_message", {"content": "hello"}, headers=who)
    body = {"parent_id": said["id"], "model_config_name": "m"}
    return await gateway.post(f"{path}/assistant_message", body, headers=who)


async def delete(gateway: RunningGateway, path: str, who: dict[str, str]) -> int:
    async with gateway.client.delete(gateway.url + path, headers=who) as response:
        return response.status
