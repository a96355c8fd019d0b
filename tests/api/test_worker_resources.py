"""`/workers/{worker_id}` and `/v1/loads`, as clients of SGLang's gateway call them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.running_gateway import RunningGateway, running_gateway
from support.scripted_worker import Exchange, scripted_worker


async def call(gateway: RunningGateway, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    async with gateway.client.request(method, gateway.url + path, json=body) as answer:
        return answer.status, await answer.json()


async def test_a_worker_is_added_shown_and_removed_by_its_id() -> None:
    async with scripted_worker(models=["m"]) as worker, running_gateway() as gateway:
        status, added, headers = await gateway.post("/workers", {"url": worker.url, "labels": {"a": "b"}})
        assert (status, added["status"]) == (200, "accepted")
        worker_id = added["worker_id"]
        assert headers["location"] == added["location"] == f"/workers/{worker_id}"
        shown = (await call(gateway, "GET", f"/workers/{worker_id}"))[1]
        assert shown == (await gateway.get("/workers"))[1]["workers"][0] | {
            "lease_left_s": shown["lease_left_s"]
        }
        assert {name: shown[name] for name in ("id", "url", "model_id", "is_healthy", "load")} == {
            "id": worker_id,
            "url": worker.url,
            "model_id": "m",
            "is_healthy": True,
            "load": 0,
        }
        assert (shown["worker_type"], shown["connection_mode"]) == ("regular", "http")
        status, removed = await call(gateway, "DELETE", f"/workers/{worker_id}")
        assert (status, removed["worker_id"], removed["state"]) == (202, worker_id, "gone")
        assert (await gateway.get("/workers"))[1]["workers"] == []
        for method in ("GET", "PUT", "PATCH", "DELETE"):
            status, told = await call(gateway, method, f"/workers/{worker_id}", {})
            assert (status, told["error"]["code"]) == (404, "worker_not_found")


async def test_a_worker_has_the_same_id_in_each_gateway_and_is_found_by_its_name_too() -> None:
    async with (
        scripted_worker() as worker,
        running_gateway(worker.url) as one,
        running_gateway(worker.url) as two,
    ):
        ids = {(await gateway.get("/workers"))[1]["workers"][0]["id"] for gateway in (one, two)}
        assert len(ids) == 1
        name = worker.url.removeprefix("http://")
        assert (await one.get(f"/workers/{name}"))[1]["id"] == ids.pop()


async def test_what_is_there_already_is_a_conflict_unless_it_is_a_heartbeat() -> None:
    async with scripted_worker() as configured, scripted_worker() as worker:
        async with running_gateway(configured.url) as gateway:
            for url in (configured.url, configured.url + "/"):
                status, told, _ = await gateway.post("/workers", {"url": url})
                assert (status, told["error"]["code"]) == (409, "worker_exists")
                assert told["code"] == "WORKER_ALREADY_EXISTS", "where SMG has it"
            assert (await gateway.get("/workers"))[1]["workers"][0]["lease_left_s"] is None
            assert (await gateway.post("/workers", {"url": worker.url}))[0] == 200
            assert (await gateway.post("/workers", {"url": worker.url}))[0] == 409
            assert (await gateway.post("/workers", {"url": worker.url, "ttl_s": 7}))[0] == 200
            async with gateway.client.delete(gateway.url + "/workers", params={"url": worker.url}) as answer:
                assert answer.status == 200
            assert len((await gateway.get("/workers"))[1]["workers"]) == 1


async def test_a_refused_duplicate_renews_the_lease_all_the_same() -> None:
    async with scripted_worker() as worker, running_gateway() as gateway:
        await gateway.post("/workers", {"url": worker.url, "ttl_s": 60})
        fresh_s = left_s = (await gateway.get("/workers"))[1]["workers"][0]["lease_left_s"]
        while left_s > fresh_s - 1:  # the call that renews it may take a while
            left_s = (await gateway.get("/workers"))[1]["workers"][0]["lease_left_s"]
        assert (await gateway.post("/workers", {"url": worker.url}))[0] == 409
        assert (await gateway.get("/workers"))[1]["workers"][0]["lease_left_s"] > left_s


async def test_put_replaces_all_and_patch_what_it_names() -> None:
    async with scripted_worker(models=["m"]) as worker, running_gateway(worker.url) as gateway:
        worker_id = (await gateway.get("/workers"))[1]["workers"][0]["id"]
        path = f"/workers/{worker_id}"
        given = {"max_in_flight": 3, "pools": ["a"], "url": worker.url + "/", "priority": 50}
        status, told = await call(gateway, "PUT", path, given)
        assert (status, told["status"], told["worker_id"]) == (202, "accepted", worker_id)
        assert (await gateway.get(path))[1]["given"] == {"max_in_flight": 3, "pools": ["a"]}
        assert (await call(gateway, "PATCH", path, {"kv_tokens": 100}))[0] == 202
        assert (await call(gateway, "PATCH", path, {"pools": ["b"]}))[0] == 202
        shown = (await gateway.get(path))[1]
        assert shown["given"] == {"max_in_flight": 3, "pools": ["b"], "kv_tokens": 100}
        assert (await call(gateway, "PUT", path, {"kv_tokens": 7}))[0] == 202
        shown = (await gateway.get(path))[1]
        assert (shown["given"], shown["state"]) == ({"kv_tokens": 7}, "ready")
        assert (await gateway.chat())[0] == 200


async def test_labels_priority_and_cost_are_kept_and_shown() -> None:
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        path = f"/workers/{(await gateway.get('/workers'))[1]['workers'][0]['id']}"

        async def shown() -> dict[str, Any]:
            told = (await gateway.get(path))[1]
            return {name: told[name] for name in ("labels", "priority", "cost")}

        assert await shown() == {"labels": {}, "priority": 50, "cost": 1.0}
        change = {"priority": 100, "cost": 2.5, "labels": {"env": "test"}}
        assert (await call(gateway, "PATCH", path, change))[0] == 202
        assert await shown() == change
        assert (await call(gateway, "PATCH", path, {"cost": 3}))[0] == 202
        assert await shown() == change | {"cost": 3}
        assert (await gateway.get(path))[1]["given"] == change | {"cost": 3}
        assert (await call(gateway, "PUT", path, {}))[0] == 202
        assert await shown() == {"labels": {}, "priority": 50, "cost": 1.0}


async def test_workers_are_counted_by_their_kind() -> None:
    async with scripted_worker() as one, running_gateway(one.url) as gateway:
        fields = {"url": "http://127.0.0.1:9", "worker_type": "prefill", "bootstrap_port": 8998}
        await gateway.post("/workers", fields)
        told = (await gateway.get("/workers"))[1]
        assert told["total"] == len(told["workers"]) == 2
        assert told["stats"] == {"prefill_count": 1, "decode_count": 0, "regular_count": 1}


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"url": "http://127.0.0.1:9"}, "url"),
        ({"url": 5}, "url"),
        ({"capacity": 5}, "capacity"),
        ({"kv_tokens": 0}, "kv_tokens"),
        ({"role": "king"}, "role"),
        ({"labels": ["a"]}, "labels"),
        ({"priority": "high"}, "priority"),
        ([], None),
    ],
)
async def test_a_change_that_makes_no_sense_is_refused_by_the_field(method, fields, param) -> None:
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        worker_id = (await gateway.get("/workers"))[1]["workers"][0]["id"]
        status, told = await call(gateway, method, f"/workers/{worker_id}", fields)
        assert (status, told["error"]["param"]) == (400, param)


async def test_only_administrators_change_a_worker() -> None:
    async with scripted_worker() as worker:
        async with running_gateway(worker.url, gateway={"admin_key": "secret"}) as gateway:
            worker_id = (await gateway.get("/workers"))[1]["workers"][0]["id"]
            for method in ("PUT", "PATCH", "DELETE"):
                assert (await call(gateway, method, f"/workers/{worker_id}", {}))[0] == 401


async def test_loads_are_the_workers_own_figures_and_their_sums() -> None:
    page = b"vllm:num_requests_running 3\nvllm:num_requests_waiting 2\nvllm:kv_cache_usage_perc 0.5\n"
    async with scripted_worker(metrics=page) as telling, scripted_worker() as silent:
        async with running_gateway(telling.url, silent.url) as gateway:
            _, told = await gateway.get("/v1/loads")
            for path in ("/get_loads", "/loads"):
                assert (await gateway.get(path))[1]["aggregate"] == told["aggregate"]
            assert {load["worker_type"] for load in told["loads"]} == {"regular"}
            assert [(load["worker"], load["load"]) for load in told["loads"]] == [
                (telling.url, 0),
                (silent.url, 0),
            ]
            assert (told["total_workers"], told["successful"], told["failed"]) == (2, 2, 0)
            figures = ("num_running_reqs", "num_waiting_reqs", "num_total_reqs", "num_used_tokens")
            assert [told["loads"][0][name] for name in figures] == [3, 2, 5, 2048]
            assert told["aggregate"] == {
                "total_running_reqs": 3,
                "total_waiting_reqs": 2,
                "total_reqs": 5,
                "avg_token_usage": 0.25,
            }
            assert (await gateway.get("/get_load"))[1][0] == {
                "dp_rank": 0,
                "num_reqs": 5,
                "num_waiting_reqs": 2,
                "num_tokens": 2048,
            }


async def test_a_worker_that_does_not_answer_has_no_load() -> None:
    async with running_gateway("http://127.0.0.1:9", wait=False) as gateway:
        _, told = await gateway.get("/v1/loads")
        assert (told["loads"][0]["load"], told["successful"], told["failed"]) == (-1, 0, 1)


async def test_a_load_counts_what_the_gateway_has_sent_since_the_worker_told_it() -> None:
    may_answer, all_there = asyncio.Event(), asyncio.Barrier(6)

    async def hold(exchange: Exchange) -> None:
        await all_there.wait()
        await may_answer.wait()
        await exchange.reply(200, b'{"choices": []}')

    page = b"vllm:num_requests_running 1\nvllm:num_requests_waiting 1\n"
    async with scripted_worker(hold, metrics=page) as worker, running_gateway(worker.url) as gateway:

        async def read_figures() -> list[int]:
            load = (await gateway.get("/loads"))[1]["loads"][0]
            return [load["num_running_reqs"], load["num_waiting_reqs"], load["num_total_reqs"]]

        assert await read_figures() == [1, 1, 2], "of requests that others sent, perhaps"
        asked = [asyncio.create_task(gateway.chat()) for _ in range(5)]
        async with asyncio.timeout(20):
            await all_there.wait()
        assert await read_figures() == [4, 1, 5]
        may_answer.set()
        await asyncio.gather(*asked)
        assert await read_figures() == [1, 1, 2]
