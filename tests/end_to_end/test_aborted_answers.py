"""Real engines that abort in the middle of an answer: the client sees the answer it would have had."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from support.engine_process import engine_process
from support.generate_worker import until_idle
from support.running_gateway import RunningGateway, running_gateway

PROMPT = list(range(300, 330))
SAMPLING = {"temperature": 0, "max_new_tokens": 200, "ignore_eos": True}
ASK = {"input_ids": PROMPT, "sampling_params": SAMPLING, "return_logprob": True, "top_logprobs_num": 2}


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    with engine_process() as (url, _):
        yield url


@pytest.fixture
async def gateway(engine: str):
    async with running_gateway(engine, trajectories={"enabled": True}) as running:
        yield running
        await until_idle(running)


async def uninterrupted(gateway: RunningGateway, engine: str, **fields: Any) -> Any:
    async with gateway.client.post(engine + "/generate", json=ASK | fields) as response:
        return await response.json()


async def decoding(gateway: RunningGateway, engine: str, tokens: int = 20) -> None:
    """Wait until so many more tokens have been sampled."""

    async def generated() -> int:
        async with gateway.client.get(engine + "/server_info") as response:
            return (await response.json())["stats"]["generated_tokens"]

    enough = await generated() + tokens
    while await generated() < enough:
        pass


async def tell(gateway: RunningGateway, url: str, **fields: Any) -> Any:
    async with gateway.client.post(url, json=fields) as response:
        assert response.status == 200, await response.text()
        return await response.json()


def assert_same(answer: Any, expected: Any) -> None:
    """Token for token, logprob for logprob, character for character."""
    assert answer["output_ids"] == expected["output_ids"] and answer["text"] == expected["text"]
    meta, expected_meta = answer["meta_info"], expected["meta_info"]
    for name in ("prompt_tokens", "completion_tokens", "finish_reason"):
        assert meta[name] == expected_meta[name]
    for name in ("output_token_logprobs", "output_top_logprobs"):
        assert len(meta[name]) == len(expected_meta[name]) == len(expected["output_ids"])
    for own, reference in zip(
        meta["output_token_logprobs"], expected_meta["output_token_logprobs"], strict=True
    ):
        assert own[1] == reference[1] and own[0] == pytest.approx(reference[0], abs=1e-4)


@pytest.mark.parametrize(
    "prompt",
    [
        {"input_ids": PROMPT},
        pytest.param({"input_ids": None, "text": "A radix tree"}, marks=pytest.mark.slow),
    ],
)
async def test_an_answer_aborted_twice_is_the_answer_uninterrupted(gateway, engine, prompt):
    fields = {name: value for name, value in (ASK | prompt).items() if value is not None}
    async with gateway.client.post(engine + "/generate", json=fields) as response:
        expected = await response.json()
    asking = asyncio.create_task(gateway.post("/generate", fields | {"rid": "one"}))
    for _ in range(2):
        await decoding(gateway, engine)
        while (await tell(gateway, engine + "/abort_request", rid="one"))["aborted"] == 0:
            pass
    status, answer, _ = await asking
    assert status == 200 and answer["meta_info"]["resumed"] == 2
    assert_same(answer, expected)


async def test_a_stream_aborted_in_the_middle_is_the_stream_uninterrupted(gateway, engine):
    expected = await uninterrupted(gateway, engine)
    events = []
    async with gateway.client.post(
        gateway.url + "/generate", json=ASK | {"stream": True, "rid": "s"}
    ) as answer:
        async for line in answer.content:
            if line.startswith(b"data: {"):
                events.append(json.loads(line[5:]))
                if len(events) == 5:
                    await tell(gateway, engine + "/abort_request", rid="s")
    assert events[-1]["meta_info"]["resumed"] == 1
    assert_same(events[-1], expected)
    for earlier, later in pairwise(events):
        assert later["output_ids"][: len(earlier["output_ids"])] == earlier["output_ids"]
        assert later["text"].startswith(earlier["text"])


async def test_each_part_keeps_the_version_of_the_weights_that_made_it(gateway, engine):
    expected = await uninterrupted(gateway, engine)
    before = expected["meta_info"]["weight_version"]
    asking = asyncio.create_task(gateway.post("/generate", ASK))
    await decoding(gateway, engine)
    await tell(gateway, gateway.url + "/update_weight_version", new_version="next")  # ends all requests
    _, answer, _ = await asking
    assert_same(answer, expected)
    first, second = answer["meta_info"]["weight_versions"]
    assert (first["version"], first["start"]) == (before, 0)
    assert second == {"version": "next", "start": first["end"], "end": 200} and 0 < first["end"] < 200
    assert answer["meta_info"]["weight_version"] == "next"


async def test_a_paused_fleet_holds_the_next_attempt_until_it_goes_on(gateway, engine):
    expected = await uninterrupted(gateway, engine)
    asking = asyncio.create_task(gateway.post("/generate", ASK))
    await decoding(gateway, engine)
    await tell(gateway, gateway.url + "/pause_generation", mode="abort")
    while (await tell_info(gateway, engine))["waiting"] == 0:
        pass
    assert not asking.done()
    await tell(gateway, gateway.url + "/continue_generation")
    _, answer, _ = await asking
    assert_same(answer, expected)
    assert answer["meta_info"]["resumed"] == 1


async def tell_info(gateway: RunningGateway, engine: str) -> Any:
    async with gateway.client.get(engine + "/server_info") as response:
        return await response.json()


@pytest.mark.parametrize("call", [{"rid": "mine"}, {"abort_all": True}])
async def test_what_the_client_aborts_stays_aborted(gateway, engine, call):
    asking = asyncio.create_task(gateway.post("/generate", ASK | {"rid": "mine"}))
    await decoding(gateway, engine)
    await tell(gateway, gateway.url + "/abort_request", **call)
    status, answer, _ = await asking
    assert status == 200 and answer["meta_info"]["finish_reason"]["type"] == "abort"
    assert 0 < len(answer["output_ids"]) < 200 and "resumed" not in answer["meta_info"]


async def test_a_client_that_leaves_frees_the_engine(gateway, engine):
    asking = asyncio.create_task(gateway.post("/generate", ASK))
    await decoding(gateway, engine)
    asking.cancel()
    await until_idle(gateway)
    while (info := await tell_info(gateway, engine))["running"] + info["waiting"]:
        pass


async def test_an_answer_of_many_bytes_a_character_has_whole_characters_at_every_seam(gateway, engine):
    fields = {"text": "什么是基数树？" * 3, "sampling_params": SAMPLING | {"max_new_tokens": 60}}
    async with gateway.client.post(engine + "/generate", json=fields) as response:
        expected = await response.json()
    asking = asyncio.create_task(gateway.post("/generate", fields | {"rid": "cjk"}))
    for _ in range(3):
        await decoding(gateway, engine, tokens=7)
        await tell(gateway, engine + "/abort_request", rid="cjk")
    _, answer, _ = await asking
    assert answer["output_ids"] == expected["output_ids"] and answer["text"] == expected["text"]
