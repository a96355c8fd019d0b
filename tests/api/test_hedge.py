"""A second copy of a request when the first byte is late. Real sockets."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from radixway.core.config import ConfigError, load_config
from support.running_gateway import FAST_HEALTH, running_gateway
from support.scripted_worker import Exchange, scripted_worker

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
AT_ONCE = {"after_s": 0.01, "most_share": 1.0, "whole_replies": True}


async def stream_one(exchange: Exchange) -> None:
    if not exchange.json().get("stream"):
        await exchange.reply(200, b'{"quick": true}')
        return
    await exchange.begin_stream()
    await exchange.chunk(b'data: {"quick": true}\n\ndata: [DONE]\n\n')
    await exchange.end_stream()


class Late:
    """The first request to come is held, whichever worker it comes to; the later ones are answered."""

    def __init__(self, go: asyncio.Event | None = None) -> None:
        self.held: Exchange | None = None
        self.go = go or asyncio.Event()
        self.left = asyncio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        if self.held is not None:
            await stream_one(exchange)
            return
        self.held = exchange
        leaving = asyncio.create_task(exchange.until_peer_leaves())
        going = asyncio.create_task(self.go.wait())
        await asyncio.wait({leaving, going}, return_when=asyncio.FIRST_COMPLETED)
        if leaving.done():
            self.left.set()
            going.cancel()
        else:
            leaving.cancel()
            await stream_one(exchange)


@asynccontextmanager
async def hedging(behaviour, second=None, **more):
    routing = {"health": FAST_HEALTH, "policy": "round_robin", "hedge": AT_ONCE, **more}
    async with (
        scripted_worker(behaviour) as a,
        scripted_worker(second or behaviour) as b,
        running_gateway(a.url, b.url, routing=routing, gateway={"trusted_hops": ["127.0.0.1"]}) as gateway,
    ):
        yield gateway, a, b


def hedges(gateway, outcome: str) -> float:
    return (
        gateway.gateway.metrics.registry.get_sample_value("radixway_hedges_total", {"outcome": outcome}) or 0
    )


async def steps_of(gateway, headers) -> dict:
    _, journal = await gateway.get(f"/explain/{headers['x-request-id']}")
    return {step["step"]: step for step in journal["steps"]}


@pytest.mark.parametrize("stream", [True, False])
async def test_the_copy_answers_and_the_first_is_let_go_at_once(stream):
    late = Late()
    async with hedging(late) as (gateway, a, b):
        url = gateway.url + "/v1/chat/completions"
        async with gateway.client.post(url, json={**CHAT, "stream": stream}) as response:
            assert response.status == 200 and b"quick" in await response.read()
            headers = response.headers
        async with asyncio.timeout(10):
            await late.left.wait()
        assert gateway.in_flight() == 0
        assert len(a.requests) == len(b.requests) == 1
        assert a.requests[0].body == b.requests[0].body
        steps = await steps_of(gateway, headers)
        assert steps["hedge"]["worker"] == steps["answer"]["worker"] == headers["x-radixway-worker"]
        assert hedges(gateway, "won") == 1


async def test_the_first_may_still_win():
    late = Late()

    async def hold(exchange: Exchange) -> None:
        late.go.set()  # the copy has come: now the first one answers
        await exchange.until_peer_leaves()

    async def behaviour(exchange: Exchange) -> None:
        await (late if late.held is None else hold)(exchange)

    async with hedging(behaviour) as (gateway, a, b):
        status, _, headers = await gateway.chat()
        assert status == 200
        assert headers["x-radixway-worker"] == late.held.headers["host"]
        assert hedges(gateway, "lost") == 1
        assert gateway.in_flight() == 0
        async with asyncio.timeout(10):
            await (b if late.held in a.requests else a).hung_up.wait()


async def test_a_copy_that_fails_leaves_the_first_alone():
    late = Late()

    async def behaviour(exchange: Exchange) -> None:
        if late.held is None:
            await late(exchange)
        else:
            late.go.set()
            exchange.die()

    async with hedging(behaviour) as (gateway, _, _):
        status, _, headers = await gateway.chat()
        assert (status, headers["x-radixway-worker"]) == (200, late.held.headers["host"])


async def test_when_both_fail_the_request_is_tried_again_and_told_as_failed():
    copied = asyncio.Event()
    came = []

    async def behaviour(exchange: Exchange) -> None:
        came.append(exchange)
        if len(came) == 1:
            await copied.wait()
        copied.set()
        exchange.die()

    async with hedging(behaviour) as (gateway, _, _):
        status, body, _ = await gateway.chat()
        assert (status, body["error"]["code"]) == (502, "worker_failed")
        assert gateway.in_flight() == 0
        assert len(came) == 4, "two at once, then two more attempts without a copy"


async def test_there_is_no_copy_without_another_worker_with_room():
    late = Late()

    async def slow(exchange: Exchange) -> None:
        await asyncio.sleep(0.05)
        await stream_one(exchange)

    async with hedging(late, slow, max_in_flight_per_worker=1) as (gateway, full, free):
        pinned = {"headers": {"x-radixway-worker": full.url}}
        first = asyncio.create_task(gateway.post("/v1/chat/completions", CHAT, **pinned))
        async with asyncio.timeout(10):
            while late.held is None:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.001)
        assert (await gateway.chat())[0] == 200
        late.go.set()
        assert (await first)[0] == 200
        assert (len(full.requests), len(free.requests)) == (1, 1)


async def test_a_client_that_leaves_ends_both():
    both_asked, left = asyncio.Semaphore(0), asyncio.Semaphore(0)

    async def hold(exchange: Exchange) -> None:
        both_asked.release()
        await exchange.until_peer_leaves()
        left.release()

    async with hedging(hold) as (gateway, _, _):
        task = asyncio.create_task(gateway.chat())
        async with asyncio.timeout(10):
            await both_asked.acquire()
            await both_asked.acquire()
            task.cancel()
            await left.acquire()
            await left.acquire()
            while gateway.in_flight():  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.001)


async def test_no_more_copies_than_the_budget_allows():
    late = Late()
    late.go.set()

    async def slow(exchange: Exchange) -> None:
        await asyncio.sleep(0.03)
        await stream_one(exchange)

    async with hedging(slow, hedge={**AT_ONCE, "most_share": 0.25}) as (gateway, a, b):
        for _ in range(9):
            assert (await gateway.chat())[0] == 200
        assert len(a.requests) + len(b.requests) == 9 + 2


async def test_whole_replies_are_not_copied_unless_that_is_asked_for():
    async def slow(exchange: Exchange) -> None:
        await asyncio.sleep(0.05)
        await stream_one(exchange)

    async with hedging(slow, hedge={"after_s": 0.001, "most_share": 1.0}) as (gateway, a, b):
        assert (await gateway.chat())[0] == 200
        assert len(a.requests) + len(b.requests) == 1


def test_a_hedge_without_a_delay_is_refused():
    with pytest.raises(ConfigError, match="routing.hedge: give after_s, after_percentile or both"):
        load_config(overrides={"routing": {"hedge": {"most_share": 0.1}}})
