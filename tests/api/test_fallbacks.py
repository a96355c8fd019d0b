"""A pool that is exhausted spills to the model's fallback. Real sockets."""

import asyncio

import pytest

from radixway.core.config import ConfigError, load_config
from radixway.routing import WorkerState
from support.running_gateway import FAST_HEALTH, running_gateway
from support.scripted_worker import Exchange, scripted_worker


def routing(**more):
    return {"health": FAST_HEALTH, **more}


async def test_a_model_without_a_ready_worker_falls_back_and_says_so():
    async with (
        scripted_worker(models=["big"]) as big,
        scripted_worker(models=["small"]) as small,
        running_gateway(big.url, small.url, routing=routing(fallbacks={"big": "small"})) as gateway,
    ):
        _, _, headers = await gateway.chat(model="big")
        assert "x-radixway-fallback" not in headers
        await gateway.post("/drain_worker", {"url": big.url})
        status, _, headers = await gateway.chat(model="big", odd=[1])
        assert (status, headers["x-radixway-fallback"]) == (200, "small")
        assert small.requests[-1].json()["model"] == "small" and small.requests[-1].json()["odd"] == [1]
        _, journal = await gateway.get(f"/explain/{headers['x-request-id']}")
        told = next(step for step in journal["steps"] if step["step"] == "fallback")
        assert (told["model"], told["fallback"], told["reason"]) == ("big", "small", "no_workers")


async def test_a_model_that_nobody_serves_falls_back_along_the_chain():
    chain = {"a": "b", "b": "c", "c": "small"}
    async with (
        scripted_worker(models=["small"]) as small,
        running_gateway(small.url, routing=routing(fallbacks=chain)) as gateway,
    ):
        status, _, headers = await gateway.chat(model="a")
        assert (status, headers["x-radixway-fallback"]) == (200, "small")
        assert (await gateway.chat(model="other"))[0] == 404


async def test_a_pool_at_its_limits_spills_when_its_queue_is_full():
    asked, go = asyncio.Event(), asyncio.Event()

    async def hold(exchange: Exchange) -> None:
        asked.set()
        await go.wait()
        await exchange.reply(200, b"{}")

    async with (
        scripted_worker(hold, models=["big"]) as big,
        scripted_worker(models=["small"]) as small,
        running_gateway(
            big.url,
            small.url,
            routing=routing(fallbacks={"big": "small"}, max_in_flight_per_worker=1, queue={"size": 0}),
        ) as gateway,
    ):
        first = asyncio.create_task(gateway.chat(model="big"))
        await asked.wait()
        status, _, headers = await gateway.chat(model="big")
        assert (status, headers["x-radixway-fallback"]) == (200, "small")
        go.set()
        assert (await first)[0] == 200


async def test_who_waits_for_a_pool_that_goes_away_falls_back():
    asked, go = asyncio.Event(), asyncio.Event()

    async def hold(exchange: Exchange) -> None:
        asked.set()
        await go.wait()
        await exchange.reply(200, b"{}")

    async with (
        scripted_worker(hold, models=["big"]) as big,
        scripted_worker(models=["small"]) as small,
        running_gateway(
            big.url, small.url, routing=routing(fallbacks={"big": "small"}, max_in_flight_per_worker=1)
        ) as gateway,
    ):
        first = asyncio.create_task(gateway.chat(model="big"))
        await asked.wait()
        waiting = asyncio.create_task(gateway.chat(model="big"))
        registry = gateway.gateway.metrics.registry
        async with asyncio.timeout(10):
            while not registry.get_sample_value("radixway_queued"):  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.001)
        await gateway.post("/drain_worker", {"url": big.url})
        status, _, headers = await waiting
        assert (status, headers["x-radixway-fallback"]) == (200, "small")
        go.set()
        assert (await first)[0] == 200


async def test_when_the_fallbacks_have_nobody_either_the_first_refusal_is_told():
    async with (
        scripted_worker(models=["big"]) as big,
        running_gateway(big.url, routing=routing(fallbacks={"big": "none"})) as gateway,
    ):
        await gateway.post("/drain_worker", {"url": big.url})
        status, body, _ = await gateway.chat(model="big")
        assert (status, body["error"]["code"]) == (503, "no_workers")
        assert "'big'" in body["error"]["message"]


async def test_a_request_that_fails_at_its_model_is_retried_at_the_fallback():
    async def die(exchange: Exchange) -> None:
        await dying.kill()

    async with (
        scripted_worker(die, models=["big"]) as dying,
        scripted_worker(models=["small"]) as small,
        running_gateway(
            dying.url,
            small.url,
            routing=routing(fallbacks={"big": "small"}),
            pipeline={"retry": {"attempts": 6, "backoff_s": 0.05}},
        ) as gateway,
    ):
        status, _, headers = await gateway.chat(model="big")
        assert (status, headers["x-radixway-fallback"]) == (200, "small")
        assert gateway.gateway.registry.get_worker(dying.url).state is WorkerState.DOWN


@pytest.mark.parametrize("loop", [{"a": "a"}, {"a": "b", "b": "a"}, {"x": "a", "a": "b", "b": "c", "c": "a"}])
def test_fallbacks_that_go_round_are_refused_with_the_way_they_go(loop):
    with pytest.raises(ConfigError, match="routing.fallbacks: the fallbacks go round in a circle: .*a → "):
        load_config(overrides={"routing": {"fallbacks": loop}})


@pytest.mark.parametrize("model", ["auto", "big"])
async def test_a_body_in_which_the_model_cannot_be_changed_is_refused_and_keeps_no_place(model):
    async with (
        scripted_worker(models=["small"]) as small,
        running_gateway(small.url, routing=routing(fallbacks={"big": "small"})) as gateway,
    ):
        body = b'{"model": "%b", "messages": [{"role": "user", "content": "hi"}], "\xff": 1}' % model.encode()
        status, said, _ = await gateway.post("/v1/chat/completions", body)
        assert (status, said["error"]["type"]) == (400, "invalid_request_error")
        assert gateway.in_flight() == 0
        assert not small.requests
