"""What is counted of workers' answers, over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from radixway.core.config import WorkerSettings
from radixway.core.telemetry import MetricsScrape, ScrapeDelta
from radixway.routing import WorkerState
from support.running_gateway import RunningGateway, running_gateway
from support.scripted_worker import Exchange, scripted_worker

pytestmark = pytest.mark.asyncio(loop_scope="module")

LONG = [{"role": "user", "content": "What is a radix tree? " * 200}]
REPORTED = {"prompt_tokens": 1000, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 250}}
TENANTS = {"pricing": {"m": {"prompt_per_1m": 2.0, "completion_per_1m": 100.0, "currency": "EUR"}}}


class Behaviour:
    """Of the workers: what `user` in the body asks for."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.asked = asyncio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        body = exchange.json()
        match body.get("user", "answer"):
            case "refuse":
                await exchange.reply(422, b'{"detail": "no"}')
            case "die":
                exchange.die()
            case "full":
                await exchange.reply(503, b"{}")
            case "break":
                await exchange.begin_stream()
                await exchange.chunk(_event("a"))
                exchange.die()
            case "silent":
                self.asked.set()
                await exchange.until_peer_leaves()
            case "stream":
                await exchange.begin_stream()
                for text in "abcd":
                    await exchange.chunk(_event(text))
                    await self.go_on.wait()
                    self.go_on.clear()
                usage = {"choices": [], "usage": REPORTED}
                await exchange.chunk(b"data: %b\n\n" % json.dumps(usage).encode())
                await exchange.chunk(b"data: [DONE]\n\n")
                await exchange.end_stream()
            case _:
                await exchange.reply(200, json.dumps({"usage": REPORTED}).encode())


def _event(text: str) -> bytes:
    return b'data: {"choices": [{"delta": {"content": "%b"}}]}\n\n' % text.encode()


BEHAVIOUR = Behaviour()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house() -> AsyncIterator[tuple[RunningGateway, str]]:
    """One gateway for all, and its worker's name; each test looks at what it adds."""
    async with (
        scripted_worker(BEHAVIOUR) as worker,
        running_gateway(
            worker.url, tenants=TENANTS, chat={"enabled": False}, pipeline={"retry": {"attempts": 1}}
        ) as gateway,
    ):
        yield gateway, worker.url.removeprefix("http://")


async def look(gateway: RunningGateway) -> MetricsScrape:
    return MetricsScrape.parse_text((await gateway.gateway.metrics.scrape()).body.decode(), 0.0)


async def outcomes(gateway: RunningGateway) -> dict[str, float]:
    return (await look(gateway)).totals_by("outcome", "radixway_worker_requests_total")


@pytest.mark.parametrize(
    ("user", "stream", "outcome", "kind"),
    [
        ("answer", False, "answered", None),
        ("refuse", False, "rejected", "worker_4xx"),
        ("die", False, "disconnected", "worker_failed"),
        ("die", True, "disconnected", "worker_failed"),
        ("full", False, "unavailable", "worker_5xx"),
        ("break", True, "broken", "stream_broken"),
    ],
)
async def test_every_attempt_ends_in_one_way(
    house: tuple[RunningGateway, str], user: str, stream: bool, outcome: str, kind: str | None
) -> None:
    gateway, worker = house
    before = await look(gateway)
    async with gateway.client.post(
        gateway.url + "/v1/chat/completions",
        json={"model": "m", "messages": LONG, "user": user, "stream": stream},
    ) as response:
        await response.read()
    change = ScrapeDelta(before, await look(gateway))
    assert change.increase("radixway_worker_requests_total") == 1
    labels = {"worker": worker, "model": "m", "policy": "expected_time", "outcome": outcome}
    assert change.increase("radixway_worker_requests_total", **labels) == 1
    assert change.increase("radixway_errors_total") == (kind is not None)
    if kind is not None:
        assert change.increase("radixway_errors_total", kind=kind, model="m", surface="openai.chat") == 1


async def test_a_client_that_leaves_is_no_error_of_anybodys(house: tuple[RunningGateway, str]) -> None:
    gateway, _ = house
    before = await look(gateway)
    BEHAVIOUR.asked.clear()
    asking = asyncio.create_task(gateway.chat(user="silent"))
    await BEHAVIOUR.asked.wait()
    asking.cancel()
    async with asyncio.timeout(30):
        while gateway.in_flight() or (await outcomes(gateway)).get("left", 0.0) == 0:  # noqa: ASYNC110
            await asyncio.sleep(0)
    change = ScrapeDelta(before, await look(gateway))
    assert change.increase("radixway_worker_requests_total", outcome="left") == 1
    assert change.increase("radixway_errors_total") == 0


