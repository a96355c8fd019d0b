"""Calls of OpenAI's client for responses and conversations, through the gateway."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from support.ported_cases import ported

MODEL = "tutored"
ASKED: dict[str, Any] = {"model": MODEL, "input": "Hello", "temperature": 0}
JSON_SUM = 'what is 1+1? please respond with a JSON object, the format is {"result": 2}'
PARIS = "What is the temperature in Paris in celsius?"
ARGUMENTS = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"type": "string"}},
    "required": ["city", "unit"],
    "additionalProperties": False,
}
WEATHER = {"type": "function", "name": "get_current_weather", "parameters": ARGUMENTS, "strict": True}
ENDLESS = {
    "model": MODEL,
    "input": "Tell me a long story about a dragon.",
    "max_output_tokens": 4000,
    "extra_body": {"ignore_eos": True},
}


class Sum(BaseModel):
    result: int


@ported("openai", "responses.create")
@pytest.mark.parametrize("store", [True, False])
async def test_a_response(client: openai.AsyncOpenAI, store: bool):
    answer = await client.responses.create(**ASKED, store=store, instructions="Be kind.")
    assert (answer.status, answer.error, answer.incomplete_details) == ("completed", None, None)
    assert (answer.model, answer.instructions) == (MODEL, "Be kind.")
    (message,) = answer.output
    assert (message.type, message.role, message.status) == ("message", "assistant", "completed")
    assert answer.output_text == message.content[0].text != ""
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens


@ported("openai", "responses.create(stream=True)")
@pytest.mark.parametrize("store", [True, False])
async def test_a_streamed_response(client: openai.AsyncOpenAI, store: bool):
    events = [event async for event in await client.responses.create(**ASKED, store=store, stream=True)]
    assert [event.type for event in events[:4]] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert [event.type for event in events[-4:]] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == events[-4].text == events[-1].response.output_text
    assert [event.sequence_number for event in events] == [*range(len(events))]


@ported("openai", "responses.stream")
async def test_the_response_stream_helper(client: openai.AsyncOpenAI):
    whole = await client.responses.create(**ASKED)
    async with client.responses.stream(**ASKED) as stream:
        kinds = [event.type async for event in stream]
        final = await stream.get_final_response()
    assert kinds.count("response.completed") == 1
    assert final.output_text == whole.output_text


@ported("openai", "responses.stream(text_format)")
async def test_a_parsed_stream(client: openai.AsyncOpenAI):
    async with client.responses.stream(model=MODEL, input=JSON_SUM, temperature=0, text_format=Sum) as stream:
        assert (await stream.get_final_response()).output_parsed == Sum(result=2)


@ported("openai", "responses.parse")
async def test_a_parsed_response(client: openai.AsyncOpenAI):
    answer = await client.responses.parse(model=MODEL, input=JSON_SUM, temperature=0, text_format=Sum)
    assert answer.output_parsed == Sum(result=2)


@ported("openai", "responses.create(text.format=json_object)")
async def test_a_json_object(client: openai.AsyncOpenAI):
    answer = await client.responses.create(
        model=MODEL, input=JSON_SUM, temperature=0, text={"format": {"type": "json_object"}}
    )
    assert json.loads(answer.output_text) == {"result": 2}


@ported("openai", "responses.create(max_output_tokens)")
async def test_a_response_that_is_cut(client: openai.AsyncOpenAI):
    answer = await client.responses.create(**ASKED, max_output_tokens=3)
    assert (answer.status, answer.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert answer.usage.output_tokens == 3


@ported("openai", "responses.create(tools) and the tool's output")
async def test_a_tool(client: openai.AsyncOpenAI):
    asked: dict[str, Any] = {"model": MODEL, "tools": [WEATHER], "temperature": 0}
    response = await client.responses.create(**asked, input=PARIS)
    (call,) = [item for item in response.output if item.type == "function_call"]
    assert (call.name, call.status) == ("get_current_weather", "completed")
    assert json.loads(call.arguments) == {"city": "Paris", "unit": "celsius"}
    told: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "mild"}
    turns = [{"role": "user", "content": PARIS}, call.model_dump(exclude_none=True), told]
    by_items = await client.responses.create(**asked, input=turns)
    by_reference = await client.responses.create(**asked, input=[told], previous_response_id=response.id)
    assert by_items.output_text == by_reference.output_text != ""
    assert by_items.usage.input_tokens == by_reference.usage.input_tokens


@ported("openai", "responses.create(tools, stream=True)")
async def test_a_tool_in_a_stream(client: openai.AsyncOpenAI):
    async with client.responses.stream(model=MODEL, input=PARIS, tools=[WEATHER], temperature=0) as stream:
        events = [event async for event in stream]
    deltas = [event.delta for event in events if event.type == "response.function_call_arguments.delta"]
    (done,) = [event for event in events if event.type == "response.function_call_arguments.done"]
    assert "".join(deltas) == done.arguments
    assert json.loads(done.arguments) == {"city": "Paris", "unit": "celsius"}


@ported("openai", "responses.create(tool_choice)")
@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "get_current_weather"}])
async def test_a_tool_that_is_wanted(client: openai.AsyncOpenAI, choice: Any):
    response = await client.responses.create(
        model=MODEL, input=PARIS, temperature=0, tools=[WEATHER], tool_choice=choice
    )
    assert [item.type for item in response.output] == ["function_call"]
    assert json.loads(response.output[0].arguments).keys() == {"city", "unit"}


@ported("openai", "responses.create(tool_choice=allowed_tools)")
@pytest.mark.parametrize("store", [True, False])
async def test_a_tool_of_those_allowed(client: openai.AsyncOpenAI, store: bool):
    named = [{"type": "function", "name": "get_current_weather"}]
    response = await client.responses.create(
        model=MODEL,
        input=PARIS,
        temperature=0,
        store=store,
        tools=[WEATHER | {"name": "get_forecast"}, WEATHER],
        tool_choice={"type": "allowed_tools", "mode": "required", "tools": named},
    )
    assert {item.name for item in response.output} == {"get_current_weather"}
    assert [tool.name for tool in response.tools] == ["get_forecast", "get_current_weather"]


@ported("openai", "responses.create(tool_choice=none)")
async def test_no_tool_is_called(client: openai.AsyncOpenAI):
    response = await client.responses.create(**ASKED, tools=[WEATHER], tool_choice="none")
    assert [item.type for item in response.output] == ["message"]


@ported("openai", "responses.create(metadata, user, …)")
async def test_fields_about_the_request(client: openai.AsyncOpenAI):
    answer = await client.responses.create(
        **ASKED,
        metadata={"kind": "test"},
        user="somebody",
        service_tier="auto",
        prompt_cache_key="key",
        safety_identifier="somebody",
        truncation="disabled",
        include=["reasoning.encrypted_content"],
    )
    assert answer.metadata == {"kind": "test"}
    assert answer.output_text


@ported("openai", "responses.retrieve")
async def test_a_stored_response(client: openai.AsyncOpenAI):
    made = await client.responses.create(**ASKED, store=True)
    assert await client.responses.retrieve(made.id) == made


@ported("openai", "responses.retrieve(stream=True)")
async def test_the_events_of_a_stored_response(client: openai.AsyncOpenAI):
    made = await client.responses.create(**ASKED)
    events = [event async for event in await client.responses.retrieve(made.id, stream=True)]
    assert events[-1].response.output_text == made.output_text
    later = await client.responses.retrieve(made.id, stream=True, starting_after=2)
    assert [event.sequence_number async for event in later] == [*range(3, len(events))]


@ported("openai", "responses.retrieve: NotFoundError")
async def test_no_response_is_kept_unasked(client: openai.AsyncOpenAI):
    made = await client.responses.create(**ASKED, store=False)
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(made.id)


@ported("openai", "responses.input_items.list")
async def test_the_input_of_a_response(client: openai.AsyncOpenAI):
    told = [{"role": "user", "content": "Hello"}, {"role": "user", "content": "how are you"}]
    made = await client.responses.create(**ASKED | {"input": told})
    items = [item async for item in client.responses.input_items.list(made.id, order="asc", limit=1)]
    assert [(item.type, item.content[0].text) for item in items] == [
        ("message", "Hello"),
        ("message", "how are you"),
    ]
    newest = [item async for item in client.responses.input_items.list(made.id)]
    assert newest == items[::-1]


@ported("openai", "responses.delete")
async def test_a_response_is_deleted(client: openai.AsyncOpenAI):
    made = await client.responses.create(**ASKED)
    assert await client.responses.delete(made.id) is None
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(made.id)


@ported("openai", "responses.create(background=True), retrieve")
async def test_a_response_in_the_background(client: openai.AsyncOpenAI):
    made = await client.responses.create(**ASKED, background=True)
    assert made.status in ("queued", "in_progress")
    stream = await client.responses.retrieve(made.id, stream=True)
    events = [event async for event in stream]
    assert events[-1].type == "response.completed"
    assert (await client.responses.retrieve(made.id)).status == "completed"


@ported("openai", "responses.cancel")
async def test_a_response_is_cancelled(client: openai.AsyncOpenAI):
    made = await client.responses.create(**ENDLESS, background=True)
    assert (await client.responses.cancel(made.id)).status == "cancelled"
    assert (await client.responses.cancel(made.id)).status == "cancelled"
    assert (await client.responses.retrieve(made.id)).status == "cancelled"


@ported("openai", "responses.cancel: BadRequestError")
async def test_what_is_complete_is_not_cancelled(client: openai.AsyncOpenAI):
    made = await client.responses.create(**ASKED)
    with pytest.raises(openai.BadRequestError):
        await client.responses.cancel(made.id)


@ported("openai", "responses.create(previous_response_id)")
async def test_a_response_goes_on(client: openai.AsyncOpenAI):
    first = await client.responses.create(model=MODEL, input="My name is Alice.", temperature=0)
    then = await client.responses.create(
        model=MODEL, input="What is my name?", temperature=0, previous_response_id=first.id
    )
    assert then.previous_response_id == first.id
    assert "Alice" in then.output_text
    turns: list[Any] = [
        {"role": "user", "content": "My name is Alice."},
        {"role": "assistant", "content": first.output_text},
        {"role": "user", "content": "What is my name?"},
    ]
    at_once = await client.responses.create(model=MODEL, input=turns, temperature=0)
    assert then.usage.input_tokens == at_once.usage.input_tokens


@ported("openai", "responses.create(previous_response_id): errors")
async def test_a_response_goes_on_from_none(client: openai.AsyncOpenAI):
    with pytest.raises(openai.BadRequestError) as refused:
        await client.responses.create(**ASKED, previous_response_id="resp_none")
    assert refused.value.param == "previous_response_id"


@ported("openai", "responses.input_tokens.count")
@pytest.mark.parametrize(
    "fields",
    [
        {"input": "Hello"},
        {"input": [{"role": "user", "content": "Hello"}], "instructions": "Be kind."},
        {"input": PARIS, "tools": [WEATHER]},
    ],
    ids=["text", "instructions", "tools"],
)
async def test_the_tokens_of_a_response(client: openai.AsyncOpenAI, fields: dict[str, Any]):
    counted = await client.responses.input_tokens.count(model=MODEL, **fields)
    assert counted.object == "response.input_tokens"
    made = await client.responses.create(model=MODEL, **fields, max_output_tokens=16)
    assert counted.input_tokens == made.usage.input_tokens


@ported("openai", "responses.input_tokens.count(previous_response_id)")
async def test_the_tokens_of_a_response_that_goes_on(client: openai.AsyncOpenAI):
    first = await client.responses.create(**ASKED)
    asked = {"model": MODEL, "input": "how are you", "previous_response_id": first.id}
    counted = await client.responses.input_tokens.count(**asked)
    made = await client.responses.create(**asked, max_output_tokens=16)
    assert counted.input_tokens == made.usage.input_tokens


@ported("openai", "responses.with_raw_response.create")
async def test_a_raw_response(client: openai.AsyncOpenAI):
    raw = await client.responses.with_raw_response.create(**ASKED)
    assert (raw.status_code, raw.parse().status) == (200, "completed")
    assert raw.request_id


@ported("openai", "responses.create: BadRequestError, NotFoundError")
@pytest.mark.parametrize(
    ("field", "value"),
    [("temperature", -1), ("max_output_tokens", 0), ("tools", [{"type": "nothing"}]), ("model", "nobody")],
)
async def test_bad_requests_name_the_field(client: openai.AsyncOpenAI, field: str, value: object):
    kind = openai.NotFoundError if field == "model" else openai.BadRequestError
    with pytest.raises(kind) as refused:
        await client.responses.create(**(ASKED | {field: value}))
    assert (refused.value.param or "").startswith(field)


@ported("openai", "conversations.create, retrieve, update, delete")
async def test_a_conversation(client: openai.AsyncOpenAI):
    made = await client.conversations.create(metadata={"topic": "birds"})
    assert await client.conversations.retrieve(made.id) == made
    changed = await client.conversations.update(made.id, metadata={"topic": "trees"})
    assert changed.metadata == {"topic": "trees"}
    assert await client.conversations.retrieve(made.id) == changed
    assert (await client.conversations.delete(made.id)).deleted is True
    with pytest.raises(openai.NotFoundError):
        await client.conversations.retrieve(made.id)


@ported("openai", "conversations.items.create, retrieve, list, delete")
async def test_items_of_a_conversation(client: openai.AsyncOpenAI):
    made = await client.conversations.create()
    added = await client.conversations.items.create(
        made.id, items=[{"type": "message", "role": "user", "content": "Hello"}]
    )
    (item,) = [item async for item in client.conversations.items.list(made.id)]
    assert [item] == added.data
    assert item.content[0].text == "Hello"
    assert await client.conversations.items.retrieve(item.id, conversation_id=made.id) == item
    await client.conversations.items.delete(item.id, conversation_id=made.id)
    assert [item async for item in client.conversations.items.list(made.id)] == []


@ported("openai", "responses.create(conversation)")
async def test_a_response_in_a_conversation(client: openai.AsyncOpenAI):
    made = await client.conversations.create()
    answer = await client.responses.create(**ASKED, conversation=made.id)
    assert answer.conversation.id == made.id
    items = [item async for item in client.conversations.items.list(made.id, order="asc")]
    assert [(item.role, item.content[0].text) for item in items] == [
        ("user", "Hello"),
        ("assistant", answer.output_text),
    ]


@ported("openai", "responses.compact")
async def test_a_compacted_conversation(client: openai.AsyncOpenAI):
    compacted = await client.responses.compact(model=MODEL, input=[{"role": "user", "content": "Hello"}])
    assert compacted.object == "response.compaction"
