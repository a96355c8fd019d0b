"""vLLM's cases of `/v1/completions`."""

from __future__ import annotations

import re
from typing import Any

import openai
import pytest

from support.ported_cases import ported

MODEL = "tutored"
SOURCE = "tests/entrypoints/openai/completion/test_completion.py"
PROMPTS = "tests/entrypoints/openai/completion/test_prompt_validation.py"
ZEROS = [0, 0, 0, 0, 0]
HELLO = "Hello, my name is"
QUESTION = "What is an LLM?"


async def complete(client: openai.AsyncOpenAI, prompt: Any = ZEROS, **fields: Any) -> Any:
    fields = {"max_tokens": 5, "temperature": 0.0} | fields
    return await client.completions.create(model=MODEL, prompt=prompt, **fields)


@ported(SOURCE, "test_single_completion")
async def test_one_completion(start_engine, tokenizer):
    url = start_engine(radix_cache=False)
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0) as client:
        answer = await complete(client, HELLO)
        assert answer.id is not None
        assert answer.choices is not None and len(answer.choices) == 1
        choice = answer.choices[0]
        assert len(choice.text) >= 5
        assert choice.finish_reason == "length"
        prompt_tokens = len(tokenizer.encode(HELLO))
        assert answer.usage.completion_tokens == 5
        assert answer.usage.prompt_tokens == prompt_tokens
        assert answer.usage.total_tokens == prompt_tokens + 5
        assert answer.usage.prompt_tokens_details is not None
        assert answer.usage.prompt_tokens_details.cached_tokens == 0

        of_ids = await complete(client, ZEROS)
        assert len(of_ids.choices[0].text) >= 1
        assert of_ids.choices[0].prompt_logprobs is None


@ported(SOURCE, "test_completion_truncation_side_controls_prompt_truncation")
async def test_the_side_on_which_a_prompt_is_cut(client: openai.AsyncOpenAI):
    prompt = [*range(8)]
    for side, kept in (("right", prompt[:4]), ("left", prompt[-4:])):
        fields = {"return_token_ids": True, "truncate_prompt_tokens": 4, "truncation_side": side}
        answer = await complete(client, prompt, max_tokens=1, extra_body=fields)
        assert answer.choices[0].prompt_token_ids == kept


@ported(SOURCE, "test_no_logprobs")
async def test_a_completion_without_logprobs(client: openai.AsyncOpenAI):
    assert (await complete(client, logprobs=None)).choices[0].logprobs is None


@ported(SOURCE, "test_zero_logprobs")
async def test_logprobs_of_the_chosen_tokens_alone(client: openai.AsyncOpenAI):
    logprobs = (await complete(client, logprobs=0)).choices[0].logprobs
    assert logprobs is not None
    assert logprobs.token_logprobs is not None
    assert logprobs.top_logprobs is not None
    assert len(logprobs.top_logprobs[0]) == 1


@ported(SOURCE, "test_some_logprobs")
async def test_logprobs_of_five_tokens(client: openai.AsyncOpenAI):
    logprobs = (await complete(client, logprobs=5)).choices[0].logprobs
    assert logprobs is not None
    assert logprobs.token_logprobs is not None
    assert logprobs.top_logprobs is not None
    assert 5 <= len(logprobs.top_logprobs[0]) <= 6


@ported(SOURCE, "test_too_many_completion_logprobs")
async def test_more_than_twenty_logprobs_are_refused(client: openai.AsyncOpenAI):
    with pytest.raises((openai.BadRequestError, openai.APIError)):
        await complete(client, logprobs=21)
    with pytest.raises((openai.BadRequestError, openai.APIError)):
        async for _ in await complete(client, logprobs=30, stream=True):
            pass
    assert (await complete(client)).choices[0].text is not None


@ported(SOURCE, "test_prompt_logprobs_completion")
@pytest.mark.parametrize("prompt_logprobs", [-1, 0, 1, None])
async def test_logprobs_of_prompts(client: openai.AsyncOpenAI, prompt_logprobs: int | None):
    asked: dict[str, Any] = {"prompt": ["A robot may not injure another robot", "My name is"]}
    if prompt_logprobs is not None:
        asked["extra_body"] = {"prompt_logprobs": prompt_logprobs}
    if prompt_logprobs == -1:
        with pytest.raises(openai.BadRequestError):
            await client.completions.create(model=MODEL, **asked)
        return
    answer = await client.completions.create(model=MODEL, **asked)
    if prompt_logprobs is None:
        assert answer.choices[0].prompt_logprobs is None
        return
    for choice in answer.choices[:2]:
        assert choice.prompt_logprobs is not None
        assert len(choice.prompt_logprobs) > 0


@ported(SOURCE, "test_completion_streaming")
async def test_a_stream_says_what_the_whole_completion_says(client: openai.AsyncOpenAI):
    whole = (await complete(client, "What is the capital of France?")).choices[0].text
    texts: list[str] = []
    finished = 0
    async for chunk in await complete(client, "What is the capital of France?", stream=True):
        texts.append(chunk.choices[0].text)
        finished += chunk.choices[0].finish_reason is not None
    assert finished == 1
    assert chunk.choices[0].finish_reason == "length"
    assert chunk.choices[0].text
    assert "".join(texts) == whole


