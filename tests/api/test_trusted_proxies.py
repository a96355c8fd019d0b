"""Headers that say where a request goes count from trusted hops alone. Real sockets."""

import pytest

from radixway.core.config import ConfigError, load_config
from support.running_gateway import FAST_HEALTH, running_gateway
from support.scripted_worker import scripted_worker

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "odd": 1e-7}
LOOPBACK = {"trusted_hops": ["127.0.0.0/8"]}
KEY = {"trusted_keys": ["hush"]}


async def ask(gateway, headers, **fields):
    return await gateway.post("/v1/chat/completions", CHAT | fields, headers=headers)


@pytest.mark.parametrize("header", ["x-vsr-model", "x-vsr-selected-model"])
async def test_a_trusted_hop_chooses_the_model(header):
    async with (
        scripted_worker(models=["m"]) as one,
        scripted_worker(models=["deepseek-v31"]) as other,
        running_gateway(one.url, other.url, gateway=LOOPBACK) as gateway,
    ):
        status, _, headers = await ask(gateway, {header: "deepseek-v31", "x-vsr-selected-reasoning": "on"})
        assert status == 200 and not one.requests
        sent = other.requests[0]
        assert sent.json() == CHAT | {"model": "deepseek-v31"}
        assert not any(name.startswith("x-vsr-") for name in sent.headers)
        _, journal = await gateway.get(f"/explain/{headers['x-request-id']}")
        assert {"step": "hop", "model": "deepseek-v31"}.items() <= journal["steps"][1].items()


async def test_from_anybody_else_the_body_decides():
    async with (
        scripted_worker(models=["m"]) as one,
        scripted_worker(models=["n"]) as other,
        running_gateway(one.url, other.url, gateway={"trusted_hops": ["10.0.0.0/8"], **KEY}) as gateway,
    ):
        told = {"x-vsr-model": "n", "x-radixway-worker": other.url, "x-radixway-priority": "x"}
        for extra in ({}, {"authorization": "Bearer husk"}, {"authorization": "hush"}):
            assert (await ask(gateway, told | extra))[0] == 200
        assert (len(one.requests), len(other.requests)) == (3, 0)
        assert (await ask(gateway, {"x-vsr-model": "n", "authorization": "Bearer hush"}))[0] == 200
        assert len(other.requests) == 1
        assert "authorization" not in other.requests[0].headers


async def test_without_configuration_nobody_is_trusted():
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        assert (await ask(gateway, {"x-vsr-model": "n", "x-radixway-worker": "http://nowhere"}))[0] == 200


@pytest.mark.parametrize("header", ["x-radixway-worker", "x-worker-instance-id"])
async def test_a_trusted_hop_names_the_worker_by_name_or_url(header):
    async with (
        scripted_worker() as one,
        scripted_worker() as other,
        running_gateway(one.url, other.url, gateway=LOOPBACK) as gateway,
    ):
        for name in (other.url, other.url + "/", other.url.removeprefix("http://")):
            for _ in range(2):
                assert (await ask(gateway, {header: name}))[0] == 200
        assert (len(one.requests), len(other.requests)) == (0, 6)


async def test_a_worker_that_is_not_there_is_404_and_one_that_cannot_answer_503():
    async with (
        scripted_worker() as one,
        scripted_worker() as other,
        running_gateway(one.url, other.url, gateway=LOOPBACK) as gateway,
    ):
        status, body, _ = await ask(gateway, {"x-radixway-worker": "http://nowhere"})
        assert (status, body["error"]["code"]) == (404, "worker_not_found")
        assert body["error"]["param"] == "x-radixway-worker"
        await gateway.post("/drain_worker", {"url": other.url})
        status, body, _ = await ask(gateway, {"x-radixway-worker": other.url})
        assert (status, body["error"]["code"]) == (503, "no_workers")
        assert not other.requests


async def test_a_pinned_request_is_not_tried_elsewhere():
    async def die(exchange) -> None:
        exchange.die()

    async with (
        scripted_worker(die) as one,
        scripted_worker() as other,
        running_gateway(one.url, other.url, gateway=LOOPBACK) as gateway,
    ):
        assert (await ask(gateway, {"x-radixway-worker": one.url}))[0] in (502, 503)
        assert not other.requests


@pytest.mark.parametrize(
    ("header", "value"),
    [("x-radixway-priority", "high"), ("x-radixway-priority", "9" * 300), ("x-vsr-model", "m" * 300)],
)
async def test_a_header_without_sense_is_refused_by_name(header, value):
    async with scripted_worker() as worker, running_gateway(worker.url, gateway=LOOPBACK) as gateway:
        status, body, _ = await ask(gateway, {header: value})
        assert (status, body["error"]["param"]) == (400, header)


@pytest.mark.parametrize("hop", ["nowhere", "10.0.0.1/8/9", 5.5])
def test_a_hop_that_is_no_network_is_refused(hop):
    with pytest.raises(ConfigError, match=r"gateway\.trusted_hops\.0: "):
        load_config(overrides={"gateway": {"trusted_hops": [hop]}})


async def test_a_trusted_priority_goes_before_the_bodys():
    async with (
        scripted_worker() as worker,
        running_gateway(worker.url, gateway=LOOPBACK, routing={"health": FAST_HEALTH}) as gateway,
    ):
        _, _, headers = await ask(gateway, {"x-radixway-priority": "7"}, priority=-3)
        _, journal = await gateway.get(f"/explain/{headers['x-request-id']}")
        assert journal["steps"][1]["priority"] == 7
        assert worker.requests[0].json()["priority"] == -3
