"""Alerts of budgets: once in a period, tried again, and never in the way of a request."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from api.keys.test_rest_routes import COST, ask, call, keys_gateway


@asynccontextmanager
async def webhook(failures: int = 0):
    """Its URL and what it was told; the first `failures` calls are answered with 500."""
    told: asyncio.Queue[tuple[str, dict]] = asyncio.Queue()
    left = failures

    async def take(request: web.Request) -> web.Response:
        nonlocal left
        if left:
            left -= 1
            return web.Response(status=500)
        told.put_nowait((request.path, await request.json()))
        return web.Response()

    app = web.Application()
    app.router.add_post("/{rest:.*}", take)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}", told
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("failures", [0, 1])
async def test_the_soft_and_the_hard_end_are_told_once(tmp_path, failures):
    async with webhook(failures) as (url, told):
        keys = {"alerts": {"webhook": f"{url}/hook"}}
        async with keys_gateway(tmp_path, keys=keys) as gateway:
            limits = {"soft_budget": 0.5 * COST, "max_budget": 2.5 * COST, "budget_duration": "30d"}
            made = await call(gateway, "POST", "/keys", {"alias": "ci", **limits}, status=201)
            found = []
            for _ in range(3):
                assert (await ask(gateway, made["key"], max_tokens=1))[0] == 200
                await gateway.gateway.access.sync()
            async with asyncio.timeout(20):
                found = [await told.get() for _ in range(2)]
            assert (await ask(gateway, made["key"]))[0] == 429
            await gateway.gateway.access.sync()
            assert told.empty()
        events = {alert["event"]: alert for _, alert in found}
        assert set(events) == {"budget_soft_limit_reached", "budget_exceeded"}
        soft = events["budget_soft_limit_reached"]
        assert (soft["kind"], soft["id"], soft["name"]) == ("key", made["id"], "ci")
        assert soft["limit"] == pytest.approx(0.5 * COST) and soft["resets_at"] is not None
        assert made["key"] not in json.dumps(found) and "hello" not in json.dumps(found)


async def test_slack_gets_a_sentence_and_of_two_gateways_one_tells(tmp_path):
    async with webhook() as (url, told):
        keys = {"alerts": {"slack": f"{url}/services/secret"}}
        async with keys_gateway(tmp_path, keys=keys) as first, keys_gateway(tmp_path, keys=keys) as second:
            body = {"id": "red", "soft_budget": 0.5 * COST}
            await call(first, "POST", "/teams", body, status=201)
            made = await call(first, "POST", "/keys", {"team": "red"}, status=201)
            await second.gateway.access.sync()
            for gateway in (first, second):
                assert (await ask(gateway, made["key"]))[0] == 200
            for gateway in (first, second, first, second):
                await gateway.gateway.access.sync()
            async with asyncio.timeout(10):
                path, alert = await told.get()
        assert told.empty()
    assert path == "/services/secret"
    assert "the budget of the team 'red' has reached its soft end" in alert["text"]


async def test_a_webhook_that_hangs_holds_up_no_request(tmp_path):
    async with webhook() as (url, _):
        dead = url.rpartition(":")[0] + ":9"
        keys = {"alerts": {"webhook": dead, "attempts": 1}}
        async with keys_gateway(tmp_path, keys=keys) as gateway:
            made = await call(gateway, "POST", "/keys", {"soft_budget": 0.5 * COST}, status=201)
            for _ in range(3):
                assert (await ask(gateway, made["key"]))[0] == 200
                await gateway.gateway.access.sync()
