"""examples/custom_middleware, in a gateway before a worker that shows what reached it."""

from pathlib import Path

import pytest

from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, ScriptedWorker, answer_ok, scripted_worker

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_middleware"
MIDDLEWARES = ["house_rules.HouseRules", "house_rules.CountEvents", "radixway.core.pipeline.retry.Retry"]


@pytest.fixture
async def house(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))

    async def answer(exchange: Exchange) -> None:
        if not exchange.json().get("stream"):
            return await answer_ok(exchange)
        await exchange.begin_stream()
        for number in range(3):
            why = b'"stop"' if number == 2 else b"null"
            await exchange.chunk(b'data: {"n": %d, "choices": [{"finish_reason": %b}]}\n\n' % (number, why))
        return await exchange.end_stream()

    async with scripted_worker(behaviour=answer) as worker:
        async with running_gateway(worker.url, pipeline={"middlewares": MIDDLEWARES}) as running:
            yield running, worker


async def steps(running, headers) -> dict:
    _, explained = await running.get(f"/explain/{headers['x-request-id']}")
    return {step["step"]: step for step in explained["steps"]}


def last(worker: ScriptedWorker) -> dict:
    return worker.requests[-1].json()


async def test_answers_are_bounded_and_what_else_was_said_stays(house):
    running, worker = house
    status, _, headers = await running.chat(max_tokens=100_000, odd={"kept": 1e-5})
    assert status == 200
    assert last(worker)["max_tokens"] == 256 and last(worker)["temperature"] == 0
    assert last(worker)["odd"] == {"kept": 1e-5}
    assert (await steps(running, headers))["house_rules"]["max_tokens"] == 256
    await running.chat(max_tokens=5, temperature=0.7)
    assert (last(worker)["max_tokens"], last(worker)["temperature"]) == (5, 0.7)
    async with running.client.get(f"{running.url}/metrics/prometheus") as response:
        assert "house_shortened_requests_total 1.0" in await response.text()


async def test_several_answers_are_refused_by_the_field(house):
    running, worker = house
    status, told, _ = await running.chat(n=2)
    assert (status, told["error"]["param"], told["error"]["message"]) == (
        400,
        "n",
        "one answer at a time in this house",
    )
    assert worker.requests == []


async def test_a_stream_passes_whole_and_its_events_are_counted(house):
    running, _ = house
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "stream": True}
    async with running.client.post(f"{running.url}/v1/chat/completions", json=body) as response:
        assert (await response.read()).count(b"\n\n") == 3
        headers = response.headers
    assert (await steps(running, headers))["events"]["count"] == 3
