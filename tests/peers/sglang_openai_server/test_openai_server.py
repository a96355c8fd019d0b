"""SGLang's basic cases of completions, chats and models."""

from __future__ import annotations

import itertools
import json
from typing import Any

import httpx
import openai
import pytest

from support.ported_cases import ported

MODEL = "tutored"
SOURCE = "test/registered/openai_server/basic/test_openai_server.py"
PROMPT = "The capital of France is"
WAYS = [*itertools.product([False, True], [None, 5], [True, False], [1, 2], [False, True])]
"""With echo or without, logprobs, a list of prompts, choices of each, prompts as tokens."""
SYSTEM = {"role": "system", "content": "You are a helpful AI assistant"}
REGEX = '\\{\n   "name": "[\\w]+",\n   "population": [\\d]+\n\\}'
PRODUCT = """
Extract the name, size, price, and color from this product description as a JSON object:

<description>
The SmartHome Mini is a compact smart home assistant available in black or white for only $49.99. At just 5 \
inches wide, it lets you control lights, thermostats, and other connected devices via voice or app—no matter \
where you place it in your home. This affordable little hub brings convenient hands-free control to your \
smart devices.
</description>
"""


def user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


def prompts(tokenizer: Any, several: bool, as_tokens: bool) -> tuple[Any, int, int]:
    """What to send, how many prompts it is and how many tokens."""
    ids = tokenizer.encode(PROMPT)
    one = ids if as_tokens else PROMPT
    return ([one, one], 2, 2 * len(ids)) if several else (one, 1, len(ids))


@ported(SOURCE, "TestOpenAIServer.test_completion")
async def test_completions_in_every_way(client: openai.AsyncOpenAI, tokenizer):
    for echo, logprobs, several, n, as_tokens in WAYS:
        prompt, number, tokens = prompts(tokenizer, several, as_tokens)
        answer = await client.completions.create(
            model=MODEL, prompt=prompt, temperature=0, max_tokens=32, echo=echo, logprobs=logprobs, n=n
        )
        assert len(answer.choices) == number * n
        first = answer.choices[0]
        if echo:
            assert first.text.startswith(PROMPT)
        if logprobs:
            assert isinstance(first.logprobs.tokens[0], str)
            assert isinstance(first.logprobs.top_logprobs[1], dict)
            assert len(first.logprobs.top_logprobs[1]) > 0
            if not echo:
                assert first.logprobs.token_logprobs[0]
        assert answer.id
        assert answer.created
        assert answer.usage.prompt_tokens == tokens
        assert answer.usage.completion_tokens > 0
        assert answer.usage.total_tokens > 0


@ported(SOURCE, "TestOpenAIServer.test_completion_stream")
async def test_completions_as_streams_in_every_way(client: openai.AsyncOpenAI, tokenizer):
    for echo, logprobs, several, n, as_tokens in WAYS:
        prompt, number, _ = prompts(tokenizer, several, as_tokens)
        stream = await client.completions.create(
            model=MODEL,
            prompt=prompt,
            temperature=0,
            max_tokens=32,
            echo=echo,
            logprobs=logprobs,
            stream=True,
            stream_options={"include_usage": True},
            n=n,
        )
        seen: set[int] = set()
        async for chunk in stream:
            if chunk.usage is not None:
                assert chunk.usage.prompt_tokens > 0
                assert chunk.usage.completion_tokens > 0
                assert chunk.usage.total_tokens > 0
                continue
            choice = chunk.choices[0]
            is_first = choice.index not in seen
            if logprobs:
                assert choice.logprobs, "no logprobs in a chunk"
                assert isinstance(choice.logprobs.tokens[0], str)
                if not (is_first and echo):
                    assert isinstance(choice.logprobs.top_logprobs[0], dict)
                    assert len(choice.logprobs.top_logprobs[0]) > 0
            if is_first and echo:
                assert choice.text.startswith(PROMPT)
            seen.add(choice.index)
            assert chunk.id
            assert chunk.created
        assert seen == {*range(n * number)}


@ported(SOURCE, "TestOpenAIServer.test_chat_completion")
async def test_chats_in_every_way(client: openai.AsyncOpenAI):
    for logprobs, n in itertools.product([None, 5], [1, 2]):
        answer = await client.chat.completions.create(
            model=MODEL,
            messages=[SYSTEM, user("What is the capital of France? Answer in a few words.")],
            temperature=0,
            logprobs=logprobs is not None,
            top_logprobs=logprobs,
            n=n,
        )
        first = answer.choices[0]
        if logprobs:
            tops = first.logprobs.content[0].top_logprobs
            assert isinstance(tops[0].token, str)
            assert len(tops) == logprobs
        assert len(answer.choices) == n
        assert first.message.role == "assistant"
        assert isinstance(first.message.content, str)
        assert answer.id
        assert answer.created
        assert answer.usage.prompt_tokens > 0
        assert answer.usage.completion_tokens > 0
        assert answer.usage.total_tokens > 0