SAMPLED = {"max_tokens": 50, "n": 3, "temperature": 1.0, "seed": 42}


@ported(SOURCE, "test_parallel_no_streaming")
async def test_three_samples(client: openai.AsyncOpenAI):
    answer = await complete(client, QUESTION, **SAMPLED, logprobs=0)
    assert len(answer.choices) == 3
    lengths = set()
    for index, choice in enumerate(answer.choices):
        assert choice.index == index
        assert choice.finish_reason is not None
        lengths.add(len(choice.logprobs.tokens))
    assert len(lengths) > 1
    assert len({choice.text for choice in answer.choices}) == 3


@ported(SOURCE, "test_parallel_streaming")
async def test_three_samples_in_a_stream(client: openai.AsyncOpenAI):
    chunks: list[list[str]] = [[], [], []]
    finished = 0
    async for chunk in await complete(client, QUESTION, **SAMPLED, stream=True):
        chunks[chunk.choices[0].index].append(chunk.choices[0].text)
        finished += chunk.choices[0].finish_reason is not None
    assert finished == 3
    lengths = {len(texts) for texts in chunks}
    assert max(lengths) <= 50
    assert len(lengths) > 1
    assert len({"".join(texts) for texts in chunks}) == 3


@ported(SOURCE, "test_completion_stream_options")
async def test_usage_in_streams(client: openai.AsyncOpenAI):
    prompt = "What is the capital of France?"

    def consistent(usage: Any) -> bool:
        total = usage.prompt_tokens + usage.completion_tokens
        return usage.prompt_tokens > 0 and usage.completion_tokens > 0 and usage.total_tokens == total

    for options in ({"include_usage": False, "continuous_usage_stats": each} for each in (False, True)):
        async for chunk in await complete(client, prompt, stream=True, stream_options=options):
            assert chunk.usage is None

    for each in (False, True):
        options = {"include_usage": True, "continuous_usage_stats": each}
        stream = await complete(client, prompt, stream=True, stream_options=options)
        async for chunk in stream:
            assert consistent(chunk.usage) if each else chunk.usage is None
            if chunk.choices[0].finish_reason is not None:
                last = await anext(stream)
                assert consistent(last.usage)
                assert last.choices == []

    async for chunk in await complete(client, prompt, stream=True, stream_options={}):
        assert chunk.usage is None

    for name in ("include_usage", "continuous_usage_stats"):
        for value in (None, True):
            with pytest.raises(openai.BadRequestError):
                await complete(client, prompt, stream=False, stream_options={name: value})


@ported(SOURCE, "test_batch_completions")
async def test_several_prompts(client: openai.AsyncOpenAI):
    for prompts in ([HELLO] * 2, [ZEROS] * 2):
        batch = await complete(client, prompts)
        assert len(batch.choices) == 2
        assert batch.choices[0].text == batch.choices[1].text

        beams = await complete(client, prompts, n=2, extra_body={"use_beam_search": True})
        texts = [choice.text for choice in beams.choices]
        assert len(texts) == 4
        assert texts[0] != texts[1]
        assert texts[:2] == texts[2:]

        streamed = ["", ""]
        async for chunk in await complete(client, prompts, stream=True):
            assert len(chunk.choices) == 1
            streamed[chunk.choices[0].index] += chunk.choices[0].text
        assert streamed[0] == streamed[1]


@ported(SOURCE, "test_echo_logprob_completion")
@pytest.mark.parametrize("logprobs", [1, 0])
async def test_logprobs_of_an_echoed_prompt(client: openai.AsyncOpenAI, tokenizer, logprobs: int):
    for prompt in (HELLO, ZEROS):
        choice = (await complete(client, prompt, echo=True, logprobs=logprobs)).choices[0]
        text = prompt if isinstance(prompt, str) else tokenizer.decode(prompt)
        assert re.search(f"^{text}", choice.text)
        told = choice.logprobs
        assert told is not None
        assert len(told.text_offset) > 5
        assert len(told.token_logprobs) > 5
        assert told.token_logprobs[0] is None
        assert len(told.top_logprobs) > 5
        assert told.top_logprobs[0] is None
        for tops in told.top_logprobs[1:]:
            assert max(logprobs, 1) <= len(tops) <= logprobs + 1
        assert len(told.tokens) > 5


@ported(PROMPTS, "test_empty_prompt")
async def test_neither_a_prompt_nor_embeddings(client: openai.AsyncOpenAI):
    said = "Either prompt or prompt_embeds must be provided and non-empty."
    with pytest.raises(openai.BadRequestError, match=said):
        await complete(client, None, extra_body={"prompt_embeds": []})


@ported(PROMPTS, "test_out_of_vocab_token_ids")
async def test_tokens_beyond_the_vocabulary(client: openai.AsyncOpenAI):
    with pytest.raises(openai.BadRequestError, match="out of vocabulary"):
        await complete(client, [999999])
