"""SMG's cases of Anthropic's messages: texts, streams and tools."""

from __future__ import annotations

import json
from collections import defaultdict

import anthropic

from support.ported_cases import ported

MODEL = "tutored"
BASIC = "e2e_test/messages/test_basic.py"
TOOLS = "e2e_test/messages/test_tool_use.py"
PLACE = {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]}
WEATHER = {
    "name": "get_weather",
    "description": "Get the current weather in a given location.",
    "input_schema": PLACE,
}
ADD = {
    "name": "add",
    "description": "Adds two numbers.",
    "input_schema": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
}
GREEDY = {"temperature": 0}
SAN_FRANCISCO = "What is the weather in San Francisco, CA?"


def user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


@ported(BASIC, "TestMessagesBasic::test_non_streaming_basic")
def test_a_message_is_whole(claude: anthropic.Anthropic):
    message = claude.messages.create(model=MODEL, max_tokens=100, messages=[user("Say hello.")])
    assert message.id
    assert (message.role, message.stop_reason) == ("assistant", "end_turn")
    assert message.content[0].type == "text" and message.content[0].text
    assert message.usage.input_tokens > 0 and message.usage.output_tokens > 0


@ported(BASIC, "TestMessagesBasic::test_non_streaming_with_system")
def test_a_system_prompt_reaches_the_model(claude: anthropic.Anthropic):
    asked = {"model": MODEL, "max_tokens": 50, "messages": [user("What is 2+2?")]}
    message = claude.messages.create(system="You are a helpful assistant.", **asked)
    assert message.id and message.stop_reason == "end_turn"
    assert message.content[0].type == "text"
    assert len(message.content[0].text.split()) <= 10
    assert message.usage.input_tokens > claude.messages.create(**asked).usage.input_tokens


@ported(BASIC, "TestMessagesBasic::test_non_streaming_multi_turn")
def test_a_conversation_is_remembered(claude: anthropic.Anthropic):
    turns = [
        user("My name is Alice."),
        {"role": "assistant", "content": "Hello Alice! Nice to meet you."},
        user("What is my name?"),
    ]
    message = claude.messages.create(model=MODEL, max_tokens=100, messages=turns)
    alone = claude.messages.create(model=MODEL, max_tokens=100, messages=turns[-1:])
    assert message.id and message.stop_reason == "end_turn"
    assert message.content[0].type == "text" and "alice" in message.content[0].text.lower()
    assert message.usage.input_tokens > alone.usage.input_tokens, "the earlier turns reach the model"


@ported(BASIC, "TestMessagesBasic::test_streaming_basic")
def test_a_stream_has_every_kind_of_event(claude: anthropic.Anthropic):
    with claude.messages.stream(
        model=MODEL, max_tokens=100, messages=[user("Count from 1 to 20.")]
    ) as stream:
        kinds = {event.type for event in stream}
    assert kinds >= {
        *("message_start", "content_block_start", "content_block_delta"),
        *("content_block_stop", "message_delta", "message_stop"),
    }


@ported(BASIC, "TestMessagesBasic::test_streaming_collects_full_message")
def test_a_stream_is_a_message_in_the_end(claude: anthropic.Anthropic):
    with claude.messages.stream(model=MODEL, max_tokens=100, messages=[user("Say hello.")]) as stream:
        assert stream.get_final_text()


def ask_weather(claude: anthropic.Anthropic, *tools: dict[str, object]):
    message = claude.messages.create(
        model=MODEL, max_tokens=200, extra_body=GREEDY, tools=[*tools], messages=[user(SAN_FRANCISCO)]
    )
    assert message.id
    assert message.stop_reason == "tool_use"
    return message, next(block for block in message.content if block.type == "tool_use")


@ported(TOOLS, "TestToolUseBasic::test_single_tool_call")
def test_a_tool_is_called(claude: anthropic.Anthropic):
    _, call = ask_weather(claude, WEATHER)
    assert call.name == "get_weather" and call.id
    assert isinstance(call.input, dict) and "location" in call.input


@ported(TOOLS, "TestToolUseBasic::test_tool_call_and_result_round_trip")
def test_a_tools_result_is_answered(claude: anthropic.Anthropic):
    first, call = ask_weather(claude, WEATHER)
    result = {"type": "tool_result", "tool_use_id": call.id, "content": json.dumps({"condition": "sunny"})}
    second = claude.messages.create(
        model=MODEL,
        max_tokens=200,
        extra_body=GREEDY,
        tools=[WEATHER],
        messages=[user(SAN_FRANCISCO), {"role": "assistant", "content": first.content}, user([result])],
    )
    assert second.id and second.stop_reason == "end_turn"
    assert any(block.type == "text" and block.text for block in second.content)


@ported(TOOLS, "TestToolUseBasic::test_tool_use_streaming")
def test_a_streamed_call_has_its_input_in_pieces(claude: anthropic.Anthropic):
    pieces: dict[int, str] = defaultdict(str)
    kinds = set()
    with claude.messages.stream(
        model=MODEL, max_tokens=200, extra_body=GREEDY, tools=[WEATHER], messages=[user(SAN_FRANCISCO)]
    ) as stream:
        for event in stream:
            kinds.add(event.type)
            if event.type == "content_block_delta" and hasattr(event.delta, "partial_json"):
                pieces[event.index] += event.delta.partial_json
        message = stream.get_final_message()
    assert kinds >= {"content_block_start", "content_block_delta", "content_block_stop"}
    assert message.stop_reason == "tool_use"
    assert pieces
    assert all(isinstance(json.loads(text), dict) for text in pieces.values())


@ported(TOOLS, "TestToolUseBasic::test_multiple_tools_available")
def test_of_several_tools_the_right_one_is_called(claude: anthropic.Anthropic):
    message = claude.messages.create(
        model=MODEL, max_tokens=200, extra_body=GREEDY, tools=[WEATHER, ADD], messages=[user("Compute (3+5)")]
    )
    assert message.id and message.stop_reason == "tool_use"
    assert next(block for block in message.content if block.type == "tool_use").name == "add"
