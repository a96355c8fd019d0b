"""Logging in over HTTP, as a browser does, and what is written down of it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from radixway.chat.api_keys import KeyScope
from support.identity_provider import SECRET, IdentityProvider, identity_provider
from support.running_gateway import RunningGateway, running_gateway


@pytest.fixture
async def provider() -> AsyncIterator[IdentityProvider]:
    async with identity_provider() as provider:
        yield provider


@pytest.fixture
async def gateway(
    provider: IdentityProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RunningGateway]:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    login = {
        "public_url": "https://chat.example",
        "github": provider.oauth(),
        "google": provider.oidc(),
        "oidc": {"keycloak": provider.oidc()},
    }
    chat = {"database": f"sqlite:///{tmp_path / 'chats.db'}", "login": login, "allow_debug_auth": True}
    async with running_gateway(chat=chat) as gateway:
        yield gateway


async def begin(gateway: RunningGateway, name: str) -> str:
    """Where a browser is sent."""
    url = f"{gateway.url}/auth/login/{name}"
    async with gateway.client.get(url, allow_redirects=False) as response:
        assert response.status == 302 and response.headers["cache-control"] == "no-store"
        assert "set-cookie" not in response.headers
        return response.headers["location"]


async def come_back(gateway: RunningGateway, name: str, **back: str) -> tuple[int, Any]:
    url = f"{gateway.url}/auth/callback/{name}"
    async with gateway.client.get(url, params=back) as response:
        assert "set-cookie" not in response.headers
        return response.status, await response.json()


async def test_somebody_logs_in_at_a_provider_and_chats(
    gateway: RunningGateway, provider: IdentityProvider
) -> None:
    assert await gateway.get("/auth/providers") == (200, ["github", "google", "debug", "keycloak"])
    for name, scope in (("github", "read%3Auser"), ("google", "openid+profile"), ("keycloak", "openid")):
        url = await begin(gateway, name)
        assert f"scope={scope}" in url
        assert f"redirect_uri=https%3A%2F%2Fchat.example%2Fauth%2Fcallback%2F{name}" in url
        status, pair = await come_back(gateway, name, **provider.visit(url))
        assert status == 200 and pair["refresh_token"]["token_type"] == "refresh"
        headers = {"Authorization": f"Bearer {pair['access_token']['access_token']}"}
        assert (await gateway.post("/chats", {}, headers=headers))[0] == 200


async def test_what_is_not_configured_is_told_in_words(gateway: RunningGateway) -> None:
    for path in ("/auth/login/discord", "/auth/callback/discord?code=x&state=x", "/auth/login/nothing"):
        status, told = await gateway.get(path)
        assert status == 404 and "not configured" in told["detail"], path
    assert (await gateway.get("/auth/callback/discord?error=x"))[0] == 404


@pytest.mark.parametrize(
    ("query", "status", "why"),
    [
        ({}, 422, "code"),
        ({"code": "x"}, 422, "state"),
        ({"state": "x"}, 422, "code"),
        ({"code": "x", "state": "x"}, 400, "was not started here"),
        ({"error": "access_denied"}, 400, "access_denied"),
        ({"code": "x" * 5000, "state": "x"}, 422, "code"),
    ],
    ids=["nothing", "no state", "no code", "no beginning", "refused there", "a long code"],
)
async def test_who_comes_back_wrongly_is_told_why(
    gateway: RunningGateway, query: dict[str, str], status: int, why: str
) -> None:
    answered, told = await come_back(gateway, "keycloak", **query)
    assert answered == status and why in str(told["detail"])


async def test_a_provider_that_is_down_is_told_with_when_to_come_again(
    gateway: RunningGateway, provider: IdentityProvider
) -> None:
    provider.down = True
    async with gateway.client.get(f"{gateway.url}/auth/login/google") as response:
        assert response.status == 503 and "Retry-After" in response.headers
        assert "is unavailable" in (await response.json())["detail"]


async def test_no_code_token_or_key_is_written_down(
    gateway: RunningGateway, provider: IdentityProvider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    back = provider.visit(await begin(gateway, "keycloak"))
    _, pair = await come_back(gateway, "keycloak", **back)
    await come_back(gateway, "keycloak", **back)
    tokens = [pair[name]["access_token"] for name in ("access_token", "refresh_token")]
    assert gateway.gateway.chats is not None and gateway.gateway.chats.service is not None
    room = gateway.gateway.chats.service
    _, key = await room.api_keys.create_key("k", KeyScope.WORKER)
    for token in (*tokens, key, room.secrets.root_token):
        headers = {"Authorization": f"Bearer {token}", "X-API-Key": token, "Refresh": token}
        for path in ("/chats", "/admin/workers", "/auth/refresh", "/chats/unknown"):
            await gateway.get(path, headers=headers)
    async with gateway.client.ws_connect(f"{gateway.url}/work?api_key={key}&protocol_version=v2"):
        pass
    _, metrics = await gateway.get("/metrics")
    # What `configure_logging` lets through at its most talkative.
    mine = [each for each in caplog.records if each.name.startswith("radixway") or each.levelno >= 30]
    written = "\n".join(each.getMessage() for each in mine) + str(metrics)
    secret = (*tokens, key, back["code"], back["state"], SECRET, room.secrets.root_token)
    assert written and not [each for each in secret if each in written]
