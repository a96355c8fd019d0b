"""More requests than workers take: limits, the queue, refusals, fallbacks. Real sockets."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from radixway.routing import WorkerState
from support.running_gateway import FAST_HEALTH, running_gateway
from support.scripted_worker import Exchange, answer_ok, scripted_worker

ONE_AT_A_TIME = {"max_in_flight_per_worker": 1}


class Slow:
    """Answers each request when it is told to, and knows how many it had at the same time."""

    def __init__(self) -> None:
        self.asked = asyncio.Queue()
        self.running = self.most = 0

    async def __call__(self, exchange: Exchange) -> None:
        go = asyncio.Event()
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            self.asked.put_nowait((exchange, go))
            await go.wait()
        finally:
            self.running -= 1
        await answer_ok(exchange)

    async def work(self) -> None:
        """Answer everything from now on."""
        while True:
            (await self.asked.get())[1].set()

    async def next(self) -> tuple[Exchange, asyncio.Event]:
        async with asyncio.timeout(10):
            return await self.asked.get()


class Sender:
    """Sends requests one after the other, each once the one before has reached its worker or the queue."""

    def __init__(self, gateway) -> None:
        self.gateway = gateway
        self.sent = 0

    async def __call__(self, **fields) -> asyncio.Task:
        before = self.present()
        task = asyncio.create_task(self.gateway.chat(**fields))
        await until(lambda: self.present() != before or task.done())
        return task

    def present(self) -> float:
        return queued(self.gateway) + self.gateway.in_flight()


def metric(gateway, name: str, **labels: str) -> float:
    return gateway.gateway.metrics.registry.get_sample_value(name, labels) or 0


def queued(gateway) -> float:
    return metric(gateway, "radixway_queued")


async def until(true) -> None:
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.001)


async def steps_of(gateway, headers) -> dict:
    _, journal = await gateway.get(f"/explain/{headers['x-request-id']}")
    return {step["step"]: step for step in journal["steps"]}


@asynccontextmanager
async def slow_pool(workers=1, **routing):
    """A gateway before slow workers that are given one request at a time."""
    slows = [Slow() for _ in range(workers)]
    async with AsyncExitStack() as stack:
        started = [await stack.enter_async_context(scripted_worker(slow)) for slow in slows]
        urls = [worker.url for worker in started]
        routing = {"health": FAST_HEALTH, **ONE_AT_A_TIME, **routing}
        yield await stack.enter_async_context(running_gateway(*urls, routing=routing)), slows, started


async def test_a_flood_beyond_the_limits_waits_and_is_answered_to_the_last():
    async with slow_pool(workers=2, max_in_flight_per_worker=2) as (gateway, slows, _):
        tasks = [asyncio.create_task(gateway.chat()) for _ in range(40)]
        working = [asyncio.create_task(slow.work()) for slow in slows]
        async with asyncio.timeout(20):
            answers = await asyncio.gather(*tasks)
        assert [status for status, _, _ in answers] == [200] * 40
        assert all(slow.most <= 2 for slow in slows)
        assert gateway.in_flight() == queued(gateway) == 0
        assert metric(gateway, "radixway_queue_seconds_count", model="m") > 0
        for task in working:
            task.cancel()


async def test_the_journal_tells_how_long_a_request_waited_and_behind_how_many():
    async with slow_pool() as (gateway, (slow,), _):
        send = Sender(gateway)
        tasks = [await send() for _ in range(3)]
        for _ in tasks:
            _, go = await slow.next()
            go.set()
        (_, _, first), _, (_, _, third) = await asyncio.gather(*tasks)
        assert "queue" not in await steps_of(gateway, first)
        told = (await steps_of(gateway, third))["queue"]
        assert told["ahead"] == 1 and told["waited_s"] > 0


async def test_those_of_higher_priority_go_first():
    async with slow_pool() as (gateway, (slow,), _):
        send = Sender(gateway)
        tasks = [await send(user=name, priority=level) for name, level in (("a", 0), ("b", 0), ("c", 5))]
        order = []
        for _ in tasks:
            exchange, go = await slow.next()
            order.append(exchange.json()["user"])
            go.set()
        await asyncio.gather(*tasks)
        assert order == ["a", "c", "b"]


async def test_a_full_queue_refuses_with_429_and_says_when_to_come_back():
    async with slow_pool(queue={"size": 1}) as (gateway, (slow,), _):
        send = Sender(gateway)
        tasks = [await send(), await send()]
        status, body, headers = await gateway.chat()
        assert (status, body["error"]["code"], body["error"]["type"]) == (
            429,
            "queue_full",
            "rate_limit_error",
        )
        assert int(headers["retry-after"]) >= 1
        assert metric(gateway, "radixway_refused_total", reason="queue_full") == 1
        for _ in tasks:
            (await slow.next())[1].set()
        assert [status for status, _, _ in await asyncio.gather(*tasks)] == [200, 200]


async def test_without_a_worker_it_is_503_and_not_429():
    async with running_gateway(routing={**ONE_AT_A_TIME, "queue": {"size": 0}}) as gateway:
        status, body, headers = await gateway.chat()
        assert (status, body["error"]["code"]) == (503, "no_workers")
        assert "retry-after" in headers


async def test_who_waits_too_long_is_refused():
    async with slow_pool(queue={"timeout_s": 0.05}) as (gateway, (slow,), _):
        first = await Sender(gateway)()
        status, body, _ = await gateway.chat()
        assert (status, body["error"]["code"]) == (429, "queue_timeout")
        assert queued(gateway) == 0
        (await slow.next())[1].set()
        assert (await first)[0] == 200


async def test_a_client_that_leaves_the_queue_makes_room_in_it_at_once():
    async with slow_pool(queue={"size": 1}) as (gateway, (slow,), _):
        send = Sender(gateway)
        first, leaving = await send(), await send()
        leaving.cancel()
        await until(lambda: queued(gateway) == 0)
        third = await send()
        for _ in range(2):
            (await slow.next())[1].set()
        assert [(await task)[0] for task in (first, third)] == [200, 200]
        assert slow.asked.empty(), "the one that left was never sent"


async def test_a_place_freed_by_a_client_that_leaves_its_worker_goes_to_the_next():
    async with slow_pool() as (gateway, (slow,), _):
        send = Sender(gateway)
        leaving, waiting = await send(), await send()
        await slow.next()
        leaving.cancel()
        (await slow.next())[1].set()
        assert (await waiting)[0] == 200


async def test_who_waits_for_a_worker_that_dies_is_answered_by_another_and_so_is_who_was_at_it():
    async with slow_pool(workers=2) as (gateway, slows, started):
        send = Sender(gateway)
        tasks = [await send() for _ in range(4)]
        await slows[0].next()
        await started[0].kill()
        for _ in tasks:
            (await slows[1].next())[1].set()
        assert [(await task)[0] for task in tasks] == [200] * 4
        assert slows[1].most == 1


async def test_who_waits_for_the_only_worker_of_a_model_is_answered_when_it_has_restarted():
    async with slow_pool() as (gateway, (slow,), (worker,)):
        send = Sender(gateway)
        first, *waiting = [await send() for _ in range(3)]
        await slow.next()
        port = int(worker.url.rpartition(":")[2])
        await worker.kill()
        await gateway.until(worker.url, WorkerState.DOWN)
        await worker.start(port)
        working = asyncio.create_task(slow.work())
        assert [(await task)[0] for task in waiting] == [200, 200]
        await first  # it was at the worker: whether its retries reach the new one is a matter of time
        working.cancel()


async def test_those_who_wait_for_a_worker_that_is_removed_are_told_so():
    async with slow_pool() as (gateway, (slow,), (worker,)):
        send = Sender(gateway)
        first, second = await send(), await send()
        _, go = await slow.next()
        await gateway.post("/remove_worker", {"url": worker.url})
        status, body, _ = await second
        assert (status, body["error"]["code"]) == (503, "no_workers")
        go.set()
        assert (await first)[0] == 200


async def test_a_worker_that_comes_takes_those_who_wait():
    async with slow_pool() as (gateway, (slow,), _), scripted_worker() as fresh:
        send = Sender(gateway)
        first, second = await send(), await send()
        await gateway.post("/add_worker", {"url": fresh.url})
        assert (await second)[0] == 200
        (await slow.next())[1].set()
        assert (await first)[0] == 200


async def test_a_limit_that_is_raised_lets_those_who_wait_through():
    async with slow_pool() as (gateway, (slow,), (worker,)):
        send = Sender(gateway)
        tasks = [await send(), await send()]
        await gateway.post("/add_worker", {"url": worker.url, "max_in_flight": 2})
        for go in [(await slow.next())[1] for _ in range(2)]:
            go.set()
        assert [(await task)[0] for task in tasks] == [200, 200]
        assert slow.most == 2


async def test_a_worker_that_tells_how_much_it_runs_at_a_time_is_given_a_multiple_of_that():
    slow = Slow()
    async with (
        scripted_worker(slow) as worker,
        running_gateway(worker.url, routing={"max_in_flight_per_slot": 0.25}) as gateway,
    ):
        send = Sender(gateway)
        tasks = [await send() for _ in range(3)]  # it says that it runs 8
        assert queued(gateway) == 1
        for go in [(await slow.next())[1] for _ in range(2)]:
            go.set()
        (await slow.next())[1].set()
        await asyncio.gather(*tasks)
        assert slow.most == 2


async def test_an_objective_that_cannot_be_met_is_noted_or_refused():
    async with scripted_worker() as worker:
        for enforce, expected in ((False, 200), (True, 429)):
            async with running_gateway(worker.url, routing={"enforce_ttft": enforce}) as gateway:
                status, body, headers = await gateway.chat(ttft_slo_ms=0.001)
                assert status == expected
                told = (await steps_of(gateway, headers))["objective"]
                assert told["ttft_s"] == 1e-6 and told["expected_s"] > 1e-6
                if enforce:
                    assert body["error"]["code"] == "ttft_unreachable"
                    assert int(headers["retry-after"]) >= 1
                else:
                    assert "ttft_slo_ms" not in worker.requests[-1].json()
                assert (await gateway.chat(ttft_slo_ms=60_000))[0] == 200


async def test_an_enforced_objective_bounds_the_wait():
    async with slow_pool(enforce_ttft=True) as (gateway, (slow,), _):
        first = await Sender(gateway)()
        headers = {"x-radixway-ttft-ms": "150"}
        body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
        status, told, _ = await gateway.post("/v1/chat/completions", body, headers=headers)
        assert (status, told["error"]["code"]) == (429, "ttft_unreachable")
        (await slow.next())[1].set()
        assert (await first)[0] == 200


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"priority": "high"}, "priority"),
        ({"priority": 2**40}, "priority"),
        ({"ttft_slo_ms": 0}, "ttft_slo_ms"),
    ],
)
async def test_a_priority_or_objective_without_sense_is_refused_by_name(fields, param):
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        status, body, _ = await gateway.chat(**fields)
        assert (status, body["error"]["param"]) == (400, param)


@pytest.mark.parametrize("value", ["soon", "-1", "nan", "inf", ""])
async def test_an_objective_in_a_header_must_be_a_time(value):
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
        headers = {"x-radixway-ttft-ms": value}
        status, told, _ = await gateway.post("/v1/chat/completions", body, headers=headers)
        assert (status, told["error"]["param"]) == (400, "x-radixway-ttft-ms")


async def test_a_large_prompt_is_not_overtaken_for_ever_by_small_ones_that_fit_sooner():
    slow = Slow()
    # The worker tells of 4096 KV tokens; the limit leaves 2048 of them.
    routing = {"health": FAST_HEALTH, "max_kv_share": 0.5}
    async with scripted_worker(slow) as worker, running_gateway(worker.url, routing=routing) as gateway:

        async def send(first_id: int, tokens: int) -> asyncio.Task:
            before = queued(gateway) + gateway.in_flight()
            ids = list(range(first_id, first_id + tokens))
            task = asyncio.create_task(gateway.post("/generate", {"input_ids": ids}))
            await until(lambda: queued(gateway) + gateway.in_flight() != before)
            return task

        tasks = [await send(0, 1000), await send(10_000, 1900), await send(20_000, 500)]
        assert queued(gateway) == 2, "the small one would fit beside the first, but the large one came before"
        order = []
        for _ in tasks:
            exchange, go = await slow.next()
            order.append(len(exchange.json()["input_ids"]))
            go.set()
            assert slow.running <= 1
        assert [(await task)[0] for task in tasks] == [200] * 3
        assert order == [1000, 1900, 500]


async def test_a_full_queue_gives_a_place_up_for_a_request_of_higher_priority():
    async with slow_pool(queue={"size": 1}) as (gateway, (slow,), _):
        send = Sender(gateway)
        first, lesser = await send(), await send()
        urgent = asyncio.create_task(gateway.chat(priority=1))
        status, body, _ = await lesser
        assert (status, body["error"]["code"]) == (429, "queue_full")
        for _ in range(2):
            (await slow.next())[1].set()
        assert [(await task)[0] for task in (first, urgent)] == [200, 200]


async def test_models_that_share_no_worker_do_not_wait_for_each_other():
    slow = Slow()
    async with (
        scripted_worker(slow, models=["busy"]) as busy,
        scripted_worker(models=["free"]) as free,
        running_gateway(busy.url, free.url, routing={**ONE_AT_A_TIME, "queue": {"size": 1}}) as gateway,
    ):
        send = Sender(gateway)
        tasks = [await send(model="busy"), await send(model="busy")]
        assert (await gateway.chat(model="free"))[0] == 200, "though the queue is full"
        for _ in tasks:
            (await slow.next())[1].set()
        assert [(await task)[0] for task in tasks] == [200, 200]
