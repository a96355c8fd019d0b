"""SGLang's cases of `tool_choice` in a chat, as they are for a model that is not flaky."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from support.ported_cases import ported

MODEL = "tutored"
SOURCE = "test/registered/openai_server/function_call/test_tool_choice.py"
CASES = "TestToolChoiceQwen25."
TEXT = {"type": "string"}
UNIT = {"type": "string", "enum": ["celsius", "fahrenheit"]}
QUESTION = (
    "Say the next step of the trace below: the call of a tool, or the answer.\n\n"
    "Question: what is the weather in top 5 populated cities in the US in celsius?\n\nTraces:\n"
)
TRIP = [
    {"role": "system", "content": "You are a travel assistant for weather and sights."},
    {
        "role": "user",
        "content": "I'm planning a trip to Tokyo next week. What's the weather like? "
        "What are the most amazing sights?",
    },
]


def tool(name: str, properties: dict[str, Any], required: list[str], **fields: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": required}
    return {
        "type": "function",
        "function": {"name": name, "description": name, "parameters": schema} | fields,
    }


def three_tools(**fields: Any) -> list[dict[str, Any]]:
    return [
        tool("get_weather", {"city": TEXT, "unit": UNIT}, ["city"], **fields),
        tool("get_pokemon_info", {"name": TEXT}, ["name"], **fields),
        tool(
            "make_next_step_decision",
            {"decision": TEXT, "content": TEXT},
            ["decision", "content"],
            **fields,
        ),
    ]


TRAVEL = [
    tool("get_weather", {"location": TEXT, "unit": UNIT}, ["location"]),
    tool("get_tourist_attractions", {"city": TEXT}, ["city"]),
]
CERTAIN = {"type": "function", "function": {"name": "get_weather"}}


async def ask(client: openai.AsyncOpenAI, **fields: Any) -> Any:
    asked = {"messages": [{"role": "user", "content": QUESTION}], "max_tokens": 2048, "tools": three_tools()}
    return await client.chat.completions.create(model=MODEL, **asked | fields)


async def calls_of(stream: Any) -> list[Any]:
    """The pieces of calls in a stream."""
    return [
        call
        async for chunk in stream
        if chunk.choices[0].delta.tool_calls
        for call in chunk.choices[0].delta.tool_calls
    ]


@ported(SOURCE, f"{CASES}test_tool_choice_auto_non_streaming")
async def test_calls_left_to_the_model(client: openai.AsyncOpenAI):
    assert (await ask(client, tool_choice="auto")).choices[0].message is not None


@ported(SOURCE, f"{CASES}test_tool_choice_auto_streaming")
async def test_streamed_calls_left_to_the_model(client: openai.AsyncOpenAI):
    stream = await ask(client, tool_choice="auto", stream=True)
    said = [chunk.choices[0].delta async for chunk in stream]
    assert any(delta.content or delta.tool_calls for delta in said)


@ported(SOURCE, f"{CASES}test_tool_choice_required_non_streaming")
async def test_some_call_is_wanted(client: openai.AsyncOpenAI):
    answer = await ask(client, tool_choice="required", temperature=0.2)
    assert answer.choices[0].message.tool_calls


@ported(SOURCE, f"{CASES}test_tool_choice_required_streaming")
async def test_some_streamed_call_is_wanted(client: openai.AsyncOpenAI):
    assert await calls_of(await ask(client, tool_choice="required", stream=True))


@ported(SOURCE, f"{CASES}test_tool_choice_specific_function_non_streaming")
async def test_a_certain_call_is_wanted(client: openai.AsyncOpenAI):
    calls = (await ask(client, tool_choice=CERTAIN)).choices[0].message.tool_calls
    assert calls is not None and len(calls) >= 1
    assert {call.function.name for call in calls} == {"get_weather"}


@ported(SOURCE, f"{CASES}test_tool_choice_specific_function_streaming")
async def test_a_certain_streamed_call_is_wanted(client: openai.AsyncOpenAI):
    calls = await calls_of(await ask(client, tool_choice=CERTAIN, stream=True))
    names = [call.function.name for call in calls if call.function and call.function.name]
    assert names[0] == "get_weather"


@ported(SOURCE, f"{CASES}test_required_streaming_arguments_chunks_json")
async def test_streamed_arguments_are_json(client: openai.AsyncOpenAI):
    stream = await ask(
        client,
        tool_choice="required",
        stream=True,
        tools=three_tools(strict=True),
        max_tokens=1024,
        temperature=0.1,
    )
    written: dict[int, list[str]] = {}
    names: dict[int, str] = {}
    for call in await calls_of(stream):
        pieces = written.setdefault(call.index, [])
        if call.function.name:
            names[call.index] = call.function.name
        if call.function.arguments:
            pieces.append(call.function.arguments)
    assert written
    assert names.keys() == written.keys()
    assert all(isinstance(json.loads("".join(pieces)), dict) for pieces in written.values())


@ported(SOURCE, f"{CASES}test_complex_parameters_required_non_streaming")
async def test_nested_arguments(client: openai.AsyncOpenAI):
    config = {
        "type": "object",
        "properties": {"threshold": {"type": "number"}, "enabled": {"type": "boolean"}},
    }
    data = {
        "type": "object",
        "properties": {"metrics": {"type": "array", "items": TEXT}, "config": config},
        "required": ["metrics"],
    }
    option = {"type": "object", "properties": {"name": TEXT, "value": TEXT}}
    options = {"type": "array", "items": option}
    answer = await ask(
        client,
        messages=[{"role": "user", "content": "Analyze some data with metrics and configuration"}],
        tools=[tool("analyze_data", {"data": data, "options": options}, ["data"], strict=True)],
        tool_choice="required",
        max_tokens=1024,
        temperature=0.1,
    )
    calls = answer.choices[0].message.tool_calls
    assert calls is not None and len(calls) > 0
    for call in calls:
        assert call.function.name == "analyze_data"
        assert isinstance(json.loads(call.function.arguments)["data"], dict)


@pytest.mark.parametrize("tool_choice", ["auto", "required"])
@ported(SOURCE, f"{CASES}test_multi_tool_scenario")
async def test_two_tools_are_called(client: openai.AsyncOpenAI, tool_choice: str):
    answer = await ask(client, messages=TRIP, tools=TRAVEL, tool_choice=tool_choice, temperature=0.2)
    calls = answer.choices[0].message.tool_calls
    assert calls is not None
    assert len(calls) == 2
    assert {call.function.name for call in calls} == {"get_weather", "get_tourist_attractions"}


async def refused(client: openai.AsyncOpenAI, **fields: Any) -> str:
    with pytest.raises(openai.BadRequestError) as refused:
        await ask(client, **fields)
    return str(refused.value)


@ported(SOURCE, f"{CASES}test_error_handling_invalid_tool_choice")
async def test_a_tool_that_is_not_there(client: openai.AsyncOpenAI):
    choice = {"type": "function", "function": {"name": "nonexistent_function"}}
    message = await refused(client, tool_choice=choice)
    assert "Tool 'nonexistent_function' not found in tools list" in message


async def refused_tools(client: openai.AsyncOpenAI, *tools: dict[str, Any]) -> str:
    said = await refused(client, tools=[*tools], tool_choice="required", max_tokens=100, temperature=0.1)
    return said.lower()


@ported(SOURCE, f"{CASES}test_invalid_tool_missing_name")
async def test_a_tool_without_a_name(client: openai.AsyncOpenAI):
    nameless = tool("x", {"test_field": TEXT}, ["test_field"])
    del nameless["function"]["name"]
    assert "name" in await refused_tools(client, nameless)


@ported(SOURCE, f"{CASES}test_invalid_json_schema_in_tool")
async def test_a_tool_with_a_schema_that_is_none(client: openai.AsyncOpenAI):
    wrong = tool("test_function", {"invalid_field": {"type": "unknown_type"}}, ["invalid_field"])
    assert "invalid 'parameters' schema" in await refused_tools(client, wrong)


@ported(SOURCE, f"{CASES}test_conflicting_defs_required_tool_choice")
async def test_definitions_that_contradict_each_other(client: openai.AsyncOpenAI):
    tools = []
    for number, kind in enumerate(("string", "number"), 1):
        each = tool(f"tool{number}", {"data": {"$ref": "#/$defs/DataType"}}, ["data"])
        value = {"type": "object", "properties": {"value": {"type": kind}}, "required": ["value"]}
        each["function"]["parameters"]["$defs"] = {"DataType": value}
        tools.append(each)
    message = await refused_tools(client, *tools)
    assert "multiple schemas" in message
    assert "not supported" in message
