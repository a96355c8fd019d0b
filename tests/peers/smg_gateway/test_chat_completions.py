"""SMG's cases of chat completions: answers, streams, stops, limits, grammars and errors."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest

from support.ported_cases import ported

MODEL = "tutored"
SERVER = "e2e_test/chat_completions/test_openai_server.py"
VALIDATION = "e2e_test/chat_completions/test_validation.py"
SHAPES = "e2e_test/chat_completions/test_error_shapes.py"
STRUCTURED = "e2e_test/chat_completions/test_structured_output.py"
SYSTEM = {"role": "system", "content": "You are a helpful AI assistant"}
FRANCE = "What is the capital of France?"
MARKERS = ("<|im_end|>", "<|endoftext|>")
FRUITS = {
    "type": "object",
    "properties": {"items": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}},
    "required": ["items"],
    "additionalProperties": False,
}
FRUITS_FORM = {"type": "json_schema", "json_schema": {"name": "fruits", "strict": True, "schema": FRUITS}}


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def parts(*texts: str) -> dict[str, object]:
    return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}


@pytest.mark.parametrize("logprobs", [None, 5])
@pytest.mark.parametrize("n", [1, 2])
@ported(SERVER, "TestChatCompletion::test_chat_completion")
def test_an_answer_has_choices_usage_and_logprobs(api: openai.OpenAI, logprobs: int | None, n: int):
    answer = api.chat.completions.create(
        model=MODEL,
        messages=[SYSTEM, parts(f"{FRANCE} Answer in a few words.")],
        temperature=0.7 if n > 1 else 0,
        logprobs=bool(logprobs),
        top_logprobs=logprobs,
        n=n,
    )
    if logprobs:
        first = answer.choices[0].logprobs.content[0]
        assert len(first.top_logprobs) == logprobs
        assert isinstance(first.top_logprobs[0].token, str)
    assert len(answer.choices) == n
    assert answer.choices[0].message.role == "assistant"
    assert isinstance(answer.choices[0].message.content, str)
    assert answer.id and answer.created
    usage = answer.usage
    assert usage.prompt_tokens > 0 and usage.completion_tokens > 0
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


@pytest.mark.parametrize("logprobs", [None, 5])
@pytest.mark.parametrize("n", [1, 2])
@ported(SERVER, "TestChatCompletion::test_chat_completion_stream")
def test_a_stream_has_a_role_one_end_a_choice_and_usage(api: openai.OpenAI, logprobs: int | None, n: int):
    stream = api.chat.completions.create(
        model=MODEL,
        messages=[SYSTEM, parts(FRANCE)],
        temperature=0.7 if n > 1 else 0,
        logprobs=bool(logprobs),
        top_logprobs=logprobs,
        stream=True,
        stream_options={"include_usage": True},
        n=n,
    )
    begun: set[int] = set()
    ends: Counter[int] = Counter()
    usages = 0
    for chunk in stream:
        if chunk.usage is not None:
            usages += 1
            assert chunk.choices == []
            assert chunk.usage.prompt_tokens > 0 and chunk.usage.completion_tokens > 0
            assert chunk.usage.total_tokens == chunk.usage.prompt_tokens + chunk.usage.completion_tokens
            continue
        choice = chunk.choices[0]
        if choice.index not in begun:
            begun.add(choice.index)
            assert choice.delta.role == "assistant"
            continue
        if choice.finish_reason:
            ends[choice.index] += 1
        if logprobs and not ends[choice.index]:
            assert choice.logprobs is not None
            assert len(choice.logprobs.content[0].top_logprobs) == logprobs
    assert ends == dict.fromkeys(range(n), 1)
    assert usages == 1


@ported(SERVER, "TestChatCompletion::test_regex")
def test_a_regular_expression_is_followed(api: openai.OpenAI):
    pattern = '\\{\\n   "name": "[\\w]+",\\n   "population": [\\d]+\\n\\}'
    answer = api.chat.completions.create(
        model=MODEL,
        messages=[SYSTEM, user("Introduce the capital of France.")],
        temperature=0,
        max_tokens=128,
        extra_body={"regex": pattern},
    )
    told = json.loads(answer.choices[0].message.content)
    assert isinstance(told["name"], str) and isinstance(told["population"], int)


@ported(SERVER, "TestChatCompletion::test_penalty")
def test_a_penalty_and_an_effort_are_taken(api: openai.OpenAI):
    answer = api.chat.completions.create(
        model=MODEL,
        messages=[user(FRANCE)],
        max_tokens=100,
        frequency_penalty=1.0,
        reasoning_effort="none",
    )
    assert isinstance(answer.choices[0].message.content, str)
    assert answer.usage.completion_tokens > 0


@ported(SERVER, "TestChatCompletion::test_multi_content_parts")
def test_all_parts_of_a_message_are_read(api: openai.OpenAI):
    def prompt_tokens(*texts: str) -> int:
        answer = api.chat.completions.create(model=MODEL, messages=[parts(*texts)], max_tokens=8)
        assert isinstance(answer.choices[0].message.content, str)
        return answer.usage.prompt_tokens

    china = "What is the capital of China?"
    around = prompt_tokens("") or 0
    both = prompt_tokens(FRANCE, china) - around
    assert abs(both - (prompt_tokens(FRANCE) - around) - (prompt_tokens(china) - around)) <= 2


@ported(SERVER, "TestChatCompletion::test_response_prefill")
def test_an_answer_goes_on_from_its_beginning(api: openai.OpenAI):
    from support.tutored_lessons import PRODUCT

    answer = api.chat.completions.create(
        model=MODEL,
        messages=[SYSTEM, user(PRODUCT), {"role": "assistant", "content": "{\n"}],
        temperature=0,
        extra_body={"continue_final_message": True},
    )
    assert answer.choices[0].message.content.strip().startswith('"name": "SmartHome Mini",')


@ported(SERVER, "TestChatCompletion::test_streaming_token_count_matches_chunks")
def test_a_stream_has_a_chunk_a_token(api: openai.OpenAI):
    stream = api.chat.completions.create(
        model=MODEL,
        messages=[SYSTEM, parts(FRANCE)],
        temperature=0,
        max_tokens=50,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks, tokens = 0, None
    for chunk in stream:
        if chunk.usage is not None:
            tokens = chunk.usage.completion_tokens
        elif chunk.choices and chunk.choices[0].delta.content:
            chunks += 1
    assert tokens is not None and chunks > 0
    assert 0 <= tokens - chunks <= 2


@ported(SERVER, "TestChatCompletion::test_model_list")
def test_one_model_is_listed(api: openai.OpenAI):
    assert len(list(api.models.list().data)) == 1


COUNT = "Count from 1 to 20."


@ported(SERVER, "TestChatCompletion::test_stop_sequences")
def test_a_stop_sequence_ends_an_answer(api: openai.OpenAI):
    answer = api.chat.completions.create(
        model=MODEL, messages=[user(COUNT)], temperature=0, max_tokens=200, stop=[","]
    )
    assert answer.choices[0].finish_reason == "stop"
    assert "," not in answer.choices[0].message.content


@ported(SERVER, "TestChatCompletion::test_stop_sequences_stream")
def test_a_stop_sequence_ends_a_stream(api: openai.OpenAI):
    chunks = list(
        api.chat.completions.create(
            model=MODEL, messages=[user(COUNT)], temperature=0, max_tokens=1024, stop=[","], stream=True
        )
    )
    assert "stop" in {choice.finish_reason for chunk in chunks for choice in chunk.choices}
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text and "," not in text


@ported(VALIDATION, "TestIgnoreEOS::test_ignore_eos")
def test_without_an_end_the_limit_is_reached(api: openai.OpenAI):
    def ask(ignore_eos: bool):
        return api.chat.completions.create(
            model=MODEL,
            messages=[{"role": "system", "content": "You are a helpful assistant."}, user(COUNT)],
            temperature=0,
            max_tokens=200,
            extra_body={"ignore_eos": ignore_eos},
        )

    ended, went_on = ask(False), ask(True)
    assert ended.usage.completion_tokens < 200 == went_on.usage.completion_tokens
    assert (ended.choices[0].finish_reason, went_on.choices[0].finish_reason) == ("stop", "length")


@ported(VALIDATION, "TestLargeMaxNewTokens::test_concurrent_chat_completions")
def test_four_long_answers_at_once(api: openai.OpenAI):
    def ask(_: int):
        return api.chat.completions.create(
            model=MODEL,
            messages=[SYSTEM, user("Tell me a long story about a dragon.")],
            temperature=0,
            max_tokens=256,
        )

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(ask, range(4)))
    assert len(answers) == 4
    for answer in answers:
        assert answer.choices[0].message.content
        assert answer.choices[0].finish_reason in ("stop", "length")


def say_hello(api: openai.OpenAI, **extra: object):
    answer = api.chat.completions.create(
        model=MODEL, messages=[user("Say hello.")], temperature=0, max_tokens=50, extra_body=extra
    )
    assert answer.choices[0].message.content is not None
    return answer.choices[0]


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param({}, marks=ported(VALIDATION, "TestEosTokenStripping::test_no_eos_in_content_default")),
        pytest.param(
            {"skip_special_tokens": False},
            marks=ported(VALIDATION, "TestEosTokenStripping::test_no_eos_in_content_skip_special_false"),
        ),
        pytest.param(
            {"no_stop_trim": True},
            marks=ported(VALIDATION, "TestEosTokenStripping::test_no_stop_trim_with_skip_special_true"),
        ),
    ],
    ids=["default", "special", "untrimmed"],
)
def test_the_end_token_is_not_shown(api: openai.OpenAI, extra: dict[str, object]):
    content = say_hello(api, **extra).message.content
    assert not any(marker in content for marker in MARKERS)


@ported(VALIDATION, "TestEosTokenStripping::test_no_stop_trim_with_skip_special_false")
def test_the_end_token_is_shown_on_request(api: openai.OpenAI):
    choice = say_hello(api, no_stop_trim=True, skip_special_tokens=False)
    assert choice.finish_reason == "stop"
    assert any(marker in choice.message.content for marker in MARKERS)


NUMBERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Compute the sum of two numbers",
        "parameters": NUMBERS | {"required": ["a", "b"]},
    },
}


@ported(VALIDATION, "TestEosTokenStripping::test_no_eos_in_tool_call_with_tools")
def test_the_end_token_is_in_no_tool_call(api: openai.OpenAI):
    answer = api.chat.completions.create(
        model=MODEL,
        messages=[user("Compute (3+5)")],
        tools=[ADD],
        tool_choice="required",
        temperature=0,
        max_tokens=200,
        extra_body={"skip_special_tokens": False},
    )
    message = answer.choices[0].message
    shown = [call.function.arguments for call in message.tool_calls or ()] + [message.content or ""]
    assert not any(marker in text for text in shown for marker in MARKERS)


@ported(SHAPES, "TestStreamingErrorShape::test_worker_rejection_keeps_json_content_type")
def test_a_stream_that_is_refused_is_answered_in_json(wire: httpx.Client):
    bad = {"type": "object", "properties": {"query": {"type": "not-a-json-schema-type"}}}
    tool = {"type": "function", "function": {"name": "lookup", "description": "Looks up.", "parameters": bad}}
    body = {
        "model": MODEL,
        "stream": True,
        "messages": [user("Look it up.")],
        "tools": [tool],
        "max_tokens": 16,
    }
    answer = wire.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400, answer.text
    assert answer.headers["content-type"].startswith("application/json")
    told = answer.json()
    assert "schema" in (told.get("message") or told["error"]["message"]).lower()


@ported(SHAPES, "TestStreamingErrorShape::test_successful_stream_is_an_event_stream")
def test_a_stream_is_one_of_events(wire: httpx.Client):
    body = {"model": MODEL, "stream": True, "messages": [user("Say hello.")], "max_tokens": 8}
    with wire.stream("POST", "/v1/chat/completions", json=body) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        frames = [line for line in answer.iter_lines() if line.startswith("data:")]
    assert frames[-1].strip() == "data: [DONE]"


def check_fruits(content: str) -> None:
    told = json.loads(content)
    assert set(told) == {"items"}
    assert len(told["items"]) == 2
    assert all(isinstance(item, str) for item in told["items"])
    assert not any(marker in content for marker in MARKERS)


@ported(STRUCTURED, "TestStructuredOutputRegular::test_response_format_json_schema")
def test_a_schema_is_followed(api: openai.OpenAI):
    answer = api.chat.completions.create(
        model=MODEL, messages=[user("List exactly 2 fruits.")], response_format=FRUITS_FORM, temperature=0
    )
    check_fruits(answer.choices[0].message.content)


@ported(STRUCTURED, "TestStructuredOutputRegular::test_response_format_json_schema_stream")
def test_a_schema_is_followed_in_a_stream(api: openai.OpenAI):
    stream = api.chat.completions.create(
        model=MODEL,
        messages=[user("List exactly 2 fruits.")],
        response_format=FRUITS_FORM,
        temperature=0,
        stream=True,
    )
    check_fruits("".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices))
