"""vLLM's cases of `/v1/chat/completions`: logprobs, sessions, streams, roles and bad input."""

from __future__ import annotations

import httpx
import openai
import pytest

from support.ported_cases import ported

MODEL = "tutored"
SOURCE = "tests/entrypoints/openai/chat_completion/test_chat.py"
SUM = [
    {"role": "system", "content": "you are a helpful assistant"},
    {"role": "user", "content": "what is 1+1?"},
]
SERIES = [
    {"role": "system", "content": "You are a helpful assistant."},
    {"role": "user", "content": "Who won the world series in 2020?"},
    {"role": "assistant", "content": "The Los Angeles Dodgers won the World Series in 2020."},
    {"role": "user", "content": "Where was it played?"},
]
FRANCE = [
    {"role": "system", "content": "You are a helpful assistant."},
    {"role": "user", "content": "What is the capital of France?"},
]


def ask(content: object, role: str = "user") -> list[dict[str, object]]:
    return [{"role": role, "content": content}]


@ported(SOURCE, "test_no_logprobs_chat[base]")
async def test_a_chat_without_logprobs(client: openai.AsyncOpenAI):
    answer = await client.chat.completions.create(
        model=MODEL, messages=SUM, max_completion_tokens=5, temperature=0.0, logprobs=False
    )
    assert answer.choices[0].logprobs is None


