"""Calls of OpenAI's client for models, chat completions and completions, through the gateway."""

from __future__ import annotations

import json
from typing import Any, Literal

import openai
import pytest
from pydantic import BaseModel

from support.ported_cases import ported

MODEL = "tutored"
HELLO: list[Any] = [{"role": "user", "content": "Hello"}]
STORY: list[Any] = [{"role": "user", "content": "Tell me a long story about a dragon."}]
ASKED: dict[str, Any] = {"model": MODEL, "messages": HELLO, "temperature": 0}
ARGUMENTS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds two numbers",
        "parameters": ARGUMENTS,
        "strict": True,
    },
}
SUM: list[Any] = [{"role": "user", "content": "Compute (3+5)"}]
ASKED_SUM: dict[str, Any] = {"model": MODEL, "messages": SUM, "tools": [ADD], "temperature": 0}
JSON_SUM: list[Any] = [
    {
        "role": "user",
        "content": 'what is 1+1? please respond with a JSON object, the format is {"result": 2}',
    }
]


class Sum(BaseModel):
    result: int


class Calculation(BaseModel):
    kind: Literal["sum"]
    value: int


def called(choice: Any) -> dict[str, Any]:
    """The arguments of the one tool that is called."""
    assert choice.finish_reason == "tool_calls"
    (call,) = choice.message.tool_calls
    assert call.id
    assert call.type == "function"
    assert call.function.name == "add"
    return json.loads(call.function.arguments)


@ported("openai", "models.list")
async def test_models_are_listed(client: openai.AsyncOpenAI):
    models = [model async for model in client.models.list()]
    assert MODEL in [model.id for model in models]
    assert all(model.object == "model" and model.created > 0 and model.owned_by for model in models)


@ported("openai", "models.retrieve")
async def test_a_model_is_shown(client: openai.AsyncOpenAI):
    listed = {model.id: model async for model in client.models.list()}
    assert await client.models.retrieve(MODEL) == listed[MODEL]


@ported("openai", "models.retrieve: NotFoundError")
async def test_an_unknown_model_is_not_found(client: openai.AsyncOpenAI):
    with pytest.raises(openai.NotFoundError) as missing:
        await client.models.retrieve("nobody")
    assert (missing.value.code, missing.value.param) == ("model_not_found", "model")


@ported("openai", "chat.completions.create")
async def test_a_chat(client: openai.AsyncOpenAI):
    answer = await client.chat.completions.create(**ASKED)
    assert answer.model == MODEL
    (choice,) = answer.choices
    assert (choice.index, choice.finish_reason, choice.message.role) == (0, "stop", "assistant")
    assert choice.message.content
    assert choice.message.tool_calls is None
    assert answer.usage is not None
    assert answer.usage.prompt_tokens > 0 and answer.usage.completion_tokens > 0
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


@ported("openai", "chat.completions.create(stream=True)")
async def test_a_streamed_chat(client: openai.AsyncOpenAI):
    whole = await client.chat.completions.create(**ASKED)
    chunks = [chunk async for chunk in await client.chat.completions.create(**ASKED, stream=True)]
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == whole.choices[0].message.content
    reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices]
    assert reasons[-1] == "stop" and set(reasons[:-1]) == {None}
    assert all(chunk.usage is None for chunk in chunks)


@ported("openai", "chat.completions.create(stream_options)")
async def test_the_usage_of_a_stream(client: openai.AsyncOpenAI):
    whole = await client.chat.completions.create(**ASKED)
    stream = await client.chat.completions.create(
        **ASKED, stream=True, stream_options={"include_usage": True}
    )
    *others, last = [chunk async for chunk in stream]
    assert all(chunk.usage is None for chunk in others)
    assert last.choices == []
    counts = ("prompt_tokens", "completion_tokens", "total_tokens")
    assert [getattr(last.usage, name) for name in counts] == [getattr(whole.usage, name) for name in counts]


