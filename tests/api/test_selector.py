"""The selector over HTTP: choosing, reserving, and the life of a reservation."""

import asyncio

import pytest

from radixway.routing import WorkerState
from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

IDS = {"model": "m", "input_ids": list(range(100)), "routing_note": "other fields do not matter"}


async def test_a_choice_is_explained_and_reserves_nothing():
    async with scripted_worker() as a, scripted_worker() as b, running_gateway(a.url, b.url) as gateway:
        status, told, _ = await gateway.post("/select", IDS)
        assert status == 200
        assert told["url"] in (a.url, b.url)
        assert told["policy"] == "expected_time" and told["prompt"] == {"tokens": 100, "source": "ids"}
        assert len(told["candidates"]) == 2
        assert gateway.in_flight() == 0


async def test_a_reservation_counts_until_it_is_freed_and_draws_what_shares_its_prefix():
    async with scripted_worker() as a, scripted_worker() as b, running_gateway(a.url, b.url) as gateway:
        _, first, _ = await gateway.post("/select_and_reserve", IDS | {"request_id": "r1"})
        assert first["request_id"] == "r1"
        assert gateway.in_flight() == 1
        worker = gateway.gateway.registry.get_worker(first["url"])
        assert worker.load.prefill_tokens == 100
        assert (await gateway.post("/prefill_complete", {"request_id": "r1"}))[0] == 200
        assert worker.load.prefill_tokens == 0
        assert (await gateway.post("/output_block", {"request_id": "r1", "blocks": 3}))[0] == 200
        assert worker.load.output_blocks == 3
        _, second, _ = await gateway.post("/select", IDS)
        assert second["url"] == first["url"]
        assert second["expected_cached_tokens"] == 96
        assert (await gateway.post("/free", {"request_id": "r1"}))[0] == 200
        assert gateway.in_flight() == 0
        assert worker.load.output_blocks == 0
        assert (await gateway.post("/free", {"request_id": "r1"}))[0] == 404


async def test_reservations_and_requests_that_pass_share_one_ledger():
    async with scripted_worker() as a, scripted_worker() as b, running_gateway(a.url, b.url) as gateway:
        _, told, _ = await gateway.post("/select_and_reserve", {"prompt": "x" * 40_000})
        status, _, headers = await gateway.chat()
        assert status == 200
        assert not told["url"].endswith(headers["x-radixway-worker"])


async def test_only_the_workers_asked_for_are_candidates():
    async with scripted_worker() as a, scripted_worker() as b, running_gateway(a.url, b.url) as gateway:
        for wanted in (b.url + "/", b.url.removeprefix("http://")):
            for _ in range(3):
                _, told, _ = await gateway.post("/select", IDS | {"workers": [wanted]})
                assert told["url"] == b.url


async def test_a_reservation_nobody_speaks_of_ends_by_itself():
    async with scripted_worker() as a, running_gateway(a.url, routing={"reservation_ttl_s": 0.2}) as gateway:
        await gateway.post("/select_and_reserve", IDS | {"request_id": "lost"})
        load = gateway.gateway.registry.get_worker(a.url).load
        assert load.requests == 1
        async with asyncio.timeout(10):
            while load.requests:
                await gateway.get("/health")
        assert (await gateway.post("/free", {"request_id": "lost"}))[0] == 404


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("/select", {"workers": ["http://never"]}, 400, "workers"),
        ("/select", {"workers": 5}, 400, "workers"),
        ("/select", {"workers": []}, 400, "workers"),
        ("/select", {"model": "none"}, 404, "model"),
        ("/select", {"session": 1}, 400, "session"),
        ("/select_and_reserve", {"request_id": ""}, 400, "request_id"),
        ("/select_and_reserve", {"request_id": "x" * 200}, 400, "request_id"),
        ("/select_and_reserve", {"request_id": "taken"}, 409, "request_id"),
        ("/prefill_complete", {"request_id": "never"}, 404, "request_id"),
        ("/prefill_complete", {}, 400, "request_id"),
        ("/output_block", {"request_id": "taken", "blocks": 0}, 400, "blocks"),
        ("/free", [], 400, None),
    ],
)
async def test_what_makes_no_sense_is_refused_with_the_field_named(path, body, status, param):
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        await gateway.post("/select_and_reserve", IDS | {"request_id": "taken"})
        found, told, _ = await gateway.post(path, body)
        assert (found, told["error"].get("param")) == (status, param), told
        assert gateway.in_flight() == 1


async def test_nobody_ready_is_503_and_a_stranger_needs_the_key():
    async with (
        scripted_worker() as worker,
        running_gateway(worker.url, gateway={"admin_key": "hush"}) as gateway,
    ):
        assert (await gateway.post("/select", IDS))[0] == 401
        key = {"authorization": "Bearer hush"}
        gateway.gateway.registry.set_state(
            gateway.gateway.registry.get_worker(worker.url), WorkerState.DRAINING
        )
        assert (await gateway.post("/select", IDS, headers=key))[0] == 503


async def test_a_flood_of_reservations_is_refused_and_takes_no_more_places():
    routing = {"most_reservations": 3}
    async with scripted_worker() as worker, running_gateway(worker.url, routing=routing) as gateway:
        answers = await asyncio.gather(*(gateway.post("/select_and_reserve", IDS) for _ in range(20)))
        reserved = [told["request_id"] for status, told, _ in answers if status == 200]
        refused = [told["error"]["code"] for status, told, _ in answers if status == 429]
        assert (len(reserved), refused) == (3, ["too_many_reservations"] * 17)
        assert gateway.in_flight() == 3
        await gateway.post("/free", {"request_id": reserved[0]})
        assert (await gateway.post("/select_and_reserve", IDS))[0] == 200


async def test_a_worker_whose_breaker_is_open_is_offered_last():
    async def die(exchange):
        exchange.die()

    routing = {"policy": "round_robin", "breaker": {"open_s": 60}}
    async with (
        scripted_worker(die) as bad,
        scripted_worker() as good,
        running_gateway(bad.url, good.url, routing=routing) as gateway,
    ):
        for _ in range(6):
            await gateway.chat()
        chosen = {(await gateway.post("/select", IDS))[1]["url"] for _ in range(6)}
        assert chosen == {good.url}
        _, told, _ = await gateway.post("/select", IDS | {"workers": [bad.url]})
        assert told["url"] == bad.url
