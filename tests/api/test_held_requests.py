"""Requests that a gateway holds until a worker's prefills are over: who leaves, and a gateway that ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from support.running_gateway import RunningGateway, running_gateway
from support.scripted_worker import Exchange, scripted_worker

EVENT = b'data: {"choices": [{"index": 0, "text": "a", "finish_reason": null}]}\n\n'


class Prefilling:
    """Answers streams once their prompt's prefill is said to be over."""

    def __init__(self) -> None:
        self.asked = 0
        self.over = asyncio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        self.asked += 1
        await exchange.begin_stream()
        leaving = asyncio.create_task(exchange.until_peer_leaves())
        ready = asyncio.create_task(self.over.wait())
        await asyncio.wait({leaving, ready}, return_when=asyncio.FIRST_COMPLETED)
        left = leaving.done()
        for task in (leaving, ready):
            task.cancel()
        if not left:
            await exchange.chunk(EVENT)
            await exchange.chunk(b"data: [DONE]\n\n")
            await exchange.end_stream()


def prompt(first: int) -> dict[str, object]:
    """One of its own of 40,000 tokens: five seconds at the rate that the workers have shown."""
    return {"model": "m", "prompt": [first] * 40_000, "stream": True}


def queued(gateway: RunningGateway) -> float | None:
    return gateway.gateway.metrics.registry.get_sample_value("radixway_queued")


@asynccontextmanager
async def holding() -> AsyncIterator[tuple[RunningGateway, list[Prefilling], list[asyncio.Task]]]:
    """A gateway whose two workers prefill, and that holds a third request."""
    behaviours = [Prefilling(), Prefilling()]
    async with (
        scripted_worker(behaviours[0]) as first,
        scripted_worker(behaviours[1]) as second,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as client,
        running_gateway(first.url, second.url, routing={"queue": {"hold_s": 100}}) as gateway,
    ):
        rates = gateway.gateway.upstream.selector.ledger.rates
        for worker in gateway.gateway.registry:
            for tokens in (100, 1000) * 4:
                rates.observe_prefill(worker.load, tokens, 0.02 + tokens / 8000)

        async def ask(number: int) -> bytes:
            async with client.post(f"{gateway.url}/v1/completions", json=prompt(number)) as answer:
                assert answer.status == 200
                return await answer.read()

        tasks = []
        for number in range(3):
            tasks.append(asyncio.create_task(ask(number)))
            async with asyncio.timeout(20):
                while gateway.in_flight() + (queued(gateway) or 0) <= number:  # noqa: ASYNC110  # no event tells
                    await asyncio.sleep(0.005)
        assert (gateway.in_flight(), queued(gateway)) == (2, 1)
        yield gateway, behaviours, tasks
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_stream_whose_client_leaves_makes_way_for_one_that_is_held():
    async with holding() as (gateway, behaviours, tasks):
        tasks[0].cancel()
        async with asyncio.timeout(10):
            while sum(each.asked for each in behaviours) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        assert queued(gateway) == 0
        for each in behaviours:
            each.over.set()
        assert b"[DONE]" in await tasks[2]


async def test_a_client_that_leaves_while_its_request_is_held_leaves_nothing():
    async with holding() as (gateway, behaviours, tasks):
        tasks[2].cancel()
        async with asyncio.timeout(10):
            while queued(gateway):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        for each in behaviours:
            each.over.set()
        await asyncio.gather(*tasks[:2])
        assert sum(each.asked for each in behaviours) == 2
        assert gateway.in_flight() == 0


async def test_what_is_held_is_answered_by_a_gateway_that_ends():
    async with holding() as (gateway, behaviours, tasks):
        gateway.server.stop()
        await asyncio.sleep(0)
        assert queued(gateway) == 1
        for each in behaviours:
            each.over.set()
        async with asyncio.timeout(10):
            assert all(b"[DONE]" in answer for answer in await asyncio.gather(*tasks))