@ported("openai", "chat.completions.stream")
async def test_the_stream_helper(client: openai.AsyncOpenAI):
    whole = await client.chat.completions.create(**ASKED)
    async with client.chat.completions.stream(**ASKED) as stream:
        events = [event async for event in stream]
        final = await stream.get_final_completion()
    (done,) = [event for event in events if event.type == "content.done"]
    deltas = [event.delta for event in events if event.type == "content.delta"]
    assert "".join(deltas) == done.content == final.choices[0].message.content
    assert done.content == whole.choices[0].message.content


@ported("openai", "chat.completions.stream(tools)")
async def test_a_tool_is_called_in_a_stream(client: openai.AsyncOpenAI):
    async with client.chat.completions.stream(**ASKED_SUM) as stream:
        events = [event async for event in stream]
        final = await stream.get_final_completion()
    (done,) = [event for event in events if event.type == "tool_calls.function.arguments.done"]
    assert (done.name, json.loads(done.arguments)) == ("add", {"a": 3, "b": 5})
    assert called(final.choices[0]) == {"a": 3, "b": 5}
    assert final.choices[0].message.tool_calls[0].function.parsed_arguments == {"a": 3, "b": 5}


@ported("openai", "chat.completions.stream(response_format)")
async def test_a_parsed_stream(client: openai.AsyncOpenAI):
    asked = {"model": MODEL, "messages": JSON_SUM, "temperature": 0, "response_format": Sum}
    async with client.chat.completions.stream(**asked) as stream:
        final = await stream.get_final_completion()
    assert final.choices[0].message.parsed == Sum(result=2)


@ported("openai", "chat.completions.parse")
async def test_a_parsed_chat(client: openai.AsyncOpenAI):
    answer = await client.chat.completions.parse(
        model=MODEL, messages=JSON_SUM, temperature=0, response_format=Sum
    )
    assert answer.choices[0].message.parsed == Sum(result=2)


@ported("openai", "chat.completions.parse: LengthFinishReasonError")
async def test_what_is_cut_is_not_parsed(client: openai.AsyncOpenAI):
    with pytest.raises(openai.LengthFinishReasonError):
        await client.chat.completions.parse(
            model=MODEL, messages=JSON_SUM, response_format=Sum, max_completion_tokens=2
        )


@ported("openai", "chat.completions.parse(tools)")
async def test_a_parsed_call(client: openai.AsyncOpenAI):
    answer = await client.chat.completions.parse(**ASKED_SUM)
    assert answer.choices[0].message.tool_calls[0].function.parsed_arguments == {"a": 3, "b": 5}


@ported("openai", "chat.completions.create(response_format=json_schema)")
async def test_a_schema(client: openai.AsyncOpenAI):
    form = {"name": "calculation", "schema": Calculation.model_json_schema(), "strict": True}
    answer = await client.chat.completions.create(
        **ASKED, response_format={"type": "json_schema", "json_schema": form}
    )
    Calculation.model_validate_json(answer.choices[0].message.content)


@ported("openai", "chat.completions.create(response_format=json_object)")
async def test_a_json_object(client: openai.AsyncOpenAI):
    answer = await client.chat.completions.create(
        model=MODEL, messages=JSON_SUM, temperature=0, response_format={"type": "json_object"}
    )
    assert json.loads(answer.choices[0].message.content) == {"result": 2}


@ported("openai", "chat.completions.create(tools)")
@pytest.mark.parametrize("choice", ["auto", "required", {"type": "function", "function": {"name": "add"}}])
async def test_a_tool_is_called(client: openai.AsyncOpenAI, choice: Any):
    answer = await client.chat.completions.create(**ASKED_SUM, tool_choice=choice)
    assert called(answer.choices[0]) == {"a": 3, "b": 5}


