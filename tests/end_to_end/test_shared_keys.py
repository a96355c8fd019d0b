"""Two gateways, each in a process of its own, with one PostgreSQL: keys and budgets are the same at both."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack

import aiohttp
import pytest

from support.gateway_process import gateway_process
from support.postgres_process import postgres_process
from support.scripted_worker import scripted_worker

ADMIN = "the-admin-key"
USAGE = {"prompt_tokens": 100, "completion_tokens": 50}
COST = 0.0002
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 1}


async def counting(exchange) -> None:
    """An answer whose figures never change."""
    reply = {"choices": [{"index": 0, "message": {"content": "ok"}}], "usage": USAGE}
    await exchange.reply(200, json.dumps(reply).encode())


async def _call(client, method: str, url: str, body=None, key: str = ADMIN) -> tuple[int, dict]:
    headers = {"authorization": f"Bearer {key}"}
    async with client.request(method, url, json=body, headers=headers) as reply:
        return reply.status, await reply.json()


async def _until(wanted, ask) -> None:
    """Ask until the answer is `wanted`."""
    async with asyncio.timeout(20):
        while (found := await ask()) != wanted:
            assert isinstance(found, int | str)
            await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_what_one_gateway_does_holds_at_the_other(tmp_path):
    async with scripted_worker(counting) as worker, aiohttp.ClientSession() as client:
        with ExitStack() as stack:
            server = stack.enter_context(postgres_process())
            server.psql("CREATE DATABASE shared_keys")
            database = server.get_uri("shared_keys")
            tree = {
                "gateway": {"port": 0, "admin_key": ADMIN},
                "chat": {"enabled": False},
                "console": {"enabled": False},
                "workers": [{"url": worker.url}],
                "tenants": {"pricing": {"m": {"prompt_per_1m": 1, "completion_per_1m": 2}}},
                "keys": {"database": database, "sync_s": 0.2},
            }
            first, second = (
                stack.enter_context(gateway_process(tmp_path / name, tree, home=tmp_path / name / "home"))[0]
                for name in ("first", "second")
            )

            async def ask(gateway: str, key: str) -> int:
                return (await _call(client, "POST", f"{gateway}/v1/chat/completions", CHAT, key))[0]

            limit = {"max_budget": 3.5 * COST}
            status, made = await _call(client, "POST", f"{first}/keys", limit)
            assert status == 201
            key, path = made["key"], f"/keys/{made['id']}"
            await _until(200, lambda: ask(second, key))
            assert await ask(first, key) == 200
            # Both have spent: each hears of the other, and the fourth request beyond the budget ends at both.
            assert await ask(first, key) == 200
            await _until(429, lambda: ask(second, key))
            await _until(429, lambda: ask(first, key))

            async def spent() -> str:
                shown = [(await _call(client, "GET", each + path))[1]["spend"] for each in (first, second)]
                return "same" if shown[0] == shown[1] >= 3.5 * COST else str(shown)

            await _until("same", spent)
            status, rotated = await _call(client, "POST", f"{second}{path}/rotate")
            assert status == 200
            await _until(401, lambda: ask(first, key))
            await _call(client, "PATCH", first + path, {"max_budget": 1})
            await _until(200, lambda: ask(second, rotated["key"]))
            assert (await _call(client, "DELETE", second + path))[0] == 200
            assert await ask(second, rotated["key"]) == 401
            await _until(401, lambda: ask(first, rotated["key"]))
