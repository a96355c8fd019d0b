"""`radixway serve` before a prefill engine and a decode engine of ours, each a process."""

import asyncio
import signal
from collections.abc import Iterator
from subprocess import Popen
from typing import Any

import aiohttp
import pytest

from support.engine_process import engine_process
from support.relays import relay
from support.running_gateway import FAST_HEALTH, RunningGateway, running_gateway

ALWAYS = {"health": FAST_HEALTH, "disaggregation": {"min_uncached_tokens": 0, "by_expected_time": False}}
LONG = "Tell me all of this again, please: " + "a cat sat on a mat, and it was a black cat. " * 20
OTHER = "There was no dog. "


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[tuple[str, Popen], str]]:
    """The prefill engine and its process, and the decode engine."""
    prefill = ("--disaggregation-mode", "prefill", "--disaggregation-bootstrap-port", "0")
    with (
        pytest.MonkeyPatch.context() as patched,
        engine_process("--disaggregation-mode", "decode") as (last, _),
    ):
        patched.setenv("RADIXWAY__ENGINE__DISAGGREGATION_TRANSFER", "tcp")  # so that a relay sees it
        with engine_process(*prefill) as first:
            yield first, last


async def generate(gateway: RunningGateway, text: str = LONG) -> tuple[list[int], dict, dict]:
    """The answer's tokens, its metadata and the reply's headers."""
    params = {"max_new_tokens": 8, "temperature": 0}
    status, answer, headers = await gateway.post("/generate", {"text": text, "sampling_params": params})
    assert status == 200
    return answer["output_ids"], answer["meta_info"], headers


async def test_one_prefills_and_the_other_answers_without_a_word_of_configuration(pair):
    (prefill, _), decode = pair
    expected = await alone(decode, LONG)
    async with running_gateway(prefill, decode, routing=ALWAYS) as gateway:
        _, listing = await gateway.get("/list_workers")
        assert [worker["role"] for worker in listing["workers"]] == ["prefill", "decode"]
        found, meta, headers = await generate(gateway)
        assert found == expected
        assert meta["remote_tokens"] == meta["prompt_tokens"] - 1
        assert headers["x-radixway-prefill-worker"] == prefill.removeprefix("http://")
        assert headers["x-radixway-worker"] == decode.removeprefix("http://")


async def alone(url: str, text: str) -> list[int]:
    """What an engine answers by itself; then it forgets."""
    tokens = (await ask(url, text))["output_ids"]
    async with aiohttp.ClientSession() as client, client.post(f"{url}/flush_cache") as response:
        assert response.status == 200
    return tokens


async def ask(url: str, text: str, **more: Any) -> dict[str, Any]:
    """An engine's own answer."""
    body = {"text": text, "sampling_params": {"max_new_tokens": 8, "temperature": 0}, **more}
    async with aiohttp.ClientSession() as client, client.post(f"{url}/generate", json=body) as response:
        assert response.status == 200, await response.text()
        return await response.json()


async def test_a_prefill_engine_that_is_killed_half_way_costs_no_answer(pair):
    """The last test of this file: its prefill engine is gone."""
    (first, process), last = pair
    async with aiohttp.ClientSession() as client, client.get(f"{first}/server_info") as response:
        port = (await response.json())["disaggregation_bootstrap_port"]
    other = OTHER * 30
    expected = await alone(last, other)
    async with running_gateway(first, last, routing=ALWAYS | {"health": {"interval_s": 60}}) as gateway:
        async with relay(port, hold_after=300_000) as half:
            room = {"bootstrap_host": "127.0.0.1", "bootstrap_port": half.port, "bootstrap_room": 1}
            prefilling = asyncio.create_task(ask(first, other, **room))
            answering = asyncio.create_task(ask(last, other, **room))
            async with asyncio.timeout(60):  # else nothing would come this way
                await half.reached.wait()
            process.send_signal(signal.SIGKILL)
            process.wait(15)
            half.go.set()
            answer = await answering
        await asyncio.gather(prefilling, return_exceptions=True)
        assert answer["output_ids"] == expected
        assert answer["meta_info"].get("remote_tokens", 0) < answer["meta_info"]["prompt_tokens"] - 1

        # the gateway has not found out yet
        found, _, headers = await generate(gateway, OTHER * 20)
        assert found == await alone(last, OTHER * 20)
        assert headers["x-radixway-worker"] == last.removeprefix("http://")
        assert "x-radixway-prefill-worker" not in headers
        _, journal = await gateway.get(f"/explain/{headers['x-request-id']}")
        steps = [step for step in journal["steps"] if step["step"] == "prefill"]
        assert [step["handed_on"] for step in steps] == [False], "one attempt was enough"