@ported("openai", "chat.completions.create(tool_choice=none)")
async def test_no_tool_is_called(client: openai.AsyncOpenAI):
    answer = await client.chat.completions.create(**ASKED_SUM, tool_choice="none")
    assert answer.choices[0].message.tool_calls is None
    assert answer.choices[0].finish_reason in ("stop", "length")


@ported("openai", "chat.completions.create(tool_choice=allowed_tools)")
async def test_a_tool_of_those_allowed(client: openai.AsyncOpenAI):
    other = {"type": "function", "function": {"name": "sub", "parameters": ARGUMENTS}}
    allowed = [{"type": "function", "function": {"name": "add"}}]
    answer = await client.chat.completions.create(
        model=MODEL,
        messages=SUM,
        tools=[other, ADD],
        tool_choice={"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": allowed}},
        temperature=0,
    )
    assert called(answer.choices[0]).keys() == {"a", "b"}


@ported("openai", "chat.completions.create(messages with a tool's result)")
async def test_a_tools_result(client: openai.AsyncOpenAI):
    asked = await client.chat.completions.create(**ASKED_SUM)
    message = asked.choices[0].message
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "8"}
    turns = [*SUM, message, result]
    answer = await client.chat.completions.create(model=MODEL, messages=turns, tools=[ADD], temperature=0)
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].message.content


