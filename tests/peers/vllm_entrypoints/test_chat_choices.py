"""vLLM's cases of several choices, echo, logit bias and stop tokens in a chat."""

from __future__ import annotations

from collections import defaultdict

import openai
import pytest

from support.ported_cases import ported

MODEL = "tutored"
CHAT = "tests/entrypoints/openai/chat_completion/test_chat.py"
ECHO = "tests/entrypoints/openai/chat_completion/test_chat_echo.py"
BIAS = "tests/entrypoints/openai/chat_completion/test_chat_logit_bias_validation.py"
STOP = "tests/entrypoints/openai/chat_completion/test_chat_stop_token_ids_validation.py"
SYSTEM = {"role": "system", "content": "You are a helpful assistant."}
SAYING = "Here is a common saying about apple. An apple a day, keeps"
BEIJING = [SYSTEM, {"role": "user", "content": "Beijing is the capital of which country?"}]


def user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


@ported(CHAT, "test_chat_completion_n_parameter_non_streaming")
async def test_three_choices(client: openai.AsyncOpenAI):
    answer = await client.chat.completions.create(
        model=MODEL,
        messages=[SYSTEM, user("What is the opposite of big?")],
        max_completion_tokens=20,
        temperature=0.7,
        n=3,
    )
    assert len(answer.choices) == 3
    for index, choice in enumerate(answer.choices):
        assert choice.index == index
        assert choice.message.content
    assert len({choice.message.content for choice in answer.choices}) > 1


@ported(CHAT, "test_chat_completion_n_parameter_streaming")
async def test_two_choices_in_a_stream(client: openai.AsyncOpenAI):
    stream = await client.chat.completions.create(
        model=MODEL,
        messages=[SYSTEM, user("What is the capital of France?")],
        max_completion_tokens=15,
        temperature=0.7,
        n=2,
        stream=True,
    )
    texts: dict[int, list[str]] = defaultdict(list)
    async for chunk in stream:
        for choice in chunk.choices:
            if choice.delta.content:
                texts[choice.index].append(choice.delta.content)
    assert "".join(texts[0])
    assert "".join(texts[1])


@ported(CHAT, "test_chat_completion_n_with_seed")
async def test_two_choices_with_a_seed(client: openai.AsyncOpenAI):
    answer = await client.chat.completions.create(
        model=MODEL, messages=[user("Say hello.")], max_completion_tokens=10, temperature=0.8, n=2, seed=42
    )
    assert len(answer.choices) == 2
    for index, choice in enumerate(answer.choices):
        assert choice.index == index
        assert choice.message.content


@ported(CHAT, "test_chat_completion_n_equals_1")
async def test_one_choice(client: openai.AsyncOpenAI):
    answer = await client.chat.completions.create(
        model=MODEL, messages=[user("Hello!")], max_completion_tokens=10, temperature=0.7, n=1
    )
    assert len(answer.choices) == 1
    assert answer.choices[0].index == 0
    assert answer.choices[0].message.content is not None


@ported(ECHO, "test_chat_session_with_echo_and_continue_final_message")
@pytest.mark.parametrize("echo", [True, False])
async def test_a_message_that_is_continued(client: openai.AsyncOpenAI, echo: bool):
    answer = await client.chat.completions.create(
        model=MODEL,
        messages=[user("tell me a common saying"), {"role": "assistant", "content": SAYING}],
        extra_body={"echo": echo, "continue_final_message": True, "add_generation_prompt": False},
    )
    assert answer.id is not None
    assert len(answer.choices) == 1
    choice = answer.choices[0]
    assert choice.finish_reason == "stop"
    assert choice.message.content is not None
    assert (SAYING in choice.message.content) is echo
    assert choice.message.role == "assistant"


@pytest.fixture
async def open_client(start_engine):
    """OpenAI's client of an engine that tells the log-probabilities of all tokens, as the original's does."""
    url = f"{start_engine(max_logprobs=-1)}/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key="unused", max_retries=0) as client:
        yield client