async def test_tokens_are_counted_as_reported_and_priced(house: tuple[RunningGateway, str]) -> None:
    gateway, worker = house
    before = await look(gateway)
    _, _, headers = await gateway.chat(messages=LONG)
    change = ScrapeDelta(before, await look(gateway))
    tokens = {
        kind: change.increase("radixway_tokens_total", kind=kind, worker=worker)
        for kind in ("prompt", "cached", "completion")
    }
    assert tokens == {"prompt": 1000, "cached": 250, "completion": 4}
    assert change.increase("radixway_cost_total", model="m", currency="EUR") == pytest.approx(0.0024)
    assert change.increase("radixway_prefix_prompt_tokens_total", by="reported") == 1000
    assert change.increase("radixway_prefix_cached_tokens_total", by="reported") == 250
    told = (await gateway.get("/explain/" + headers["x-request-id"]))[1]["steps"]
    (used,) = [step for step in told if step["step"] == "tokens"]
    assert (used["prompt_tokens"], used["completion_tokens"], used["cached_tokens"]) == (1000, 4, 250)


async def test_what_was_expected_to_be_cached_is_held_against_what_was(
    house: tuple[RunningGateway, str],
) -> None:
    gateway, _ = house
    prompt = [{"role": "user", "content": "Once upon a time there was a tree. " * 150}]
    async with scripted_worker(BEHAVIOUR) as second:  # with one worker there is nothing to choose
        gateway.gateway.registry.add_worker(WorkerSettings(url=second.url))
        await gateway.until(second.url, WorkerState.READY)
        before = await look(gateway)
        for _ in range(2):
            status, _, headers = await gateway.chat(messages=prompt)
            assert status == 200
        steps = (await gateway.get("/explain/" + headers["x-request-id"]))[1]["steps"]
        (chosen,) = [step for step in steps if step["step"] == "select"]
        change = ScrapeDelta(before, await look(gateway))
        gateway.gateway.registry.remove_worker(second.url)
    asked, expected = chosen["prompt"]["tokens"], chosen["expected_cached_tokens"]
    assert expected > asked / 2, "the second time it is known where the prompt is"
    assert change.increase("radixway_prefix_prompt_tokens_total", by="predicted") == 2 * asked
    assert change.increase("radixway_prefix_cached_tokens_total", by="predicted") == expected
    count = "radixway_prefix_prediction_error_ratio_bucket"
    share_off = (min(expected, 1000) - 250) / 1000
    assert change.increase(count, le="+Inf", model="m") == 2
    assert change.increase(count, le="-0.25", model="m") == 1, "0 - 250 of 1000 the first time"
    assert share_off > 0.1 and change.increase(count, le="0.1", model="m") == 1


async def test_a_streams_first_token_and_gaps_are_measured_and_its_last_words_are_no_gaps(
    house: tuple[RunningGateway, str],
) -> None:
    gateway, worker = house
    before = await look(gateway)
    async with gateway.client.post(
        gateway.url + "/v1/chat/completions",
        json={"model": "m", "messages": LONG, "user": "stream", "stream": True},
    ) as response:
        for letter in "abcd":
            assert f'"{letter}"'.encode() in await response.content.readuntil(b"\n\n")
            BEHAVIOUR.go_on.set()
        assert (await response.read()).endswith(b"data: [DONE]\n\n")
    async with asyncio.timeout(30):
        while gateway.in_flight():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)
    change = ScrapeDelta(before, await look(gateway))
    labels = {"worker": worker, "model": "m", "policy": "expected_time"}
    assert change.increase("radixway_time_to_first_token_seconds_count", **labels) == 1
    assert change.increase("radixway_inter_token_seconds_count", **labels) == 3, "between four tokens"
    assert change.increase("radixway_tokens_total", kind="completion", **labels) == 4
    assert change.increase("radixway_worker_requests_total", outcome="answered", **labels) == 1


async def test_a_worker_that_leaves_takes_its_series_along_and_a_late_answer_brings_none_back(
    house: tuple[RunningGateway, str],
) -> None:
    gateway, _ = house
    async with scripted_worker(BEHAVIOUR, models=["other"]) as leaving:
        name = leaving.url.removeprefix("http://")
        gateway.gateway.registry.add_worker(WorkerSettings(url=leaving.url))
        await gateway.until(leaving.url, WorkerState.READY)
        BEHAVIOUR.go_on.clear()
        async with gateway.client.post(
            gateway.url + "/v1/chat/completions",
            json={"model": "other", "messages": LONG, "user": "stream", "stream": True},
        ) as response:
            await response.content.readuntil(b"\n\n")
            assert f'worker="{name}"' in (await gateway.gateway.metrics.scrape()).body.decode()
            gateway.gateway.registry.remove_worker(leaving.url)
            assert name not in (await gateway.gateway.metrics.scrape()).body.decode()
            for _ in "abc":
                BEHAVIOUR.go_on.set()
                await response.content.readuntil(b"\n\n")
            BEHAVIOUR.go_on.set()
            await response.read()
        assert name not in (await gateway.gateway.metrics.scrape()).body.decode()