@ported(SOURCE, "test_zero_logprobs_chat[base]")
async def test_logprobs_of_the_chosen_tokens_alone(client: openai.AsyncOpenAI):
    answer = await client.chat.completions.create(
        model=MODEL,
        messages=SUM,
        max_completion_tokens=5,
        temperature=0.0,
        logprobs=True,
        top_logprobs=0,
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None and logprobs.content is not None
    assert len(logprobs.content[0].top_logprobs) == 0


@ported(SOURCE, "test_some_logprobs_chat[base]")
async def test_logprobs_of_five_tokens(client: openai.AsyncOpenAI):
    answer = await client.chat.completions.create(
        model=MODEL,
        messages=SUM,
        max_completion_tokens=5,
        temperature=0.0,
        logprobs=True,
        top_logprobs=5,
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None and logprobs.content is not None
    assert len(logprobs.content[0].top_logprobs) == 5


@ported(SOURCE, "test_too_many_chat_logprobs[base]")
async def test_more_than_twenty_logprobs_are_refused(client: openai.AsyncOpenAI):
    with pytest.raises((openai.BadRequestError, openai.APIError)):
        stream = await client.chat.completions.create(
            model=MODEL,
            messages=SUM,
            max_completion_tokens=10,
            logprobs=True,
            top_logprobs=21,
            stream=True,
        )
        async for _ in stream:
            pass
    with pytest.raises(openai.BadRequestError):
        await client.chat.completions.create(
            model=MODEL, messages=SUM, max_completion_tokens=10, logprobs=True, top_logprobs=30
        )
    answer = await client.chat.completions.create(model=MODEL, messages=SUM, max_completion_tokens=10)
    assert answer.choices[0].message.content is not None


@ported(SOURCE, "test_prompt_logprobs_chat")
@pytest.mark.parametrize("prompt_logprobs", [1, 0, -1, None])
async def test_logprobs_of_the_prompt(client: openai.AsyncOpenAI, prompt_logprobs: int | None):
    asked = {} if prompt_logprobs is None else {"extra_body": {"prompt_logprobs": prompt_logprobs}}
    if prompt_logprobs == -1:
        with pytest.raises(openai.BadRequestError):
            await client.chat.completions.create(model=MODEL, messages=SERIES, **asked)
        return
    answer = await client.chat.completions.create(model=MODEL, messages=SERIES, **asked)
    if prompt_logprobs is None:
        assert answer.prompt_logprobs is None
    else:
        assert answer.prompt_logprobs is not None
        assert len(answer.prompt_logprobs) > 0


@ported(SOURCE, "test_more_than_one_prompt_logprobs_chat")
async def test_as_many_logprobs_of_the_prompt_as_asked(client: openai.AsyncOpenAI):
    for wanted in (1, 2):
        answer = await client.chat.completions.create(
            model=MODEL, messages=SERIES, extra_body={"prompt_logprobs": wanted}
        )
        # The prompt's own token is told too where it is none of the likeliest.
        likeliest = [entry for entry in answer.prompt_logprobs[3].values() if entry["rank"] <= wanted]
        assert len(likeliest) == wanted
        assert len(answer.prompt_logprobs[3]) <= wanted + 1


@ported(SOURCE, "test_single_chat_session[base]")
async def test_a_session_of_two_turns(client: openai.AsyncOpenAI, http: httpx.AsyncClient):
    counted = await http.post("/tokenize", json={"model": MODEL, "messages": SUM})
    prompt_tokens = counted.json()["count"]
    answer = await client.chat.completions.create(
        model=MODEL, messages=SUM, max_completion_tokens=5, logprobs=True, top_logprobs=5
    )
    assert answer.id is not None
    assert len(answer.choices) == 1
    choice = answer.choices[0]
    assert choice.finish_reason == "length"
    assert answer.usage == openai.types.CompletionUsage(
        completion_tokens=5, prompt_tokens=prompt_tokens, total_tokens=prompt_tokens + 5
    )
    message = choice.message
    assert message.content is not None and len(message.content) >= 5
    assert message.role == "assistant"
    more = [*SUM, {"role": "assistant", "content": message.content}, *ask("express your result in json")]
    answer = await client.chat.completions.create(model=MODEL, messages=more, max_completion_tokens=5)
    assert answer.choices[0].message.content is not None


@ported(SOURCE, "test_chat_streaming[base]")
async def test_a_stream_says_what_the_whole_answer_says(client: openai.AsyncOpenAI):
    whole = await client.chat.completions.create(
        model=MODEL, messages=SUM, max_completion_tokens=10, temperature=0.0
    )
    stream = await client.chat.completions.create(
        model=MODEL, messages=SUM, max_completion_tokens=10, temperature=0.0, stream=True
    )
    texts: list[str] = []
    finished = 0
    async for chunk in stream:
        delta = chunk.choices[0].delta
        if delta.role:
            assert delta.role == "assistant"
        if delta.content:
            texts.append(delta.content)
        finished += chunk.choices[0].finish_reason is not None
    assert finished == 1
    assert chunk.choices[0].finish_reason == whole.choices[0].finish_reason
    assert delta.content, "the last chunk of the stream has text too"
    assert "".join(texts) == whole.choices[0].message.content


@ported(SOURCE, "test_chat_completion_stream_options[base]")
async def test_usage_in_streams(client: openai.AsyncOpenAI):
    asked = {"model": MODEL, "messages": FRANCE, "max_completion_tokens": 10, "temperature": 0.0}

    stream = await client.chat.completions.create(
        **asked, stream=True, stream_options={"include_usage": False}
    )
    async for chunk in stream:
        assert chunk.usage is None

    once = {"include_usage": True, "continuous_usage_stats": False}
    stream = await client.chat.completions.create(**asked, stream=True, stream_options=once)
    async for chunk in stream:
        assert chunk.usage is None
        if chunk.choices[0].finish_reason is not None:
            last = await anext(stream)
            assert last.usage is not None
            assert last.usage.prompt_tokens > 0
            assert last.usage.completion_tokens > 0
            assert last.usage.total_tokens == last.usage.prompt_tokens + last.usage.completion_tokens
            assert last.choices == []

    for options in ({"include_usage": None}, {"include_usage": True}):
        with pytest.raises(openai.BadRequestError):
            await client.chat.completions.create(**asked, stream=False, stream_options=options)

    each = {"include_usage": True, "continuous_usage_stats": True}
    stream = await client.chat.completions.create(
        **asked, extra_body={"min_tokens": 10}, stream=True, stream_options=each
    )
    before = 0
    async for chunk in stream:
        usage = chunk.usage
        assert usage.prompt_tokens >= 0
        grown = usage.completion_tokens > before
        assert before == 0 or grown or (not chunk.choices and usage.completion_tokens == before)
        assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
        before = usage.completion_tokens
    assert before == 10

    stream = await client.chat.completions.create(
        **asked,
        extra_body={"min_characters": 10},
        stream=True,
        stream_options={"include_usage": False},
    )
    text = ""
    async for chunk in stream:
        text += chunk.choices[0].delta.content
    assert len(text) >= 10


@ported(SOURCE, "test_extra_fields_allowed")
async def test_a_message_may_have_unknown_fields(client: openai.AsyncOpenAI):
    messages = [{"role": "user", "content": "what is 1+1?", "extra_field": "0"}]
    answer = await client.chat.completions.create(model=MODEL, messages=messages, temperature=0, seed=0)
    assert answer.choices[0].message.content is not None


@ported(SOURCE, "test_complex_message_content")
async def test_content_in_parts(client: openai.AsyncOpenAI):
    text = "what is 1+1? please provide the result without any other text."
    answer = await client.chat.completions.create(
        model=MODEL, messages=ask([{"type": "text", "text": text}]), temperature=0, seed=0
    )
    assert answer.choices[0].message.content == "2"


@ported(SOURCE, "test_custom_role")
async def test_a_role_of_ones_own(client: openai.AsyncOpenAI):
    contents = ("what is 1+1?", [{"type": "text", "text": "what is 1+1?"}])
    answers = [
        await client.chat.completions.create(
            model=MODEL, messages=ask(content, "my-custom-role"), temperature=0, seed=0
        )
        for content in contents
    ]
    texts = [answer.choices[0].message.content for answer in answers]
    assert texts[0] == texts[1]


@ported(SOURCE, "test_long_seed")
async def test_a_seed_beyond_64_bits_is_refused(client: openai.AsyncOpenAI):
    for seed in (-(2**63) - 1, 2**63):
        with pytest.raises(openai.BadRequestError) as refused:
            await client.chat.completions.create(
                model=MODEL, messages=ask("You are a helpful assistant.", "system"), temperature=0, seed=seed
            )
        message = refused.value.message
        assert "greater_than_equal" in message or "less_than_equal" in message


@ported(SOURCE, "test_invocations")
async def test_invocations_answer_as_the_chat_does(client: openai.AsyncOpenAI, http: httpx.AsyncClient):
    asked = {
        "model": MODEL,
        "messages": SUM,
        "max_completion_tokens": 5,
        "temperature": 0.0,
        "logprobs": False,
    }
    chat = (await client.chat.completions.create(**asked)).model_dump()
    invoked = await http.post("/invocations", json=asked)
    invoked.raise_for_status()
    assert chat.keys() == invoked.json().keys()
    assert chat["choices"] == invoked.json()["choices"]


@ported(SOURCE, "test_response_format_text")
async def test_text_as_the_response_format(client: openai.AsyncOpenAI):
    for _ in range(2):
        answer = await client.chat.completions.create(
            model=MODEL,
            messages=ask("what is 1+1?"),
            max_completion_tokens=10,
            response_format={"type": "text"},
        )
        assert answer.choices[0].message.content is not None
