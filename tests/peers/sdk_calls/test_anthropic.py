"""Calls of Anthropic's client to the gateway: each must give the types that the client promises."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest

from support.ported_cases import ported

MODEL = "tutored"
ASKED: dict[str, Any] = {
    "model": MODEL,
    "max_tokens": 100,
    "extra_body": {"temperature": 0},  # the client has no argument for it
    "messages": [{"role": "user", "content": "Hello"}],
}
ADD = {
    "name": "add",
    "description": "Adds two numbers",
    "input_schema": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
}
SUM = ASKED | {"messages": [{"role": "user", "content": "Compute (3+5)"}], "tools": [ADD]}


@pytest.fixture
async def client(gateway: str):
    async with anthropic.AsyncAnthropic(base_url=gateway, api_key="unused", max_retries=0) as client:
        yield client


@ported("anthropic", "messages.create")
async def test_a_message(client: anthropic.AsyncAnthropic):
    answer = await client.messages.create(**ASKED)
    assert (answer.type, answer.role, answer.stop_reason) == ("message", "assistant", "end_turn")
    assert answer.content[0].type == "text" and answer.content[0].text
    assert answer.usage.input_tokens > 0 and answer.usage.output_tokens > 0


@ported("anthropic", "messages.create(stream=True)")
async def test_a_streamed_message(client: anthropic.AsyncAnthropic):
    kinds = [event.type async for event in await client.messages.create(**ASKED, stream=True)]
    assert kinds[0] == "message_start"
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 1


@ported("anthropic", "messages.stream")
async def test_the_stream_helper(client: anthropic.AsyncAnthropic):
    whole = await client.messages.create(**ASKED)
    async with client.messages.stream(**ASKED) as stream:
        text = "".join([piece async for piece in stream.text_stream])
        final = await stream.get_final_message()
    assert text == whole.content[0].text == final.content[0].text
    assert final.stop_reason == "end_turn"


@ported("anthropic", "messages.create(tools)")
@pytest.mark.parametrize("choice", [{"type": "auto"}, {"type": "any"}, {"type": "tool", "name": "add"}])
async def test_a_tool_is_called(client: anthropic.AsyncAnthropic, choice: dict[str, str]):
    answer = await client.messages.create(**SUM, tool_choice=choice)
    assert answer.stop_reason == "tool_use"
    (call,) = [block for block in answer.content if block.type == "tool_use"]
    assert (call.name, call.input) == ("add", {"a": 3, "b": 5})


@ported("anthropic", "messages.stream(tools)")
async def test_a_tool_is_called_in_a_stream(client: anthropic.AsyncAnthropic):
    async with client.messages.stream(**SUM) as stream:
        final = await stream.get_final_message()
    (call,) = [block for block in final.content if block.type == "tool_use"]
    assert (call.name, call.input) == ("add", {"a": 3, "b": 5})


@ported("anthropic", "messages.create(tool_result)")
async def test_a_tools_result(client: anthropic.AsyncAnthropic):
    called = await client.messages.create(**SUM)
    (call,) = [block for block in called.content if block.type == "tool_use"]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "8"}
    messages = [
        *SUM["messages"],
        {"role": "assistant", "content": called.content},
        {"role": "user", "content": [result]},
    ]
    answer = await client.messages.create(**(SUM | {"messages": messages}))
    assert answer.stop_reason == "end_turn"
    assert answer.content[0].text


@ported("anthropic", "messages.create(stop_sequences)")
async def test_a_stop_sequence(client: anthropic.AsyncAnthropic):
    asked = ASKED | {"messages": [{"role": "user", "content": "Count from 1 to 20."}]}
    answer = await client.messages.create(**asked, stop_sequences=[", 5"])
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", ", 5")
    assert answer.content[0].text == "1, 2, 3, 4"


@ported("anthropic", "messages.count_tokens")
async def test_tokens_are_counted(client: anthropic.AsyncAnthropic):
    counted = await client.messages.count_tokens(model=MODEL, messages=ASKED["messages"])
    assert counted.input_tokens == (await client.messages.create(**ASKED)).usage.input_tokens


@ported("anthropic", "models.list")
async def test_models_are_listed(client: anthropic.AsyncAnthropic):
    models = [model async for model in client.models.list()]
    assert MODEL in [model.id for model in models]
    assert all(model.type == "model" and model.display_name and model.created_at for model in models)


@ported("anthropic", "models.retrieve")
async def test_a_model_is_shown(client: anthropic.AsyncAnthropic):
    model = await client.models.retrieve(MODEL)
    assert (model.id, model.type) == (MODEL, "model")


@ported("anthropic", "errors")
@pytest.mark.parametrize(("field", "value"), [("max_tokens", 0), ("messages", [])])
async def test_bad_requests_name_the_field(client: anthropic.AsyncAnthropic, field: str, value: object):
    with pytest.raises(anthropic.BadRequestError, match=field) as refused:
        await client.messages.create(**(ASKED | {field: value}))
    assert refused.value.body["error"]["type"] == "invalid_request_error"


@ported("anthropic", "errors: an unknown model")
async def test_an_unknown_model_is_not_found(client: anthropic.AsyncAnthropic):
    with pytest.raises(anthropic.NotFoundError) as refused:
        await client.messages.create(**(ASKED | {"model": "nobody"}))
    assert refused.value.body["error"]["type"] == "not_found_error"
