"""SGLang's cases of function calls in a chat."""

from __future__ import annotations

import json
from typing import Any

import openai

from support.ported_cases import ported

MODEL = "tutored"
SOURCE = "test/registered/openai_server/function_call/test_openai_function_calling.py"
CASES = "TestOpenAIServerFunctionCalling."
SYSTEM = {"role": "system", "content": "Call the functions that are given where they help, else answer."}
INTEGER = {"type": "integer", "description": "A number"}
TEXT = {"type": "string"}
UNIT = {"type": "string", "enum": ["celsius", "fahrenheit"]}


def tool(name: str, properties: dict[str, Any], required: list[str], **fields: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": required}
    return {
        "type": "function",
        "function": {"name": name, "description": name, "parameters": schema} | fields,
    }


def user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


ADD = tool("add", {"a": INTEGER, "b": INTEGER}, ["a", "b"])
STRICT_ADD = tool("add", {"a": INTEGER, "b": INTEGER}, ["a", "b"], strict=True)
SUB = tool("sub", {"int_a": INTEGER, "int_b": INTEGER}, ["int_a", "int_b"], strict=True)
CITY_WEATHER = tool("get_weather", {"city": TEXT}, ["city"], strict=True)
CURRENT_WEATHER = tool("get_current_weather", {"city": TEXT, "unit": UNIT}, ["city", "unit"])
SOME = {"model": MODEL, "max_tokens": 2048, "temperature": 0.8, "top_p": 0.8}


@ported(SOURCE, f"{CASES}test_function_calling_format")
async def test_a_call(client: openai.AsyncOpenAI):
    answer = await client.chat.completions.create(
        **SOME, messages=[SYSTEM, user("Compute (3+5)")], tools=[ADD], tool_choice="required"
    )
    calls = answer.choices[0].message.tool_calls
    assert isinstance(calls, list) and len(calls) > 0
    assert calls[0].function.name == "add"


@ported(SOURCE, f"{CASES}test_function_calling_streaming_simple")
async def test_the_name_of_a_streamed_call(client: openai.AsyncOpenAI):
    stream = await client.chat.completions.create(
        **SOME,
        messages=[SYSTEM, user("What is the temperature in Paris in celsius??")],
        tools=[CURRENT_WEATHER],
        stream=True,
    )
    chunks = [chunk async for chunk in stream]
    calls = [chunk.choices[0].delta.tool_calls[0] for chunk in chunks if chunk.choices[0].delta.tool_calls]
    names = [call.function.name for call in calls if call.function.name]
    assert names[0] == "get_current_weather"
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


@ported(SOURCE, f"{CASES}test_function_calling_streaming_args_parsing")
async def test_the_arguments_of_a_streamed_call(client: openai.AsyncOpenAI):
    stream = await client.chat.completions.create(
        model=MODEL,
        max_tokens=2048,
        messages=[SYSTEM, user("Please sum 5 and 7, just call the function.")],
        temperature=0.9,
        top_p=0.9,
        stream=True,
        tools=[STRICT_ADD],
    )
    chunks = [chunk async for chunk in stream]
    calls = [chunk.choices[0].delta.tool_calls[0] for chunk in chunks if chunk.choices[0].delta.tool_calls]
    assert [call.function.name for call in calls if call.function.name] == ["add"]
    written = "".join(call.function.arguments for call in calls if call.function.arguments is not None)
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
    arguments = json.loads(written)
    assert (str(arguments["a"]), str(arguments["b"])) == ("5", "7")


@ported(SOURCE, f"{CASES}test_function_call_strict")
async def test_a_strict_call(client: openai.AsyncOpenAI):
    answer = await client.chat.completions.create(
        **SOME, messages=[user("Please compute 5 - 7, using your tool.")], tools=[SUB]
    )
    call = answer.choices[0].message.tool_calls[0].function
    assert call.name == "sub"
    arguments = json.loads(call.arguments)
    assert (str(arguments["int_a"]), str(arguments["int_b"])) == ("5", "7")


@ported(SOURCE, f"{CASES}test_function_call_required")
async def test_some_call_is_wanted(client: openai.AsyncOpenAI):
    answer = await client.chat.completions.create(
        model=MODEL,
        max_tokens=2048,
        messages=[user("Tell me about Paris")],
        temperature=0,
        tools=[SUB, CITY_WEATHER],
        tool_choice="required",
    )
    calls = answer.choices[0].message.tool_calls
    assert calls is not None and len(calls) > 0
    assert calls[0].function.name in ("sub", "get_weather")
    assert isinstance(json.loads(calls[0].function.arguments), dict)


@ported(SOURCE, f"{CASES}test_function_call_specific")
async def test_a_certain_call_is_wanted(client: openai.AsyncOpenAI):
    answer = await client.chat.completions.create(
        **SOME,
        messages=[user("What is the capital of France?")],
        tools=[SUB, CITY_WEATHER],
        tool_choice={"type": "function", "function": {"name": "get_weather"}},
    )
    calls = answer.choices[0].message.tool_calls
    assert calls is not None
    assert calls[0].function.name == "get_weather"
    assert "city" in json.loads(calls[0].function.arguments)


async def reasons_of(stream: Any) -> dict[int, list[str]]:
    """The finish reasons of each choice of a stream."""
    reasons: dict[int, list[str]] = {}
    async for chunk in stream:
        for choice in chunk.choices:
            if choice.finish_reason is not None:
                reasons.setdefault(choice.index, []).append(choice.finish_reason)
    return reasons


@ported(SOURCE, f"{CASES}test_streaming_multiple_choices_finish_reason")
async def test_each_choice_with_a_call_ends(client: openai.AsyncOpenAI):
    weather = tool("get_current_weather", {"location": TEXT, "unit": UNIT}, ["location"])
    stream = await client.chat.completions.create(
        model=MODEL,
        max_tokens=2048,
        messages=[user("What is the weather like in Los Angeles?")],
        temperature=0.8,
        stream=True,
        tools=[weather],
        tool_choice="required",
        n=2,
    )
    reasons = await reasons_of(stream)
    assert reasons.keys() == {0, 1}
    assert {told[-1] for told in reasons.values()} == {"tool_calls"}


@ported(SOURCE, f"{CASES}test_function_calling_streaming_no_tool_call")
async def test_no_call_where_none_is_wanted(client: openai.AsyncOpenAI):
    stream = await client.chat.completions.create(
        **SOME, messages=[user("Who are you?")], stream=True, tools=[CURRENT_WEATHER], tool_choice="none"
    )
    chunks = [chunk async for chunk in stream]
    assert all(chunk.choices[0].delta.tool_calls is None for chunk in chunks)
    assert chunks[-1].choices[0].finish_reason == "stop"


@ported(SOURCE, f"{CASES}test_streaming_multiple_choices_without_tools")
async def test_each_choice_ends(client: openai.AsyncOpenAI):
    stream = await client.chat.completions.create(
        model=MODEL,
        messages=[user("Say hello in one word.")],
        temperature=0.8,
        stream=True,
        max_tokens=10,
        n=2,
    )
    reasons = await reasons_of(stream)
    assert reasons.keys() == {0, 1}
    assert {told[-1] for told in reasons.values()} <= {"stop", "length"}
