"""Calls of OpenAI's client to the gateway: each must give the types that the client promises."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from support.ported_cases import ported

MODEL = "tutored"
HELLO: list[Any] = [{"role": "user", "content": "Hello"}]
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds two numbers",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
}
SUM: list[Any] = [{"role": "user", "content": "Compute (3+5)"}]


class Sum(BaseModel):
    result: int


@pytest.fixture
async def client(gateway: str):
    async with openai.AsyncOpenAI(base_url=f"{gateway}/v1", api_key="unused", max_retries=0) as client:
        yield client


@ported("openai", "models.list")
async def test_models_are_listed(client: openai.AsyncOpenAI):
    assert MODEL in [model.id async for model in client.models.list()]


@ported("openai", "models.retrieve")
async def test_a_model_is_shown(client: openai.AsyncOpenAI):
    model = await client.models.retrieve(MODEL)
    assert (model.id, model.object) == (MODEL, "model")
    assert isinstance(model.created, int)


@ported("openai", "models.retrieve of an unknown model")
async def test_an_unknown_model_is_not_found(client: openai.AsyncOpenAI):
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("nobody")


@ported("openai", "chat.completions.create")
async def test_a_chat(client: openai.AsyncOpenAI):
    answer = await client.chat.completions.create(model=MODEL, messages=HELLO, temperature=0)
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


@ported("openai", "chat.completions.create(stream=True)")
async def test_a_streamed_chat(client: openai.AsyncOpenAI):
    whole = await client.chat.completions.create(model=MODEL, messages=HELLO, temperature=0)
    stream = await client.chat.completions.create(
        model=MODEL, messages=HELLO, temperature=0, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage == whole.usage or chunks[-1].usage.prompt_tokens == whole.usage.prompt_tokens


@ported("openai", "chat.completions.stream")
async def test_the_stream_helper(client: openai.AsyncOpenAI):
    async with client.chat.completions.stream(model=MODEL, messages=HELLO, temperature=0) as stream:
        kinds = [event.type async for event in stream]
        final = await stream.get_final_completion()
    assert "content.delta" in kinds
    assert kinds.count("content.done") == 1
    assert final.choices[0].message.content


@ported("openai", "chat.completions.parse")
async def test_a_parsed_chat(client: openai.AsyncOpenAI):
    asked = 'what is 1+1? please respond with a JSON object, the format is {"result": 2}'
    answer = await client.chat.completions.parse(
        model=MODEL, messages=[{"role": "user", "content": asked}], temperature=0, response_format=Sum
    )
    assert answer.choices[0].message.parsed == Sum(result=2)


@ported("openai", "chat.completions.create(tools)")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_tool_is_called(client: openai.AsyncOpenAI, stream: bool):
    asked: dict[str, Any] = {"model": MODEL, "messages": SUM, "tools": [ADD], "temperature": 0}
    if stream:
        async with client.chat.completions.stream(**asked) as events:
            answer = await events.get_final_completion()
    else:
        answer = await client.chat.completions.create(**asked)
    choice = answer.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls is not None
    (call,) = choice.message.tool_calls
    assert call.id
    assert (call.function.name, json.loads(call.function.arguments)) == ("add", {"a": 3, "b": 5})


@ported("openai", "chat.completions.create(tool_choice)")
async def test_a_tool_that_is_forced(client: openai.AsyncOpenAI):
    answer = await client.chat.completions.create(
        model=MODEL,
        messages=SUM,
        tools=[ADD],
        tool_choice={"type": "function", "function": {"name": "add"}},
        temperature=0,
    )
    (call,) = answer.choices[0].message.tool_calls
    assert call.function.name == "add"
    assert json.loads(call.function.arguments).keys() == {"a", "b"}


@ported("openai", "chat.completions.create(n, logprobs)")
async def test_several_choices_with_logprobs(client: openai.AsyncOpenAI):
    answer = await client.chat.completions.create(
        model=MODEL, messages=HELLO, n=2, logprobs=True, top_logprobs=3, max_completion_tokens=4
    )
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert all(len(token.top_logprobs) == 3 for c in answer.choices for token in c.logprobs.content)


@ported("openai", "chat.completions.with_raw_response.create")
async def test_a_raw_response(client: openai.AsyncOpenAI):
    raw = await client.chat.completions.with_raw_response.create(model=MODEL, messages=HELLO, max_tokens=4)
    assert raw.status_code == 200
    assert raw.request_id
    assert raw.parse().choices[0].finish_reason == "length"


@ported("openai", "completions.create")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_completion(client: openai.AsyncOpenAI, stream: bool):
    asked: dict[str, Any] = {"model": MODEL, "prompt": "The capital of France is", "temperature": 0}
    if stream:
        chunks = [chunk async for chunk in await client.completions.create(**asked, stream=True)]
        text = "".join(choice.text for chunk in chunks for choice in chunk.choices)
    else:
        text = (await client.completions.create(**asked)).choices[0].text
    assert "Paris" in text


@ported("openai", "responses.create")
async def test_a_response(client: openai.AsyncOpenAI):
    answer = await client.responses.create(model=MODEL, input="Hello", temperature=0)
    assert answer.status == "completed"
    assert answer.output_text
    assert answer.usage is not None and answer.usage.total_tokens > 0


@ported("openai", "responses.create(stream=True)")
async def test_a_streamed_response(client: openai.AsyncOpenAI):
    stream = await client.responses.create(model=MODEL, input="Hello", temperature=0, stream=True)
    events = [event async for event in stream]
    assert events[0].type == "response.created"
    assert events[-1].type == "response.completed"
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == events[-1].response.output_text
    assert [event.sequence_number for event in events] == [*range(len(events))]


@ported("openai", "responses.stream")
async def test_the_response_stream_helper(client: openai.AsyncOpenAI):
    async with client.responses.stream(model=MODEL, input="Hello", temperature=0) as stream:
        async for _ in stream:
            pass
        assert (await stream.get_final_response()).output_text


@ported("openai", "responses.parse")
async def test_a_parsed_response(client: openai.AsyncOpenAI):
    asked = 'what is 1+1? please respond with a JSON object, the format is {"result": 2}'
    answer = await client.responses.parse(model=MODEL, input=asked, temperature=0, text_format=Sum)
    assert answer.output_parsed == Sum(result=2)


@ported("openai", "responses.retrieve, input_items.list, delete")
async def test_a_stored_response(client: openai.AsyncOpenAI):
    made = await client.responses.create(model=MODEL, input="Hello", temperature=0, store=True)
    assert (await client.responses.retrieve(made.id)).output_text == made.output_text
    items = [item async for item in client.responses.input_items.list(made.id)]
    assert len(items) == 1
    await client.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(made.id)


@ported("openai", "responses.create(previous_response_id)")
async def test_a_response_goes_on(client: openai.AsyncOpenAI):
    first = await client.responses.create(model=MODEL, input="My name is Alice.", temperature=0)
    then = await client.responses.create(
        model=MODEL, input="What is my name?", temperature=0, previous_response_id=first.id
    )
    assert then.previous_response_id == first.id
    assert then.usage.input_tokens > first.usage.input_tokens


@ported("openai", "responses.input_tokens.count")
async def test_the_tokens_of_a_response(client: openai.AsyncOpenAI):
    counted = await client.responses.input_tokens.count(model=MODEL, input="Hello")
    made = await client.responses.create(model=MODEL, input="Hello", max_output_tokens=16)
    assert counted.input_tokens == made.usage.input_tokens


@ported("openai", "conversations.create, retrieve, update, delete")
async def test_a_conversation(client: openai.AsyncOpenAI):
    made = await client.conversations.create(metadata={"topic": "birds"})
    assert (await client.conversations.retrieve(made.id)).metadata == {"topic": "birds"}
    await client.conversations.update(made.id, metadata={"topic": "trees"})
    assert (await client.conversations.retrieve(made.id)).metadata == {"topic": "trees"}
    assert (await client.conversations.delete(made.id)).deleted is True


@ported("openai", "conversations.items.create, list, delete")
async def test_items_of_a_conversation(client: openai.AsyncOpenAI):
    made = await client.conversations.create()
    await client.conversations.items.create(
        made.id, items=[{"type": "message", "role": "user", "content": "Hello"}]
    )
    (item,) = [item async for item in client.conversations.items.list(made.id)]
    assert (await client.conversations.items.retrieve(item.id, conversation_id=made.id)).id == item.id
    await client.conversations.items.delete(item.id, conversation_id=made.id)
    assert [item async for item in client.conversations.items.list(made.id)] == []


@ported("openai", "errors")
@pytest.mark.parametrize(
    ("field", "value"), [("temperature", -1), ("max_tokens", -1), ("messages", []), ("n", 0)]
)
async def test_bad_requests_name_the_field(client: openai.AsyncOpenAI, field: str, value: object):
    with pytest.raises(openai.BadRequestError) as refused:
        await client.chat.completions.create(**({"model": MODEL, "messages": HELLO} | {field: value}))
    assert refused.value.param == field
