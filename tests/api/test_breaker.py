"""Circuit breakers as clients and operators see them. Real sockets."""

from support.running_gateway import FAST_HEALTH, running_gateway
from support.scripted_worker import Exchange, answer_ok, scripted_worker

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


def routing(**breaker):
    return {"health": FAST_HEALTH, "policy": "round_robin", "breaker": breaker}


async def die(exchange: Exchange) -> None:
    exchange.die()


async def shown(gateway, worker) -> tuple:
    """What /list_workers, /health and the metrics say of it."""
    name = worker.url.removeprefix("http://")
    _, listing = await gateway.get("/list_workers")
    _, health = await gateway.get("/health")
    value = gateway.gateway.metrics.registry.get_sample_value("radixway_breaker", {"worker": name})
    entry = next(entry for entry in listing["workers"] if entry["name"] == name)
    return entry["breaker"], health["breakers"].get(name), value


async def test_an_open_breaker_is_shown_and_its_worker_left_alone():
    async with (
        scripted_worker(die) as bad,
        scripted_worker() as good,
        running_gateway(bad.url, good.url, routing=routing(open_s=60)) as gateway,
    ):
        for _ in range(10):
            assert (await gateway.chat())[0] == 200
        assert len(bad.requests) == 2
        assert await shown(gateway, bad) == ("open", "open", 1)
        assert await shown(gateway, good) == ("closed", None, 0)


async def test_one_probe_finds_a_worker_that_has_recovered():
    async with (
        scripted_worker(die) as bad,
        scripted_worker() as good,
        running_gateway(bad.url, good.url, routing=routing(open_s=0.001)) as gateway,
    ):
        while len(bad.requests) < 2:
            assert (await gateway.chat())[0] == 200
        bad.behaviour = answer_ok
        before = len(bad.requests)
        while len(bad.requests) == before:
            assert (await gateway.chat())[0] == 200
        assert await shown(gateway, bad) == ("closed", None, 0)


async def test_a_worker_alone_behind_an_open_breaker_is_still_asked():
    async with (
        scripted_worker(die) as only,
        running_gateway(only.url, routing=routing(open_s=60), pipeline={"retry": {"attempts": 1}}) as gateway,
    ):
        for _ in range(3):
            assert (await gateway.chat())[0] == 502
        only.behaviour = answer_ok
        assert (await gateway.chat())[0] == 200


async def test_a_worker_that_answers_everything_with_500_is_left_alone_and_4xx_are_not_its_fault():
    async def defect(exchange: Exchange) -> None:
        await exchange.reply(500, b'{"error": {"message": "CUDA error"}}')

    async def picky(exchange: Exchange) -> None:
        await exchange.reply(400, b'{"error": {"message": "no"}}')

    async with (
        scripted_worker(defect) as bad,
        scripted_worker(picky) as good,
        running_gateway(bad.url, good.url, routing=routing(open_s=60, least_requests=3)) as gateway,
    ):
        statuses = [(await gateway.chat())[0] for _ in range(12)]
        assert statuses.count(500) == len(bad.requests) == 3
        assert await shown(gateway, good) == ("closed", None, 0)


async def test_streams_that_break_in_the_middle_count():
    async def break_off(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.chunk(b'data: {"n": 1}\n\n')
        exchange.die()

    async with (
        scripted_worker(break_off) as bad,
        running_gateway(bad.url, routing=routing(open_s=60, least_requests=4)) as gateway,
    ):
        for _ in range(3):  # three first bytes, of which the last two come after a break, and three breaks
            url = gateway.url + "/v1/chat/completions"
            async with gateway.client.post(url, json={**CHAT, "stream": True}) as response:
                assert b"stream_broken" in await response.read()
        assert (await shown(gateway, bad))[0] == "open"
