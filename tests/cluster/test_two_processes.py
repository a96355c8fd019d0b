"""Two gateways in processes of their own, one engine, one Valkey: what each keeps is found from the other."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import aiohttp
import pytest

from radixway.cluster.session_ownership.ownership_keys import GatewayFleet
from support.engine_process import engine_process
from support.free_ports import find_port
from support.gateway_process import gateway_process

pytestmark = pytest.mark.slow
PATIENCE_S = 90
QUESTION = "What is the capital of France?"
SAMPLING = {"max_new_tokens": 8, "temperature": 0}


@pytest.fixture(scope="module")
def gateways(valkey, tmp_path_factory):
    """Their URLs."""
    folder = tmp_path_factory.mktemp("gateways")
    ports = [find_port(), find_port()]
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    with ExitStack() as stack:
        engine, _ = stack.enter_context(engine_process())
        for port, url in zip(ports, urls, strict=True):
            tree = {
                "gateway": {"port": port},
                "workers": [{"url": engine}],
                "chat": {"enabled": False},
                "encoders": {"backend": "numpy"},
                "trajectories": {"enabled": True},
                "semantic_cache": {
                    "enabled": True,
                    "backend": "valkey",
                    "valkey": {"url": valkey, "timeout_s": 10},
                },
                "scale": {
                    "sync": {"redis": valkey, "channel": "two processes"},
                    "gateways": {"self_url": url, "all": urls, "key": "a key of sixteen characters"},
                },
            }
            home = folder / str(port)
            stack.enter_context(gateway_process(home, tree, home=home))
        yield urls


@pytest.fixture
async def client(gateways):
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE_S)) as client:
        async with asyncio.timeout(PATIENCE_S):
            for url in gateways:
                while (await client.get(f"{url}/ready")).status != 200:
                    pass
        yield client


async def post(client, url, path, body, **headers):
    async with client.post(url + path, json=body, headers=headers) as answer:
        told = await answer.json()
        assert answer.status in (200, 201), told
        return told, answer.headers


async def test_nothing_is_unshared(gateways, client):
    for url in gateways:
        told = await (await client.get(f"{url}/health")).json()
        assert "unshared" not in told and told["gateways"]["self"] == url


async def test_an_answer_that_one_keeps_the_other_gives(gateways, client):
    one, two = gateways
    body = {"messages": [{"role": "user", "content": QUESTION}], "temperature": 0}
    first, headers = await post(client, one, "/v1/chat/completions", body)
    assert "x-vsr-cache-hit" not in headers
    async with asyncio.timeout(PATIENCE_S):
        while True:  # it is kept after it was given
            kept, headers = await post(client, two, "/v1/chat/completions", body)
            if "x-vsr-cache-hit" in headers:
                break
            await asyncio.sleep(0.02)
    assert kept["choices"][0]["message"]["content"] == first["choices"][0]["message"]["content"]


async def test_turns_that_wander_between_them_are_one_exact_trajectory(gateways, client):
    name = GatewayFleet(gateways[0], gateways).make_owned_name()
    text, made = "", []
    for turn, url in enumerate((*gateways, *gateways)):
        text += f"<|im_start|>user\nQuestion {turn}?<|im_end|>\n<|im_start|>assistant\n"
        body = {"text": text, "sampling_params": SAMPLING, "session_id": name}
        told, _ = await post(client, url, "/generate", body)
        made += told["output_ids"]
        text += told["text"] + "<|im_end|>\n"
    last = text.removesuffix("<|im_end|>\n")
    for url in gateways:
        asked = {"text": last, "session_id": name, "strict": True}
        told, _ = await post(client, url, "/retrieve_from_text", asked)
        assert told["exact"] and told["coverage"] == 1
        trained = [token for token, mask in zip(told["tokens"], told["loss_mask"], strict=True) if mask]
        assert trained == made


async def test_an_agents_session_goes_on_at_either(gateways, client):
    name = GatewayFleet(gateways[1], gateways).make_owned_name()
    said = [{"role": "user", "content": "Hello"}]
    for url in gateways:
        body = {"messages": said, "max_tokens": 6, "temperature": 0}
        told, _ = await post(client, url, f"/sessions/{name}/v1/chat/completions", body)
        said += [told["choices"][0]["message"], {"role": "user", "content": "And then?"}]
    for url in gateways:
        samples = await (await client.get(f"{url}/sessions/{name}/samples")).json()
        shown = await (await client.get(f"{url}/sessions/{name}")).json()
        assert samples and shown["session_id"] == name


async def test_a_place_reserved_at_one_is_freed_at_the_other(gateways, client):
    one, two = gateways
    question = {"messages": [{"role": "user", "content": "Hello"}]}
    held, _ = await post(client, one, "/select_and_reserve", question)
    await post(client, two, "/prefill_complete", {"request_id": held["request_id"]})
    await post(client, two, "/free", {"request_id": held["request_id"]})
    async with client.post(f"{one}/free", json={"request_id": held["request_id"]}) as again:
        assert again.status == 404
