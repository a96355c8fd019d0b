"""Thought, Action, Observation: texts in, texts out."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.chat.plugins.plugin import ChatPlugin, PluginTool
from radixway.chat.plugins.react import (
    ReactAnswerReader,
    build_instructions,
    find_tool,
    parse_action,
    parse_arguments,
)


async def nothing(_: dict[str, Any]) -> str:
    return ""


def tool(name: str, *parameters: str) -> PluginTool:
    properties = {each: {"type": "string", "description": f"the {each}"} for each in parameters}
    return PluginTool(
        name, f"{name}s.", {"type": "object", "properties": properties, "required": []}, nothing
    )


def test_what_the_recorded_model_said_is_a_call() -> None:
    """From the recorded traffic of the real worker (`ws_plugin.jsonl`)."""
    said = (
        "\nThought: I should use a tool\nAction: get_instructions\nAction Input: "
        '{"request": {"params": {"supporting_style": "calm", "users_query": "hello"}}}'
    )
    action = parse_action(said)
    assert action is not None and action.tool == "get_instructions"
    assert action.thought == "I should use a tool"
    found = parse_arguments(action.arguments, tool("get_instructions", "supporting_style", "users_query"))
    assert found == {"supporting_style": "calm", "users_query": "hello"}


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('{"request": {"params": {"a": 1}, "payload": {"b": 2}}}', {"a": 1, "payload": {"b": 2}}),
        ('{"params": {"a": 1}}', {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('Here you are: {"a": 1} -- good luck', {"a": 1}),
        ('{"request": {"params": {"a": "x"', {"a": "x"}),
        ("{'a': 'x', 'b': None}", {"a": "x", "b": None}),
        ('{"a": [1, 2,],}', {"a": [1, 2]}),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
        ('"just words"', {"only": "just words"}),
    ],
)
def test_arguments_are_read_as_models_write_them(text: str, arguments: dict[str, Any]) -> None:
    assert parse_arguments(text, tool("t", "only")) == arguments


@pytest.mark.parametrize("text", ["", "{[", '{"request": 5}', '{"params": [1]}', "{{{" * 5000])
def test_arguments_that_cannot_be_read_are_told_to_the_model(text: str) -> None:
    with pytest.raises(ValueError, match="."):
        parse_arguments(text, tool("t", "a", "b"))


def test_a_tool_is_found_by_its_name_a_part_of_it_or_one_that_is_alike() -> None:
    tools = [tool("getUrlContent"), tool("calculate")]
    for name in ("getUrlContent", "geturlcontent", "getUrlContent(url)", "get_url_content", "getUrlContnt"):
        assert find_tool(name, tools) is tools[0], name
    for name in ("", "delete_everything", "e"):
        assert find_tool(name, tools) is None, name


def test_the_model_is_told_of_every_tool_and_parameter() -> None:
    told = build_instructions(
        ChatPlugin("u", "Pears", "Use it for pears.", (tool("buy", "count"), tool("sell")))
    )
    assert all(
        word in told for word in ("> buy: buys.", "count (string): the count", "'buy', 'sell'", "pears")
    )


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("Thought: I now know the final answer\nOpen Assistant: It is 42.End!", "It is 42."),
        ("Final Answer: 42", "42"),
        ("It is 42.", "It is 42."),
        ("Thought: I know.\nIt is 42.", "It is 42."),
        ("Thought: It is 42.", "Thought: It is 42."),
        ("Open Assistant: The End! of it all", "The End! of it all"),
        ("", ""),
    ],
)
def test_the_answer_is_what_is_meant_for_the_user(said: str, answer: str) -> None:
    reader = ReactAnswerReader()
    assert reader.feed(said) + reader.flush() == answer


@given(st.lists(st.integers(0, 60), max_size=8), st.sampled_from(["", "Thought: x\nOpen Assistant: "]))
def test_how_an_answer_is_divided_changes_nothing(cuts: list[int], before: str) -> None:
    said = before + "Pears are fruit, and this is the End! of the answer. End!"
    at = [0, *sorted(cut for cut in cuts if cut < len(said)), len(said)]
    reader = ReactAnswerReader()
    told = "".join(reader.feed(said[begin:end]) for begin, end in itertools.pairwise(at))
    assert told + reader.flush() == "Pears are fruit, and this is the End! of the answer."


def test_an_answer_is_told_as_it_comes_and_a_call_is_not() -> None:
    answer, call = ReactAnswerReader(), ReactAnswerReader()
    assert answer.feed("Thought: x\nOpen Assistant: Pears are fruit.") == "Pears are fr"
    assert call.feed("Thought: x\nAction: buy\nAction Input: {}\nOpen Assistant: Bought!") == ""
