"""What a client can do to the metrics: nothing but be counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from radixway.core.telemetry import MetricsScrape
from support.running_gateway import RunningGateway, running_gateway
from support.scripted_worker import Exchange, scripted_worker

ODD = 'gpt-4"} 1\nradixway_made_up_total{a="'
OPENMETRICS = {"accept": "application/openmetrics-text; version=1.0.0"}


async def page(gateway: RunningGateway, **more: Any) -> str:
    async with gateway.client.get(gateway.url + "/metrics/prometheus", **more) as response:
        assert response.status == 200
        return await response.text()


def names_of_series(text: str) -> Counter[str]:
    scrape = MetricsScrape.parse_text(text, 0.0)
    return Counter({name: len(series) for name, series in scrape.samples.items()})


async def refuse_a_third(exchange: Exchange) -> None:
    status = 400 if b"refuse" in exchange.body else 200
    await exchange.reply(
        status, b'{"usage": {"prompt_tokens": 5, "completion_tokens": 2}, "model": "made-up"}'
    )


@pytest.mark.parametrize("models", [["m"], []], ids=["models known", "a worker that names no models"])
async def test_however_many_names_clients_make_up_there_are_no_more_series(models: list[str]) -> None:
    async with (
        scripted_worker(refuse_a_third, models=models) as worker,
        running_gateway(
            worker.url, chat={"enabled": False}, tenants={"default": {"rates": {"requests_per_minute": 9999}}}
        ) as gateway,
    ):

        async def ask(n: int) -> None:
            name = f"{ODD}{n}"
            chat = {"messages": [{"role": "user", "content": f"refuse {n}" if n % 3 else str(n)}]}
            headers = {"x-tenant-id": str(n), "x-session-id": str(n), "x-vsr-model": str(n)}
            more = {"user": name, "session_id": name, "priority": n, "category": name}
            for body in (chat | {"model": name}, chat | {"model": "m"}, chat | {"model": "auto"}, chat):
                await gateway.post("/v1/chat/completions", body | more, headers=headers)
            for path in (f"/v1/chat/completions/{n}", f"/v1/models/{n}", f"/sessions/{n}/v1/messages"):
                await gateway.post(path, chat | {"model": name}, headers=headers)
            await gateway.post("/generate", {"text": "a", "model": name, "rid": name}, headers=headers)
            await gateway.post("/v1/completions", b'{"model": "' + str(n).encode())

        await asyncio.gather(*(ask(n) for n in range(6)))
        before = names_of_series(await page(gateway))
        for first in range(6, 60, 6):
            await asyncio.gather(*(ask(n) for n in range(first, first + 6)))
        text = await page(gateway)
    assert names_of_series(text) == before
    assert "made" not in text and "gpt-4" not in text
    assert max(before.values()) < 250, before.most_common(3)


async def test_errors_are_counted_by_the_code_that_the_client_was_told() -> None:
    async with scripted_worker(refuse_a_third) as worker, running_gateway(worker.url) as gateway:
        told = []
        for body in ({"model": "nobody's"}, {"model": 7}, {"model": "m", "user": "refuse"}, {"model": "m"}):
            status, reply, _ = await gateway.chat(**body)
            told.append((status, (reply.get("error") or {}).get("code")))
        scrape = MetricsScrape.parse_text(await page(gateway), 0.0)
    assert [status for status, _ in told] == [404, 400, 400, 200]
    kinds = scrape.totals_by("kind", "radixway_errors_total")
    assert kinds == {told[0][1]: 1, told[1][1]: 1, "worker_4xx": 1}
    assert scrape.total("radixway_errors_total", kind=str(told[0][1]), model="unknown") == 1


async def test_both_paths_speak_openmetrics_to_whoever_asks() -> None:
    async with running_gateway(chat={"enabled": False}) as gateway:
        for path in ("/metrics", "/metrics/prometheus"):
            async with gateway.client.get(gateway.url + path, headers=OPENMETRICS) as response:
                assert response.headers["content-type"].startswith("application/openmetrics-text")
                assert (await response.text()).endswith("# EOF\n")


async def test_tenants_first_bytes_and_each_steps_own_time_are_measured() -> None:
    tenants = {"default": {"rates": {"requests_per_minute": 9999}}}
    async with scripted_worker() as worker, running_gateway(worker.url, tenants=tenants) as gateway:
        for _ in range(3):
            await gateway.chat()
        scrape = MetricsScrape.parse_text(await page(gateway), 0.0)
    assert scrape.total("radixway_tenant_first_byte_seconds_count", tenant="default") == 3
    steps = scrape.totals_by("middleware", "radixway_middleware_seconds_count")
    assert {name: steps[name] for name in ("limits", "retry")} == {"limits": 3, "retry": 3}
    own = scrape.total("radixway_middleware_seconds_sum")
    assert 0 < own < scrape.total("radixway_request_seconds_sum"), "what they wait for is not theirs"
    assert scrape.total("radixway_selection_seconds_count", policy="expected_time") == 3


async def test_tasks_are_counted_until_they_end() -> None:
    async def tasks(gateway: RunningGateway) -> float:
        lines = (await page(gateway)).splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("radixway_event_loop_tasks "))

    async with running_gateway() as gateway:
        before = await tasks(gateway)
        over = asyncio.Event()
        waiting = [asyncio.create_task(over.wait()) for _ in range(20)]
        assert await tasks(gateway) - before == 20
        over.set()
        await asyncio.gather(*waiting)
        assert await tasks(gateway) == before
