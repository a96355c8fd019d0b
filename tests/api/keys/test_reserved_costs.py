"""What running requests may cost is reserved, whichever model or provider may answer them."""

from __future__ import annotations

import asyncio

import pytest

from api.keys.test_rest_routes import ADMIN, PRICING, ask, call, counting
from radixway.routing import WorkerState
from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

PRICE = PRICING["m*"]
HOSTED = {"provider": "openai-compatible", "api_key": "sk-of-a-provider"}
OTHER = {"model": "other"}


@pytest.mark.parametrize(
    ("asked", "worker", "routing"),
    [
        ({"model": "m"}, {}, {}),
        ({"model": "auto"}, {}, {}),
        ({"model": None}, {}, {}),
        ({"model": "alias"}, {}, {"model_aliases": {"alias": {"split": {"m": 1, "m2": 1}}}}),
        ({"model": "m"}, HOSTED | {"models": ["m", "n"], "pricing": {"m": PRICE}}, {}),
        ({"model": "auto"}, HOSTED | {"models": ["n", "m"], "pricing": {"m": PRICE}}, {}),
        (OTHER, {}, {"fallbacks": {"other": "m"}}),
        (OTHER, HOSTED | {"models": ["m"], "pricing": PRICE}, {"overflow": {"to": "m"}}),
    ],
    ids=["named", "auto", "unnamed", "split", "hosted", "hosted auto", "fallback", "overflow"],
)
async def test_what_running_requests_may_cost_is_reserved(tmp_path, asked, worker, routing):
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def held(exchange) -> None:
        if not begun.is_set():
            begun.set()
            await go_on.wait()
        await counting(exchange)

    sections = {"gateway": {"admin_key": ADMIN}, "keys": {"database": f"sqlite:///{tmp_path}/access.sqlite"}}
    tenants = {} if worker else {"tenants": {"pricing": PRICING}}
    async with scripted_worker(held, models=["m", "m2"]) as own, scripted_worker(models=["other"]) as other:
        at = {"base_url": f"{own.url}/v1"} if worker else {"url": own.url}
        workers = [worker | at] + ([{"url": other.url}] if "overflow" in routing else [])
        async with running_gateway(workers=workers, routing=dict(routing), **sections, **tenants) as gateway:
            for each in gateway.gateway.config.workers:
                await gateway.until(each.url, WorkerState.READY)
            await other.kill()
            made = await call(gateway, "POST", "/keys", {"max_budget": 0.01}, status=201)
            running = asyncio.create_task(ask(gateway, made["key"], max_tokens=4000, **asked))
            await begun.wait()
            status, body, _ = await ask(gateway, made["key"], max_tokens=4000, **asked)
            go_on.set()
            assert status == 429 and body["error"]["code"] == "budget_exceeded", body
            status, body, _ = await running
            assert status == 200, body
            assert (await ask(gateway, made["key"], max_tokens=4000, **asked))[0] == 200
