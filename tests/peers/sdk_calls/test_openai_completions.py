"""Calls of OpenAI's client for completions, through the gateway."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from support.ported_cases import ported

ASKED: dict[str, Any] = {"model": "tutored", "prompt": "The capital of France is", "temperature": 0}


@pytest.fixture
async def loose_client(gateway: str):
    """A client that takes null for a finish_reason or a logprob: OpenAI sends it, its types lack it."""
    async with openai.AsyncOpenAI(base_url=f"{gateway}/v1", api_key="unused", max_retries=0) as client:
        yield client


@ported("openai", "completions.create")
async def test_a_completion(client: openai.AsyncOpenAI):
    answer = await client.completions.create(**ASKED)
    (choice,) = answer.choices
    assert choice.text.startswith(" Paris")
    assert (choice.finish_reason, answer.usage.completion_tokens) == ("length", 16)
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


@ported("openai", "completions.create(stream=True)")
async def test_a_streamed_completion(loose_client: openai.AsyncOpenAI):
    whole = await loose_client.completions.create(**ASKED)
    chunks = [chunk async for chunk in await loose_client.completions.create(**ASKED, stream=True)]
    text = "".join(choice.text for chunk in chunks for choice in chunk.choices)
    assert text == whole.choices[0].text
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason


@ported("openai", "completions.create(prompt=[…])")
async def test_several_prompts(client: openai.AsyncOpenAI):
    prompts = ["The capital of France is", "My name is"]
    answer = await client.completions.create(**ASKED | {"prompt": prompts})
    alone = [
        (await client.completions.create(**ASKED | {"prompt": each})).choices[0].text for each in prompts
    ]
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert [choice.text for choice in answer.choices] == alone


@ported("openai", "completions.create(echo, logprobs)")
async def test_an_echo_with_logprobs(loose_client: openai.AsyncOpenAI):
    answer = await loose_client.completions.create(**ASKED, echo=True, logprobs=2, max_tokens=3)
    (choice,) = answer.choices
    assert choice.text.startswith(ASKED["prompt"])
    logprobs = choice.logprobs
    assert "".join(logprobs.tokens) == choice.text
    assert logprobs.token_logprobs[0] is None and all(each <= 0 for each in logprobs.token_logprobs[1:])
    assert len(logprobs.tokens) == answer.usage.total_tokens


@ported("openai", "completions.create(n, stop, seed)")
async def test_several_choices(client: openai.AsyncOpenAI):
    answer = await client.completions.create(
        model="tutored", prompt="What is an LLM?", n=3, stop=["."], seed=1, temperature=1
    )
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert all("." not in choice.text for choice in answer.choices)
    assert len({choice.text for choice in answer.choices}) > 1


@ported("openai", "completions.with_raw_response.create")
async def test_a_raw_response(client: openai.AsyncOpenAI):
    raw = await client.completions.with_raw_response.create(**ASKED)
    assert raw.headers["content-type"] == "application/json"
    assert raw.parse().choices[0].text.startswith(" Paris")


@ported("openai", "completions.create: BadRequestError")
@pytest.mark.parametrize(("field", "value"), [("max_tokens", -1), ("logprobs", -1), ("prompt", {})])
async def test_bad_requests_name_the_field(client: openai.AsyncOpenAI, field: str, value: object):
    with pytest.raises(openai.BadRequestError) as refused:
        await client.completions.create(**(ASKED | {field: value}))
    assert refused.value.param == field