@ported("openai", "chat.completions.create(messages with developer, name and parts)")
async def test_messages_in_every_form(client: openai.AsyncOpenAI):
    turns: list[Any] = [
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "name": "ada", "content": [{"type": "text", "text": "Hello"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Hello!"}]},
        {"role": "user", "content": "how are you"},
    ]
    answer = await client.chat.completions.create(model=MODEL, messages=turns, temperature=0)
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"


@ported("openai", "chat.completions.create(n, logprobs)")
async def test_several_choices_with_logprobs(client: openai.AsyncOpenAI):
    answer = await client.chat.completions.create(
        model=MODEL, messages=HELLO, n=2, logprobs=True, top_logprobs=3, max_completion_tokens=4
    )
    assert [choice.index for choice in answer.choices] == [0, 1]
    tokens = [token for choice in answer.choices for token in choice.logprobs.content]
    assert all(len(token.top_logprobs) == 3 and token.logprob <= 0 for token in tokens)
    for choice in answer.choices:
        said = b"".join(bytes(token.bytes) for token in choice.logprobs.content)
        assert said.decode().startswith(choice.message.content)


@ported("openai", "chat.completions.create(stop, max_completion_tokens)")
async def test_stops(client: openai.AsyncOpenAI):
    counting = {"model": MODEL, "messages": [{"role": "user", "content": "Count from 1 to 20."}]}
    stopped = await client.chat.completions.create(**counting, stop=[", 5"], temperature=0)
    assert (stopped.choices[0].message.content, stopped.choices[0].finish_reason) == ("1, 2, 3, 4", "stop")
    cut = await client.chat.completions.create(**counting, max_completion_tokens=3, temperature=0)
    assert cut.choices[0].finish_reason == "length"
    assert cut.usage.completion_tokens == 3


@ported("openai", "chat.completions.create(seed, logit_bias, penalties)")
async def test_a_seed_repeats_what_was_sampled(client: openai.AsyncOpenAI):
    sampled: dict[str, Any] = {
        **ASKED,
        "temperature": 1.5,
        "seed": 7,
        "logit_bias": {"5": -100},
        "presence_penalty": 0.5,
        "frequency_penalty": 0.5,
        "top_p": 0.9,
    }
    first, second, other = [
        (await client.chat.completions.create(**sampled | more)).choices[0].message.content
        for more in ({}, {}, {"seed": 8})
    ]
    assert first == second != other


@ported("openai", "chat.completions.create(metadata, user, store, service_tier, …)")
async def test_fields_about_the_request(client: openai.AsyncOpenAI):
    plain = await client.chat.completions.create(**ASKED)
    answer = await client.chat.completions.create(
        **ASKED,
        metadata={"kind": "test"},
        user="somebody",
        store=False,
        service_tier="auto",
        prompt_cache_key="key",
        safety_identifier="somebody",
    )
    assert answer.choices[0].message.content == plain.choices[0].message.content


@ported("openai", "chat.completions.with_raw_response.create")
async def test_a_raw_response(client: openai.AsyncOpenAI):
    raw = await client.chat.completions.with_raw_response.create(**ASKED, max_tokens=4)
    assert raw.status_code == 200
    assert raw.request_id == raw.headers["x-request-id"]
    answer = raw.parse()
    assert answer.choices[0].finish_reason == "length"
    assert answer._request_id == raw.request_id


@ported("openai", "chat.completions.with_streaming_response.create")
async def test_a_streaming_response(client: openai.AsyncOpenAI):
    async with client.chat.completions.with_streaming_response.create(**ASKED, stream=True) as response:
        lines = [line async for line in response.iter_lines()]
    assert lines[0].startswith("data: {")
    assert [line for line in lines if line][-1] == "data: [DONE]"


@ported("openai", "chat.completions.create, without async")
def test_a_blocking_client(gateway: str):
    with openai.OpenAI(
        base_url=f"{gateway}/v1", api_key="unused", max_retries=0, _strict_response_validation=True
    ) as client:
        whole = client.chat.completions.create(**ASKED).choices[0].message.content
        chunks = [*client.chat.completions.create(**ASKED, stream=True)]
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == whole
        assert MODEL in [model.id for model in client.models.list()]


@ported("openai", "chat.completions.create(timeout): APITimeoutError")
async def test_a_timeout(client: openai.AsyncOpenAI):
    endless = {"model": MODEL, "messages": STORY, "max_tokens": 4000, "extra_body": {"ignore_eos": True}}
    with pytest.raises(openai.APITimeoutError):
        await client.chat.completions.create(**endless, timeout=0.2)
    assert (await client.chat.completions.create(**ASKED)).choices[0].message.content


@ported("openai", "chat.completions.create(stream=True), closed early")
async def test_a_stream_that_is_left(client: openai.AsyncOpenAI):
    asked = {"model": MODEL, "messages": STORY, "max_tokens": 4000, "extra_body": {"ignore_eos": True}}
    async with await client.chat.completions.create(**asked, stream=True) as stream:
        async for _ in stream:
            break
    assert (await client.chat.completions.create(**ASKED)).choices[0].message.content


@ported("openai", "chat.completions.create: BadRequestError")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -1),
        ("max_tokens", -1),
        ("messages", []),
        ("n", 0),
        ("top_logprobs", 3),
        ("top_p", 2),
        ("response_format", {"type": "xml"}),
        ("tools", [{"type": "function"}]),
    ],
)
async def test_bad_requests_name_the_field(client: openai.AsyncOpenAI, field: str, value: object):
    with pytest.raises(openai.BadRequestError) as refused:
        await client.chat.completions.create(**(ASKED | {field: value}))
    assert (refused.value.param or "").startswith(field)
    assert refused.value.type == "invalid_request_error"


@ported("openai", "chat.completions.create: NotFoundError")
async def test_a_chat_with_an_unknown_model(client: openai.AsyncOpenAI):
    with pytest.raises(openai.NotFoundError) as missing:
        await client.chat.completions.create(**ASKED | {"model": "nobody"})
    assert missing.value.code == "model_not_found"


@ported("openai", "chat.completions.create(store=True), retrieve, list, delete")
async def test_a_stored_chat(client: openai.AsyncOpenAI):
    made = await client.chat.completions.create(**ASKED, store=True)
    assert (await client.chat.completions.retrieve(made.id)).id == made.id
    assert made.id in [each.id async for each in client.chat.completions.list()]
    assert (await client.chat.completions.delete(made.id)).deleted is True