@ported(ECHO, "test_prompt_logprobs")
async def test_logprobs_of_every_token_of_the_vocabulary_in_the_prompt(open_client: openai.AsyncOpenAI):
    answer = await open_client.chat.completions.create(
        model=MODEL, messages=BEIJING, extra_body={"prompt_logprobs": -1}
    )
    assert answer.prompt_logprobs is not None
    assert len(answer.prompt_logprobs) > 0


@ported(ECHO, "test_top_logprobs")
async def test_logprobs_of_every_token_of_the_vocabulary(open_client: openai.AsyncOpenAI, tokenizer):
    answer = await open_client.chat.completions.create(
        model=MODEL,
        messages=BEIJING,
        max_tokens=1,
        extra_body={"top_logprobs": -1, "logprobs": "true"},
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None and logprobs.content
    assert len(logprobs.content[0].top_logprobs) == len(tokenizer)


@ported(BIAS, "test_chat_logit_bias_valid")
async def test_a_bias_on_the_last_token(client: openai.AsyncOpenAI, tokenizer):
    answer = await client.chat.completions.create(
        model=MODEL,
        messages=[user("Testing valid logit bias")],
        max_tokens=5,
        logit_bias={str(len(tokenizer) - 1): 1.0},
    )
    assert answer.choices[0].message.content is not None


async def refused_bias(client: openai.AsyncOpenAI, bias: dict[str, object]) -> str:
    with pytest.raises(openai.BadRequestError) as refused:
        await client.chat.completions.create(
            model=MODEL, messages=[user("Testing invalid logit bias")], max_tokens=5, logit_bias=bias
        )
    assert refused.value.status_code == 400
    return str(refused.value)


@ported(BIAS, "test_chat_logit_bias_invalid")
async def test_a_bias_beyond_the_vocabulary(client: openai.AsyncOpenAI, tokenizer):
    message = await refused_bias(client, {str(len(tokenizer) + 1): 1.0})
    assert str(len(tokenizer) + 1) in message
    assert str(len(tokenizer)) in message.replace(str(len(tokenizer) + 1), "")


@ported(BIAS, "test_chat_logit_bias_non_integer_key")
async def test_a_bias_on_no_token(client: openai.AsyncOpenAI):
    message = await refused_bias(client, {"not_a_token_id": 50})
    assert "not_a_token_id" in message
    assert "logit_bias" in message


@ported(BIAS, "test_chat_logit_bias_non_numeric_value")
async def test_a_bias_that_is_no_number(client: openai.AsyncOpenAI):
    assert "logit_bias" in await refused_bias(client, {"1": "not_a_number"})


@ported(BIAS, "test_chat_logit_bias_multiple_non_integer_keys")
async def test_every_bias_on_no_token_is_named(client: openai.AsyncOpenAI):
    message = await refused_bias(client, {"bad1": 50.0, "bad2": 20.0})
    assert "bad1" in message
    assert "bad2" in message


@ported(STOP, "test_chat_stop_token_ids_valid")
async def test_the_last_token_stops(client: openai.AsyncOpenAI, tokenizer):
    answer = await client.chat.completions.create(
        model=MODEL,
        messages=[user("Testing valid stop token ids")],
        max_tokens=5,
        extra_body={"stop_token_ids": [len(tokenizer) - 1]},
    )
    assert answer.choices[0].message.content is not None


async def refused_stop(client: openai.AsyncOpenAI, token: int) -> str:
    with pytest.raises(openai.BadRequestError) as refused:
        await client.chat.completions.create(
            model=MODEL,
            messages=[user("Testing stop token ids")],
            max_tokens=5,
            extra_body={"stop_token_ids": [token]},
        )
    assert refused.value.status_code == 400
    return str(refused.value)


@ported(STOP, "test_chat_stop_token_ids_out_of_vocab")
async def test_a_stop_token_beyond_the_vocabulary(client: openai.AsyncOpenAI, tokenizer):
    message = await refused_stop(client, len(tokenizer) + 1)
    assert str(len(tokenizer) + 1) in message
    assert str(len(tokenizer)) in message.replace(str(len(tokenizer) + 1), "")


@ported(STOP, "test_chat_stop_token_ids_negative")
async def test_a_negative_stop_token(client: openai.AsyncOpenAI):
    await refused_stop(client, -1)
