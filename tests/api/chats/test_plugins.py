"""The plugins of this house over HTTP, and what can be learnt of others."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.running_gateway import RunningGateway, running_gateway
from support.scripted_worker import Exchange, scripted_worker

TOUR = Path(__file__).parents[2] / "data" / "oasst" / "http_tour.jsonl"
THERE = "http://127.0.0.1:18000"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))


@pytest.fixture
async def gateway() -> AsyncIterator[RunningGateway]:
    async with running_gateway() as gateway:
        yield gateway


def recorded(note: str, here: str) -> Any:
    """What the published service answered, as if it had been called by our address."""
    rows = (json.loads(line) for line in TOUR.read_text().splitlines())
    row = next(row for row in rows if row.get("note") == note)
    return json.loads(json.dumps(row["res"]["body"]).replace(THERE, here))


async def read(gateway: RunningGateway, path: str, **query: str) -> tuple[int, str, str]:
    """Status, kind, text."""
    async with gateway.client.get(gateway.url + path, params=query) as response:
        return response.status, response.content_type, await response.text()


async def test_ours_are_word_for_word_the_published_ones(gateway: RunningGateway) -> None:
    _, ours = await gateway.get("/configs/builtin_plugins")
    theirs = recorded("builtin plugins", gateway.url)
    theirs[1]["plugin_config"]["logo_url"] = f"{gateway.url}/plugins/gale_roaster/icon.png"
    assert ours[:3] == theirs and ours[3]["plugin_config"]["name_for_human"] == "Calculator"
    _, manifest = await gateway.get("/plugins/web_retriever/ai-plugin.json")
    assert manifest == recorded("plugin manifest", gateway.url)
    _, openapi = await gateway.get("/plugins/gale_pleaser/openapi.json")
    assert openapi == recorded("plugin openapi", gateway.url)
    said = await read(
        gateway, "/plugins/gale_pleaser/get-instructions/", supporting_style="calm", users_query="hi"
    )
    assert said == (200, "text/plain", recorded("plugin call", gateway.url))


async def test_what_is_not_public_is_not_fetched_for_anybody(gateway: RunningGateway) -> None:
    """The published service fetched whatever it was told to: its own network, its own administration."""
    for url in (
        f"{gateway.url}/configs/model_configs",
        "http://169.254.169.254/latest/",
        "file:///etc/passwd",
    ):
        status, kind, text = await read(gateway, "/plugins/web_retriever/get-url-content/", url=url)
        assert (status, kind) == (400, "application/json") and json.loads(text)["error"].startswith("Sorry")
        status, told, _ = await gateway.post("/configs/plugin_config", {"url": url})
        assert status == 404 and told["detail"].startswith("Plugin not found")


async def test_bad_calls_are_told_what_is_wrong(gateway: RunningGateway) -> None:
    calculate = "/plugins/calculator/calculate/"
    assert await read(gateway, calculate, expression="2 ** 10") == (200, "text/plain", "1024")
    status, _, text = await read(gateway, calculate)
    assert status == 422 and json.loads(text)["detail"] == [
        {"loc": ["query", "expression"], "msg": "field required", "type": "value_error.missing"}
    ]
    status, _, text = await read(gateway, calculate, expression="import os")
    assert status == 400 and "this is not arithmetic" in json.loads(text)["error"]
    assert (await read(gateway, calculate, expression="1" * 9000))[0] == 422
    for path in ("/plugins/x/ai-plugin.json", "/plugins/calculator/roast-user/", "/plugins/x/icon.png"):
        assert (await read(gateway, path))[0] == 404, path
    for body in ({}, {"url": 5}, {"url": "x" * 3000}, {"url": "\0"}):
        assert (await gateway.post("/configs/plugin_config", body))[0] == 422, body


async def test_every_plugin_has_a_picture(gateway: RunningGateway) -> None:
    async with gateway.client.get(f"{gateway.url}/plugins/calculator/icon.png") as response:
        assert response.content_type == "image/png" and (await response.read()).startswith(b"\x89PNG\r\n")


async def test_what_is_switched_off_is_not_there() -> None:
    plugins = {"builtin": ["calculator"], "by_url": False}
    async with running_gateway(chat={"plugins": plugins}) as gateway:
        _, offered = await gateway.get("/configs/builtin_plugins")
        assert [each["plugin_config"]["name_for_human"] for each in offered] == ["Calculator"]
        assert (await read(gateway, "/plugins/web_retriever/get-url-content/", url="http://x"))[0] == 404
        status, told, _ = await gateway.post("/configs/plugin_config", {"url": "https://others.example/"})
        assert status == 404 and "switched off" in told["detail"]


MANIFEST = {
    "schema_version": "v1",
    "name_for_model": "Shop",
    "description_for_model": "Sells.",
    "api": {"type": "openapi", "url": "openapi.yaml"},
    "auth": {"type": "none"},
}


async def test_a_manifest_of_others_is_read_or_refused_with_a_reason() -> None:
    manifests = {
        "/good": (json.dumps(MANIFEST).encode(), None),
        "/auth": (
            json.dumps(MANIFEST | {"auth": {"type": "service_http"}}).encode(),
            "only plugins with auth none",
        ),
        "/api": (json.dumps(MANIFEST | {"api": "x"}).encode(), "names no api.url"),
        "/name": (json.dumps(MANIFEST | {"name_for_model": None}).encode(), "has no name"),
        "/list": (b"[]", "no object"),
        "/bomb": (b"a: &a [x]\nb: [*a, *a]", "neither JSON nor YAML"),
        "/deep": (b"{" * 5000, "neither JSON nor YAML"),
        "/long": (b"x" * 600_000, "larger than"),
    }

    async def shop(exchange: Exchange) -> None:
        await exchange.reply(200, manifests[exchange.path][0])

    plugins = {"allowed_networks": ["127.0.0.1"]}
    async with scripted_worker(shop) as web, running_gateway(chat={"plugins": plugins}) as gateway:
        for path, (_, told) in manifests.items():
            status, answer, _ = await gateway.post("/configs/plugin_config", {"url": web.url + path})
            if told is not None:
                assert status == 404 and told in answer["detail"], path
                continue
            assert status == 200 and answer["trusted"] is False and answer["enabled"] is True
            assert answer["plugin_config"]["name_for_model"] == "Shop"
            assert answer["plugin_config"].keys() >= {"endpoints", "logo_url", "legal_info_url"}
