"""SGLang's cases of tools in `/v1/messages`."""

from __future__ import annotations

import json
from typing import Any

import httpx

from support.ported_cases import ported

MODEL = "tutored"
SOURCE = "test/registered/openai_server/function_call/test_anthropic_tool_use.py"
CASES = "TestAnthropicToolUse."
SYSTEM = "Call the functions that are given where they help, else answer."
INTEGER = {"type": "integer"}
ADD = {
    "name": "add",
    "description": "Compute the sum of two integers",
    "input_schema": {"type": "object", "properties": {"a": INTEGER, "b": INTEGER}, "required": ["a", "b"]},
}
WEATHER = {
    "name": "get_current_weather",
    "description": "Get the current weather in a given location",
    "input_schema": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "The city to find the weather for"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        },
        "required": ["city", "unit"],
    },
}
SUM = "Compute (3+5)"


async def post(http: httpx.AsyncClient, question: str, tools: list[Any], **fields: Any) -> httpx.Response:
    asked = {
        "model": MODEL,
        "max_tokens": 2048,
        "system": SYSTEM,
        "messages": [{"role": "user", "content": question}],
        "tools": tools,
    }
    response = await http.post("/v1/messages", json=asked | fields)
    assert response.status_code == 200, response.text
    return response


async def message(http: httpx.AsyncClient, question: str, tools: list[Any], **fields: Any) -> dict[str, Any]:
    body = (await post(http, question, tools, **fields)).json()
    assert body["type"] == "message"
    assert isinstance(body["content"], list)
    return body


async def stream(
    http: httpx.AsyncClient, question: str, tools: list[Any], **fields: Any
) -> list[dict[str, Any]]:
    text = (await post(http, question, tools, stream=True, **fields)).text
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def uses_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [block for block in body["content"] if block["type"] == "tool_use"]


@ported(SOURCE, f"{CASES}test_tool_use_format")
async def test_a_call(http: httpx.AsyncClient):
    body = await message(http, SUM, [ADD], temperature=0.8, top_p=0.8)
    uses = uses_of(body)
    assert len(uses) > 0, body["content"]
    assert uses[0]["name"] == "add"
    assert "id" in uses[0]
    assert isinstance(uses[0]["input"], dict)
    assert body["stop_reason"] == "tool_use"


@ported(SOURCE, f"{CASES}test_tool_choice_auto")
async def test_a_call_that_is_left_to_the_model(http: httpx.AsyncClient):
    await message(http, SUM, [ADD], tool_choice={"type": "auto"})


@ported(SOURCE, f"{CASES}test_tool_choice_any")
async def test_some_call_is_wanted(http: httpx.AsyncClient):
    question = "What is the weather in Paris in celsius?"
    assert uses_of(await message(http, question, [WEATHER], tool_choice={"type": "any"}))


@ported(SOURCE, f"{CASES}test_tool_choice_specific")
async def test_a_certain_call_is_wanted(http: httpx.AsyncClient):
    choice = {"type": "tool", "name": "get_current_weather"}
    body = await message(http, "What is the capital of France?", [ADD, WEATHER], tool_choice=choice)
    uses = uses_of(body)
    assert len(uses) > 0
    assert {use["name"] for use in uses} == {"get_current_weather"}


@ported(SOURCE, f"{CASES}test_tool_result_multi_turn")
async def test_a_tools_result_is_answered(http: httpx.AsyncClient):
    first = await message(http, SUM, [ADD], temperature=0.8)
    uses = uses_of(first)
    assert len(uses) > 0
    result = {"type": "tool_result", "id": uses[0]["id"], "content": "8"}
    messages = [
        {"role": "user", "content": SUM},
        {"role": "assistant", "content": first["content"]},
        {"role": "user", "content": [result]},
    ]
    second = await message(http, SUM, [ADD], messages=messages)
    assert len(second["content"]) > 0


@ported(SOURCE, f"{CASES}test_tool_use_with_text_content")
async def test_text_and_calls(http: httpx.AsyncClient):
    body = await message(http, SUM, [ADD], tool_choice={"type": "auto"}, temperature=0.8)
    assert {block["type"] for block in body["content"]} <= {"text", "tool_use"}


@ported(SOURCE, f"{CASES}test_tool_use_streaming")
async def test_a_streamed_call(http: httpx.AsyncClient):
    question = "What is the temperature in Paris in celsius?"
    events = await stream(http, question, [WEATHER], tool_choice={"type": "any"})
    assert {"message_start", "message_stop"} <= {event["type"] for event in events}
    starts = [event["content_block"] for event in events if event["type"] == "content_block_start"]
    uses = [block for block in starts if block["type"] == "tool_use"]
    assert len(uses) > 0
    assert {"id", "name"} <= uses[0].keys()
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert any(delta["type"] == "input_json_delta" for delta in deltas)
    ends = [event for event in events if event["type"] == "message_delta"]
    assert ends[-1]["delta"]["stop_reason"] == "tool_use"


@ported(SOURCE, f"{CASES}test_tool_use_streaming_args_parsing")
async def test_the_arguments_of_a_streamed_call(http: httpx.AsyncClient):
    events = await stream(http, "Please sum 5 and 7, just call the function.", [ADD])
    starts = [event["content_block"] for event in events if event["type"] == "content_block_start"]
    names = [block["name"] for block in starts if block["type"] == "tool_use"]
    assert names == ["add"], "the model calls the tool that it was taught to call"
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    parts = [delta["partial_json"] for delta in deltas if delta["type"] == "input_json_delta"]
    arguments = json.loads("".join(parts))
    assert {"a", "b"} <= arguments.keys()


@ported(SOURCE, f"{CASES}test_tool_use_streaming_event_sequence")
async def test_the_order_of_a_streamed_calls_events(http: httpx.AsyncClient):
    kinds = [event["type"] for event in await stream(http, SUM, [ADD], tool_choice={"type": "any"})]
    assert kinds[0] == "message_start"
    assert kinds[-1] == "message_stop"
    assert kinds.index("message_delta") < kinds.index("message_stop")
    starts = [at for at, kind in enumerate(kinds) if kind == "content_block_start"]
    stops = [at for at, kind in enumerate(kinds) if kind == "content_block_stop"]
    assert len(starts) == len(stops)
    assert all(start < stop for start, stop in zip(starts, stops, strict=True))


@ported(SOURCE, f"{CASES}test_no_tools_no_tool_use")
async def test_no_call_without_tools(http: httpx.AsyncClient):
    asked = {
        "model": MODEL,
        "max_tokens": 64,
        "messages": [{"role": "user", "content": "What is the capital of France?"}],
    }
    response = await http.post("/v1/messages", json=asked)
    assert response.status_code == 200, response.text
    body = response.json()
    assert not uses_of(body)
    assert body["stop_reason"] in ("end_turn", "max_tokens")
