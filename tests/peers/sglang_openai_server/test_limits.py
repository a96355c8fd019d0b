"""SGLang's cases of lengths, names, bad fields, usage in streams and reported cache hits."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest

from support.ported_cases import ported

MODEL = "tutored"
LENGTH = "test/registered/openai_server/validation/test_request_length_validation.py"
STRICT = "test/registered/openai_server/validation/test_strict_model_validation.py"
EOS = "test/registered/openai_server/validation/test_openai_server_ignore_eos.py"
USAGE = "test/srt/openai_server/features/test_continuous_usage_stats.py"
CACHE = "test/srt/openai_server/features/test_cache_report.py"


def user(content: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": content}]


@pytest.fixture(scope="session")
def short_engine(start_engine) -> str:
    """An engine for 1,000 tokens."""
    return start_engine(context_length=1000, kv_tokens=1024)


async def refused_length(url: str, text: str, **fields: Any) -> str:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0) as client:
        with pytest.raises(openai.BadRequestError) as refused:
            await client.chat.completions.create(model=MODEL, messages=user(text), temperature=0, **fields)
    return str(refused.value)


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        pytest.param(1200, {}, id="test_input_length_longer_than_context_length"),
        pytest.param(999, {}, id="test_input_length_longer_than_maximum_allowed_length"),
        pytest.param(1200, {"stream": True}, id="test_input_length_longer_than_context_length_streaming"),
    ],
)
@ported(LENGTH, "TestRequestLengthValidation")
async def test_a_prompt_that_is_too_long(short_engine: str, words: int, fields: dict[str, Any]):
    message = await refused_length(short_engine, "hello " * words, **fields)
    assert "is longer than the model's context length" in message


@ported(LENGTH, "TestRequestLengthValidation.test_max_tokens_validation")
async def test_an_answer_that_would_be_too_long(short_engine: str):
    message = await refused_length(short_engine, "hello ", max_tokens=1200)
    assert "max_completion_tokens is too large" in message


async def probe(http: httpx.AsyncClient, ids: Any, text: Any = "hi") -> httpx.Response:
    asked = {
        "text": text,
        "sampling_params": {"max_new_tokens": 1},
        "return_logprob": True,
        "token_ids_logprob": ids,
    }
    return await http.post("/generate", json=asked)


@ported(LENGTH, "TestRequestLengthValidation.test_token_ids_logprob_out_of_vocabulary")
async def test_a_probe_beyond_the_vocabulary(http: httpx.AsyncClient):
    for ids in ([-1], [2_000_000_000]):
        response = await probe(http, ids)
        assert response.status_code == 400
        assert "out-of-vocabulary" in response.text


@ported(LENGTH, "TestRequestLengthValidation.test_token_ids_logprob_rejects_nested_list")
async def test_probes_in_lists_of_lists(http: httpx.AsyncClient):
    for ids in ([[0]], [[0], [1, 2]]):
        response = await probe(http, ids)
        assert response.status_code == 400
        assert "flat list of integers" in response.text


@ported(LENGTH, "TestRequestLengthValidation.test_token_ids_logprob_batch_with_one_oov")
async def test_one_probe_of_several_beyond_the_vocabulary(http: httpx.AsyncClient):
    response = await probe(http, [[0], [2_000_000_000]], ["hi", "hi"])
    assert response.status_code == 400
    assert "out-of-vocabulary" in response.text


@ported(LENGTH, "TestRequestLengthValidation.test_token_ids_logprob_valid")
async def test_a_probe(http: httpx.AsyncClient):
    assert (await probe(http, [0])).status_code == 200


@ported(STRICT, "TestStrictModelValidation.test_invalid_model_name_chat")
async def test_a_chat_with_a_wrong_name(client: openai.AsyncOpenAI):
    with pytest.raises(openai.BadRequestError) as refused:
        await client.chat.completions.create(model="wrong_model_name", messages=user("hi"))
    assert "The model `wrong_model_name` does not exist" in str(refused.value)
    assert f"The served model name is `{MODEL}`" in str(refused.value)


@ported(STRICT, "TestStrictModelValidation.test_invalid_model_name_completion")
async def test_a_completion_with_a_wrong_name(client: openai.AsyncOpenAI):
    with pytest.raises(openai.BadRequestError) as refused:
        await client.completions.create(model="wrong_model_name", prompt="hi")
    assert "The model `wrong_model_name` does not exist" in str(refused.value)


@ported(STRICT, "TestStrictModelValidation.test_valid_model_name_chat")
async def test_a_chat_with_the_right_name(client: openai.AsyncOpenAI):
    await client.chat.completions.create(model=MODEL, messages=user("hi"), max_tokens=5)


@ported(STRICT, "TestStrictModelValidation.test_lora_model_name")
async def test_a_chat_with_an_adapter(client: openai.AsyncOpenAI):
    try:
        await client.chat.completions.create(model=f"{MODEL}:some_adapter", messages=user("hi"), max_tokens=5)
    except openai.BadRequestError as error:
        assert "does not exist" not in str(error)
        assert "LoRA is not enabled" in str(error)


@ported(EOS, "TestOpenAIServerIgnoreEOS.test_ignore_eos")
async def test_an_end_that_is_ignored(client: openai.AsyncOpenAI, tokenizer):
    system = {"role": "system", "content": "You are a helpful assistant."}
    choices = []
    for ignored in (False, True):
        answer = await client.chat.completions.create(
            model=MODEL,
            messages=[system, *user("Count from 1 to 20.")],
            temperature=0,
            max_tokens=200,
            extra_body={"ignore_eos": ignored},
        )
        choices.append(answer.choices[0])
    ended, went_on = (len(tokenizer.encode(choice.message.content)) for choice in choices)
    assert went_on > ended or went_on >= 200
    assert choices[1].finish_reason == "length"


async def chunks_of(client: openai.AsyncOpenAI, question: str, continuous: bool) -> list[Any]:
    stream = await client.chat.completions.create(
        model=MODEL,
        messages=user(question),
        stream=True,
        max_tokens=30,
        temperature=0,
        stream_options={"include_usage": True, "continuous_usage_stats": continuous},
    )
    return [chunk async for chunk in stream]


@pytest.mark.parametrize(
    "question",
    [
        pytest.param("What is machine learning?", id="test_continuous_usage_stats_enabled"),
        pytest.param("What is deep learning?", id="test_continuous_usage_stats_async"),
    ],
)
@ported(USAGE, "TestContinuousUsageStats")
async def test_usage_in_every_chunk(client: openai.AsyncOpenAI, question: str):
    chunks = await chunks_of(client, question, continuous=True)
    told = [chunk.usage for chunk in chunks if chunk.usage]
    said = [chunk for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
    assert len(said) > 0
    assert len(told) >= len(said)
    assert told[-1].prompt_tokens > 0
    assert told[-1].completion_tokens > 0
    assert told[-1].total_tokens == told[-1].prompt_tokens + told[-1].completion_tokens


@ported(USAGE, "TestContinuousUsageStats.test_continuous_usage_stats_disabled")
async def test_usage_in_the_last_chunk(client: openai.AsyncOpenAI):
    told = [chunk for chunk in await chunks_of(client, "What is AI?", continuous=False) if chunk.usage]
    assert len(told) == 1
    assert len(told[0].choices) == 0


@pytest.fixture(scope="session")
def caching_engine(start_engine) -> str:
    """An engine that caches token by token, as SGLang does by default, and reads prompts in pieces of 40."""
    return start_engine(page_size=1, max_batch_tokens=40)


@pytest.fixture
async def caching(caching_engine: str):
    async with openai.AsyncOpenAI(base_url=f"{caching_engine}/v1", api_key="unused", max_retries=0) as client:
        yield client


async def usage_of(caching: openai.AsyncOpenAI, content: str, **fields: Any) -> tuple[int, int]:
    """The cached tokens of a chat's prompt, and all of them."""
    asked = {"model": MODEL, "messages": user(content), "temperature": 0, "max_tokens": 100} | fields
    usage = (await caching.chat.completions.create(**asked)).usage
    return usage.prompt_tokens_details.cached_tokens, usage.prompt_tokens


