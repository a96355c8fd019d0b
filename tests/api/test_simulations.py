"""`/simulate`: jobs in processes of their own, and what hostile traces come to."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest

from radixway.api.simulations import SimulationList, SimulationStatus
from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

TRACE = b"".join(
    json.dumps(
        {
            "timestamp": at * 100,
            "input_length": 70,
            "output_length": 5,
            "hash_ids": [at % 3, 100 + at],
            "block_size": 32,
        }
    ).encode()
    + b"\n"
    for at in range(60)
)


async def ask(gateway, body: bytes = b"", **query) -> tuple[int, dict]:
    async with gateway.client.post(gateway.url + "/simulate", params=query, data=body) as response:
        return response.status, await response.json()


async def ended(gateway, told: dict) -> SimulationStatus:
    """The job once it is over."""
    job = gateway.gateway.simulations.find_job(told["id"])
    async with asyncio.timeout(120):
        await asyncio.wait({job.work})
    return SimulationStatus.model_validate((await gateway.get(f"/simulate/{job.id}"))[1])


@pytest.fixture
async def gateway():
    async with running_gateway(simulations={"waiting": 1, "most_requests": 2000}) as gateway:
        yield gateway


async def test_policies_are_compared_on_a_trace_that_is_sent(gateway):
    policies = "expected_time,kv_aware:overlap_weight=2,round_robin"
    status, told = await ask(gateway, gzip.compress(TRACE), policies=policies, workers=2, name="mine")
    assert status == 202 and told["state"] in ("waiting", "running")
    done = await ended(gateway, told)
    assert (done.state, done.error, done.name) == ("done", None, "mine")
    assert done.sent == done.total == 180
    assert done.result["trace"]["requests"] == 60
    assert list(done.result["policies"]) == policies.split(",")
    for each in done.result["policies"].values():
        figures, curves = each["figures"], each["curves"]
        assert figures["requests"] == 60 and figures["ttft_p99_s"] > 0
        assert sum(curves["requests"]) == 60 and sum(curves["work_shares"]) == pytest.approx(1)
        assert curves["ttft_quantiles"][9] == [0.5, figures["ttft_p50_s"]]
        assert sum(1 for at, _ in curves["ttft_over_time"]) > 10
    listed = SimulationList.model_validate((await gateway.get("/simulate"))[1])
    assert [each.id for each in listed.simulations] == [done.id]
    assert listed.simulations[0].result is None and "expected_time" in listed.policies
    async with gateway.client.delete(f"{gateway.url}/simulate/{done.id}") as response:
        assert response.status == 204
    assert (await gateway.get(f"/simulate/{done.id}"))[0] == 404


async def test_one_runs_at_a_time_and_so_many_wait(gateway):
    first = (await ask(gateway, sample="agents", policies="expected_time,kv_aware,round_robin"))[1]
    second = (await ask(gateway, sample="chats", policies="round_robin", limit=50))[1]
    status, refused = await ask(gateway, TRACE)
    assert (status, refused["error"]["code"]) == (429, "simulations_full")
    assert (await gateway.get(f"/simulate/{second['id']}"))[1]["state"] == "waiting"
    async with gateway.client.delete(f"{gateway.url}/simulate/{first['id']}") as response:
        assert response.status == 204
    assert (await gateway.get(f"/simulate/{first['id']}"))[1]["state"] == "cancelled"
    assert (await ended(gateway, second)).state == "done"


async def test_a_trace_that_is_on_its_way_takes_a_place():
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slowly():
        yield TRACE
        begun.set()
        await go_on.wait()

    async with running_gateway(simulations={"waiting": 0}) as gateway:
        first = asyncio.create_task(ask(gateway, slowly(), policies="round_robin"))
        await begun.wait()
        while (await ask(gateway, policies="round_robin"))[0] != 429:  # until the gateway has heard of it
            pass
        go_on.set()
        status, job = await first
        assert status == 202
        assert (await ended(gateway, job)).state == "done"


async def test_what_cannot_be_simulated_says_why(gateway):
    for body, why in (
        (b"no json\n", "trace:1: "),
        (TRACE * 40, "more than 2000 requests"),
        (b"\n\n", "there is no request in it"),
        (b"\x1f\x8bnonsense", "cannot read trace"),
    ):
        done = await ended(gateway, (await ask(gateway, body, policies="round_robin"))[1])
        assert done.state == "failed" and why in done.error, body[:50]


async def test_a_trace_that_unfolds_without_end_costs_its_own_process_alone():
    few = {"memory_bytes": 2**28}
    bomb = gzip.compress(b" " * 2**28, 1)
    async with running_gateway(simulations=few) as gateway:
        done = await ended(gateway, (await ask(gateway, bomb, policies="round_robin"))[1])
        assert done.state == "failed" and done.error is not None
        assert (await gateway.get("/health"))[0] == 200


async def test_one_that_takes_too_long_is_ended():
    async with running_gateway(simulations={"time_s": 0.001}) as gateway:
        done = await ended(gateway, (await ask(gateway, TRACE))[1])
        assert done.state == "failed" and "longer than" in done.error


async def test_mistakes_are_named():
    async with running_gateway(simulations={"most_trace_bytes": 1024}) as gateway:
        for query, param in (
            ({"policies": "fastest"}, "policies"),
            ({"policies": "os.system"}, "policies"),  # a program of the caller's choice is not imported
            ({"policies": "round_robin,round_robin"}, "policies"),
            ({"policies": ",".join(f"kv_aware:overlap_weight={n}" for n in range(13))}, "policies"),
            ({"workers": "0"}, "workers"),
            ({"workers": "257"}, "workers"),
            ({"kv_tokens": "1e99"}, "kv_tokens"),
            ({"speedup": "0"}, "speedup"),
            ({"speedup": "inf"}, "speedup"),
            ({"engine": "step_s=-1"}, "engine"),
            ({"engine": "wheels=4"}, "engine"),
            ({"sample": "../../etc/passwd"}, "sample"),
            ({"limit": "0"}, "limit"),
            ({"colour": "red"}, "colour"),
            ({}, "sample"),
            ({"sample": "recent"}, "sample"),
        ):
            status, told = await ask(gateway, **query)
            assert (query, status, told["error"]["param"]) == (query, 400, param)
        status, told = await ask(gateway, TRACE)
        assert (status, told["error"]["code"]) == (413, "body_too_large")
        assert (await gateway.get("/simulate/" + "x" * 500))[0] == 404


async def test_the_latest_requests_are_simulated_again():
    async def answer(exchange):
        usage = {"prompt_tokens": 100, "completion_tokens": 3}
        await exchange.reply(200, json.dumps({"choices": [], "usage": usage}).encode())

    async with (
        scripted_worker(behaviour=answer) as one,
        scripted_worker(behaviour=answer) as two,
        running_gateway(one.url, two.url) as gateway,
    ):
        for number in range(5):
            words = "all begin alike, and are long enough to fill several blocks " * 20 + str(number)
            await gateway.chat(messages=[{"role": "user", "content": words}])
        slowly = {"sample": "recent", "policies": "expected_time", "speedup": 1e-4}
        done = await ended(gateway, (await ask(gateway, **slowly))[1])
        assert done.result["trace"]["requests"] == 5
        assert done.result["policies"]["expected_time"]["figures"]["hit_rate"] > 0.5


async def test_only_administrators_simulate():
    async with running_gateway(gateway={"admin_key": "root"}) as gateway:
        assert (await ask(gateway, TRACE))[0] == 401
        assert (await gateway.get("/simulate"))[0] == 401