@ported(SOURCE, "TestOpenAIServer.test_chat_completion_stream")
async def test_chats_as_streams_in_every_way(client: openai.AsyncOpenAI):
    for logprobs, n in itertools.product([None, 5], [1, 2]):
        stream = await client.chat.completions.create(
            model=MODEL,
            messages=[SYSTEM, user("What is the capital of France?")],
            temperature=0,
            logprobs=logprobs is not None,
            top_logprobs=logprobs,
            stream=True,
            stream_options={"include_usage": True},
            n=n,
        )
        seen: set[int] = set()
        finished = dict.fromkeys(range(n), 0)
        async for chunk in stream:
            if chunk.usage is not None:
                assert chunk.usage.prompt_tokens > 0
                assert chunk.usage.completion_tokens > 0
                assert chunk.usage.total_tokens > 0
                continue
            choice = chunk.choices[0]
            finished[choice.index] += choice.finish_reason is not None
            if choice.index not in seen:
                assert choice.delta.role == "assistant"
                seen.add(choice.index)
                continue
            if logprobs and not finished[choice.index]:
                assert choice.logprobs
                tops = choice.logprobs.content[0].top_logprobs
                assert isinstance(tops, list)
                assert isinstance(tops[0].token, str)
                assert len(tops) == logprobs
            delta = choice.delta
            assert isinstance(delta.content, str) or delta.tool_calls or choice.finish_reason
            assert chunk.id
            assert chunk.created
        assert seen == {*range(n)}
        assert finished == dict.fromkeys(range(n), 1)


@ported(SOURCE, "TestOpenAIServer.test_regex")
async def test_an_answer_of_a_regular_expression(client: openai.AsyncOpenAI):
    answer = await client.chat.completions.create(
        model=MODEL,
        messages=[SYSTEM, user("Introduce the capital of France.")],
        temperature=0,
        max_tokens=128,
        extra_body={"regex": REGEX},
    )
    document = json.loads(answer.choices[0].message.content)
    assert isinstance(document["name"], str)
    assert isinstance(document["population"], int)


@ported(SOURCE, "TestOpenAIServer.test_penalty")
async def test_a_penalty(client: openai.AsyncOpenAI):
    answer = await client.chat.completions.create(
        model=MODEL,
        messages=[SYSTEM, user("Introduce the capital of France.")],
        temperature=0,
        max_tokens=32,
        frequency_penalty=1.0,
    )
    assert isinstance(answer.choices[0].message.content, str)


@ported(SOURCE, "TestOpenAIServer.test_response_prefill")
async def test_an_answer_that_is_begun(client: openai.AsyncOpenAI):
    answer = await client.chat.completions.create(
        model=MODEL,
        messages=[SYSTEM, user(PRODUCT), {"role": "assistant", "content": "{\n"}],
        temperature=0,
        extra_body={"continue_final_message": True},
    )
    assert answer.choices[0].message.content.strip().startswith('"name": "SmartHome Mini",')


@ported(SOURCE, "TestOpenAIServer.test_model_list")
async def test_the_models_are_listed(client: openai.AsyncOpenAI):
    models = (await client.models.list()).data
    assert len(models) == 1
    assert isinstance(getattr(models[0], "max_model_len", None), int)


@ported(SOURCE, "TestOpenAIServer.test_retrieve_model")
async def test_a_models_card(client: openai.AsyncOpenAI):
    model = await client.models.retrieve(MODEL)
    assert model.id == MODEL
    assert model.root == MODEL
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("non-existent-model")


@pytest.fixture
def capitals(tokenizer) -> tuple[list[str], list[int]]:
    """Items to score, and the first token of each."""
    items = ["Paris", "London", "Berlin"]
    return items, [tokenizer.encode(item, add_special_tokens=False)[0] for item in items]


async def scores(http: httpx.AsyncClient, query: Any, items: Any, labels: list[int]) -> None:
    asked = {
        "model": MODEL,
        "query": query,
        "items": items,
        "label_token_ids": labels,
        "apply_softmax": True,
        "item_first": False,
    }
    result = (await http.post("/v1/score", json=asked)).json()
    assert len(result["scores"]) == len(items)
    for score in result["scores"]:
        assert len(score) == len(labels)
        assert all(isinstance(value, float) for value in score)
        assert sum(score) == pytest.approx(1.0, abs=1e-6)
    usage = result["usage"]
    assert usage["prompt_tokens"] > 0
    assert usage["prompt_tokens"] == usage["total_tokens"]
    assert usage["completion_tokens"] == 0


@ported(SOURCE, "TestOpenAIV1Score.test_score_text_input")
async def test_texts_are_scored(http: httpx.AsyncClient, capitals):
    items, labels = capitals
    await scores(http, PROMPT, items, labels)


@ported(SOURCE, "TestOpenAIV1Score.test_score_token_input")
async def test_tokens_are_scored(http: httpx.AsyncClient, capitals, tokenizer):
    items, labels = capitals
    ids = [tokenizer.encode(item, add_special_tokens=False) for item in items]
    await scores(http, tokenizer.encode(PROMPT, add_special_tokens=False), ids, labels)


@ported(SOURCE, "TestOpenAIV1Score.test_score_error_handling")
async def test_a_label_beyond_the_vocabulary(http: httpx.AsyncClient, capitals):
    asked = {"model": MODEL, "query": PROMPT, "items": capitals[0], "label_token_ids": [999999]}
    response = await http.post("/v1/score", json=asked | {"apply_softmax": True})
    assert response.status_code == 400
    assert response.json()["type"] == "BadRequestError"
    assert "Token ID 999999 is out of vocabulary" in response.json()["message"]