@pytest.fixture
async def min_cached(caching: openai.AsyncOpenAI) -> int:
    """Tokens of the template, which any two chats share."""
    template = (await usage_of(caching, "1"))[1] - 1
    shared = (await usage_of(caching, "2"))[0]
    assert shared <= template
    return max(shared, template - shared)


@ported(CACHE, "TestCacheReport.test_generate")
async def test_a_prompt_that_is_asked_again(caching_engine: str, min_cached: int):
    asked = {
        "text": "_ The capital of France is",
        "sampling_params": {"temperature": 0, "max_new_tokens": 128, "stop_token_ids": [119690]},
    }
    async with httpx.AsyncClient(base_url=caching_engine, timeout=60) as http:
        first, second = [(await http.post("/generate", json=asked)).json()["meta_info"] for _ in range(2)]
    assert first["cached_tokens"] < min_cached
    assert second["cached_tokens"] == second["prompt_tokens"] - 1


@ported(CACHE, "TestCacheReport.test_cache_split_prefill_openai")
async def test_a_prompt_that_is_read_in_pieces(caching: openai.AsyncOpenAI, min_cached: int):
    text = "€ This text is long and read in several pieces, each no longer than forty tokens. " * 4
    cached, _ = await usage_of(caching, text)
    assert cached <= min_cached
    cached, length = await usage_of(caching, text)
    assert cached > 0
    assert cached == length - 1


@ported(CACHE, "TestCacheReport.test_cache_report_openai")
async def test_prompts_that_begin_alike(caching: openai.AsyncOpenAI, min_cached: int):
    await usage_of(caching, "Introduce the capital of France.")
    first, _ = await usage_of(caching, "How many sparrow do you need to lift a coconut?")
    second, length = await usage_of(caching, "* sing something about cats")
    assert first == second
    await usage_of(caching, "* sing something about cats and dogs")
    cached, _ = await usage_of(caching, "* sing something about cats, please")
    assert cached >= length - min_cached


@ported(CACHE, "TestCacheReport.test_cache_salt_effectiveness")
async def test_salted_prompts_are_cached_apart(caching: openai.AsyncOpenAI, min_cached: int):
    async def salted(salt: str) -> tuple[int, int]:
        fields = {"max_tokens": 10, "extra_body": {"cache_salt": salt}}
        return await usage_of(caching, "What is the capital of Japan?", **fields)

    first, _ = await salted("salt1")
    again, length = await salted("salt1")
    assert again > first
    assert again == length - 1
    other, _ = await salted("salt2")
    assert other <= first + min_cached
    assert (await salted("salt2"))[0] == length - 1
