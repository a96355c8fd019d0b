"""SMG's cases of tools in chat completions: auto, required, one by name, and several turns."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any, NamedTuple

import openai
import pytest

from support.ported_cases import ported

MODEL = "tutored"
SOURCE = "e2e_test/chat_completions/test_function_calling.py"
TEXT = {"type": "string"}
UNITS = {"type": "string", "enum": ["celsius", "fahrenheit"]}


def case(name: str) -> pytest.MarkDecorator:
    return ported(SOURCE, name)


def tool(name: str, properties: dict[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    function = {"name": name, "description": f"Use {name}.", "parameters": schema} | more
    return {"type": "function", "function": function}


NUMBER = {"type": "integer"}
ADD = tool("add", {"a": NUMBER, "b": NUMBER}, "a", "b", strict=True)
SUB = tool("sub", {"int_a": NUMBER, "int_b": NUMBER}, "int_a", "int_b", strict=True)
CURRENT = tool("get_current_weather", {"city": TEXT, "unit": UNITS}, "city", "unit")
WEATHER = tool("get_weather", {"city": TEXT, "unit": UNITS}, "city")
POKEMON = tool("get_pokemon_info", {"name": TEXT}, "name")
LOCATED = tool("get_weather", {"location": TEXT, "unit": UNITS}, "location")
SIGHTS = tool("get_tourist_attractions", {"city": TEXT}, "city")
TRAVEL = "I'm planning a trip to Tokyo next week. What's the weather like? What are the most amazing sights?"


class StreamedAnswer(NamedTuple):
    """A stream of one choice, put together."""

    text: str
    calls: list[tuple[str, str]]
    """Names and arguments, in the order of their indexes."""
    ends: list[str]
    pieces: int
    """Deltas of calls."""


def read_stream(stream) -> StreamedAnswer:
    text, ends, pieces = "", [], 0
    calls: dict[int, list[str]] = defaultdict(lambda: ["", ""])
    for chunk in stream:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            ends += [choice.finish_reason] if choice.finish_reason else []
            for piece in choice.delta.tool_calls or ():
                pieces += 1
                calls[piece.index][0] += piece.function.name or ""
                calls[piece.index][1] += piece.function.arguments or ""
    return StreamedAnswer(text, [(name, told) for _, (name, told) in sorted(calls.items())], ends, pieces)


def ask(api: openai.OpenAI, text: str, *tools: dict[str, Any], **fields: Any):
    defaults = {"max_tokens": 512, "temperature": 0}
    messages = [{"role": "user", "content": text}]
    return api.chat.completions.create(
        model=MODEL, messages=messages, tools=list(tools), **(defaults | fields)
    )


def called(answer) -> list[tuple[str, dict[str, Any]]]:
    """Names and decoded arguments of the calls of a whole answer."""
    calls = answer.choices[0].message.tool_calls or ()
    return [(call.function.name, json.loads(call.function.arguments)) for call in calls]


@case("TestOpenAIServerFunctionCalling::test_function_calling_format")
def test_a_tool_is_called_by_its_name(api: openai.OpenAI):
    assert called(ask(api, "Compute (3+5)", ADD))[0][0] == "add"


@case("TestOpenAIServerFunctionCalling::test_function_calling_streaming_simple")
def test_a_streamed_call_has_its_name(api: openai.OpenAI):
    answer = read_stream(ask(api, "What is the temperature in Paris in celsius??", CURRENT, stream=True))
    assert answer.calls[0][0] == "get_current_weather"
    assert answer.ends == ["tool_calls"]


@case("TestOpenAIServerFunctionCalling::test_function_calling_streaming_args_parsing")
def test_a_streamed_calls_arguments_are_json(api: openai.OpenAI):
    answer = read_stream(ask(api, "Please sum 5 and 7, just call the function.", ADD, stream=True))
    ((name, arguments),) = answer.calls
    assert name == "add" and answer.ends == ["tool_calls"]
    assert json.loads(arguments) == {"a": 5, "b": 7}


@case("TestOpenAIServerFunctionCalling::test_function_call_required")
def test_a_required_call_has_a_declared_name_and_fitting_arguments(api: openai.OpenAI):
    answer = ask(
        api,
        "What is the capital of France?",
        SUB,
        WEATHER,
        tool_choice="required",
        temperature=0.8,
        top_p=0.8,
    )
    name, arguments = called(answer)[0]
    if name == "get_weather":
        assert isinstance(arguments["city"], str)
    else:
        assert name == "sub"
        assert isinstance(arguments["int_a"], int) and isinstance(arguments["int_b"], int)


BY_NAME = {"type": "function", "function": {"name": "get_weather"}}


@case("TestOpenAIServerFunctionCalling::test_function_call_specific")
def test_a_named_tool_is_called(api: openai.OpenAI):
    answer = ask(
        api, "What is the capital of France?", SUB, WEATHER, tool_choice=BY_NAME, temperature=0.8, top_p=0.8
    )
    name, arguments = called(answer)[0]
    assert name == "get_weather" and "city" in arguments


def ends_by_index(stream) -> dict[int, list[str]]:
    ends = defaultdict(list)
    for chunk in stream:
        for choice in chunk.choices:
            if choice.finish_reason is not None:
                ends[choice.index].append(choice.finish_reason)
    return ends


@case("TestOpenAIServerFunctionCalling::test_streaming_multiple_choices_finish_reason")
def test_each_of_two_streamed_calls_ends(api: openai.OpenAI):
    stream = ask(
        api,
        "What's the weather like in Paris today?",
        WEATHER,
        tool_choice="required",
        temperature=0.8,
        stream=True,
        n=2,
    )
    assert {index: ends[-1] for index, ends in ends_by_index(stream).items()} == {
        0: "tool_calls",
        1: "tool_calls",
    }


@case("TestOpenAIServerFunctionCalling::test_function_calling_streaming_no_tool_call")
def test_a_tool_that_is_forbidden_is_not_called(api: openai.OpenAI):
    answer = read_stream(ask(api, "Who are you?", CURRENT, tool_choice="none", stream=True))
    assert answer.pieces == 0 and answer.text
    assert answer.ends == ["stop"]


@case("TestOpenAIServerFunctionCalling::test_streaming_multiple_choices_without_tools")
def test_each_of_two_streamed_texts_ends(api: openai.OpenAI):
    stream = api.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "Say hello in one word."}],
        temperature=0.8,
        stream=True,
        max_tokens=10,
        n=2,
    )
    ends = ends_by_index(stream)
    assert set(ends) == {0, 1}
    assert all(found[-1] in ("stop", "length") for found in ends.values())


AUTO = ("What's the weather like in Paris today?", "What is 2+2?")


@case("TestToolChoiceQwen::test_tool_choice_auto_non_streaming")
def test_the_model_decides_whether_to_call(api: openai.OpenAI):
    answer = ask(api, AUTO[0], WEATHER, tool_choice="auto")
    assert "paris" in json.dumps(called(answer)).lower()
    assert answer.choices[0].finish_reason == "tool_calls"
    answer = ask(api, AUTO[1], WEATHER, tool_choice="auto")
    assert not answer.choices[0].message.tool_calls
    assert answer.choices[0].message.content.strip()
    assert answer.choices[0].finish_reason == "stop"


@case("TestToolChoiceQwen::test_tool_choice_auto_streaming")
def test_the_model_decides_whether_to_call_in_a_stream(api: openai.OpenAI):
    answer = read_stream(ask(api, AUTO[0], WEATHER, tool_choice="auto", stream=True))
    assert all(isinstance(json.loads(arguments), dict) for _, arguments in answer.calls)
    assert "paris" in str(answer.calls).lower() and answer.ends == ["tool_calls"]
    answer = read_stream(ask(api, AUTO[1], WEATHER, tool_choice="auto", stream=True))
    assert not answer.calls and answer.text.strip()
    assert answer.ends == ["stop"]


CITIES = "What is the weather in top 5 populated cities in the US in celsius?"
SOME = (WEATHER, POKEMON)


@case("TestToolChoiceQwen::test_tool_choice_required_non_streaming")
def test_a_required_call_is_made(api: openai.OpenAI):
    assert called(ask(api, CITIES, *SOME, tool_choice="required", temperature=0.2))


@case("TestToolChoiceQwen::test_tool_choice_required_streaming")
def test_a_required_call_is_streamed(api: openai.OpenAI):
    assert read_stream(ask(api, CITIES, *SOME, tool_choice="required", stream=True)).pieces > 0


@case("TestToolChoiceQwen::test_tool_choice_specific_function_non_streaming")
def test_only_the_named_tool_is_called(api: openai.OpenAI):
    calls = called(ask(api, CITIES, *SOME, tool_choice=BY_NAME))
    assert calls and {name for name, _ in calls} == {"get_weather"}


@case("TestToolChoiceQwen::test_tool_choice_specific_function_streaming")
def test_only_the_named_tool_is_called_in_a_stream(api: openai.OpenAI):
    answer = read_stream(ask(api, CITIES, *SOME, tool_choice=BY_NAME, stream=True))
    assert answer.calls[0][0] == "get_weather"


@case("TestToolChoiceQwen::test_required_streaming_arguments_chunks_json")
def test_a_required_streamed_call_has_json_in_the_end(api: openai.OpenAI):
    answer = read_stream(ask(api, CITIES, *SOME, tool_choice="required", temperature=0.1, stream=True))
    assert answer.calls
    assert all(name and isinstance(json.loads(arguments), dict) for name, arguments in answer.calls)


@case("TestToolChoiceQwen::test_complex_parameters_required_non_streaming")
def test_nested_parameters_are_followed(api: openai.OpenAI):
    config = {"threshold": {"type": "number"}, "enabled": {"type": "boolean"}}
    data = {
        "type": "object",
        "properties": {
            "metrics": {"type": "array", "items": TEXT},
            "config": {"type": "object", "properties": config},
        },
        "required": ["metrics"],
    }
    option = {"type": "object", "properties": {"name": TEXT, "value": TEXT}}
    analyze = tool("analyze_data", {"data": data, "options": {"type": "array", "items": option}}, "data")
    question = "Analyze some data with metrics and configuration"
    calls = called(ask(api, question, analyze, tool_choice="required", temperature=0.8, max_tokens=4096))
    assert calls
    for name, arguments in calls:
        assert name == "analyze_data"
        assert isinstance(arguments["data"], dict)


@case("TestToolChoiceQwen::test_multi_tool_scenario_auto")
def test_two_tools_are_called_at_once(api: openai.OpenAI):
    calls = called(ask(api, TRAVEL, LOCATED, SIGHTS, tool_choice="auto"))
    assert sorted(name for name, _ in calls) == ["get_tourist_attractions", "get_weather"]


@case("TestToolChoiceQwen::test_multi_tool_scenario_required")
def test_two_tools_are_called_at_once_where_one_must_be(api: openai.OpenAI):
    calls = called(ask(api, TRAVEL, LOCATED, SIGHTS, tool_choice="required"))
    assert sorted(name for name, _ in calls) == ["get_tourist_attractions", "get_weather"]


@case("TestToolChoiceQwen::test_error_handling_invalid_tool_choice")
def test_a_tool_that_is_not_declared_cannot_be_chosen(api: openai.OpenAI):
    choice = {"type": "function", "function": {"name": "nonexistent_function"}}
    with pytest.raises(openai.BadRequestError) as refused:
        ask(api, CITIES, *SOME, tool_choice=choice)
    assert "function 'nonexistent_function' not found in" in str(refused.value)


@case("TestToolChoiceQwen::test_invalid_tool_missing_name")
def test_a_tool_without_a_name_is_refused(api: openai.OpenAI):
    nameless = {"type": "function", "function": {"description": "x", "parameters": {"type": "object"}}}
    with pytest.raises(openai.BadRequestError) as refused:
        ask(api, "Test the function", nameless, tool_choice="required")
    assert "name" in str(refused.value).lower()


def follow_up(api: openai.OpenAI, *, stream: bool):
    question = "What is the weather in San Francisco, CA?"
    call = ask(api, question, LOCATED, tool_choice="required").choices[0].message.tool_calls[0]
    assert call.function.name == "get_weather"
    made = {"name": call.function.name, "arguments": call.function.arguments}
    messages = [
        {"role": "user", "content": question},
        {"role": "assistant", "tool_calls": [{"id": call.id, "type": "function", "function": made}]},
        {"role": "tool", "tool_call_id": call.id, "content": '{"temperature": 22, "condition": "sunny"}'},
    ]
    return api.chat.completions.create(
        model=MODEL, messages=messages, tools=[LOCATED], temperature=0, max_tokens=256, stream=stream
    )


@case("TestMultiTurnToolCall::test_tool_result_followup")
def test_a_tools_result_is_answered(api: openai.OpenAI):
    assert follow_up(api, stream=False).choices[0].message.content


@case("TestMultiTurnToolCall::test_tool_result_followup_streaming")
def test_a_tools_result_is_answered_in_a_stream(api: openai.OpenAI):
    assert read_stream(follow_up(api, stream=True)).text
