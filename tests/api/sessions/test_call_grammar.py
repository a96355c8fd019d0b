"""Forced calls follow a grammar whose every sentence is a call that the reader of answers finds."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Literal

import pytest

from radixway.api.sessions.call_grammar import build_call_grammar
from radixway.core.parsers import CALL_FORMS, AnswerFormat, ToolFamily
from radixway.engine.grammar_compiler import GrammarCompiler, OutputConstraint
from support.conversations import tokenizer

WEATHER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "unit": {"enum": ["C", "F", None]},
        "share": {"type": ["number", "null"]},
        "places": {"type": "array", "items": {"anyOf": [{"type": "boolean"}, {"const": 'a"b'}]}},
        "more": {"type": "object", "properties": {"é": {"$ref": "#/elsewhere"}}},
    },
    "required": ["days", "city"],
    "additionalProperties": False,
}
TOOLS = [
    {"type": "function", "function": {"name": 'get "weather"', "parameters": WEATHER}},
    {"type": "function", "function": {"name": "clock"}},
]
ARGUMENTS: list[dict[str, Any]] = [
    {"days": -2, "city": 'Bern "\\\n</tool_call> 北京'},
    {"days": 0, "city": "", "unit": None, "share": 1.5e-7, "places": [True, 'a"b'], "more": {"é": [{}]}},
    {"days": 10, "city": "x", "places": [], "more": {}},
]


def written(family: ToolFamily, *calls: tuple[str, Any]) -> str:
    """Calls as a model of the family writes them."""
    form = CALL_FORMS[family]
    texts = [json.dumps({"name": name, form.arguments: given}, ensure_ascii=False) for name, given in calls]
    return form.first + form.between.join(form.opens + text + form.closes for text in texts) + form.last


@cache
def compiler() -> GrammarCompiler:
    known = tokenizer()
    eos = known.token_id("eos_token")
    assert eos is not None
    return GrammarCompiler(known, frozenset({eos}), known.size)


def accepts(grammar: str, text: str) -> bool:
    """True if the grammar allows `text`, token by token, and an end behind it."""
    ends = tokenizer().eos_token_ids
    matcher = compiler().compile_constraint(OutputConstraint("grammar", grammar)).make_matcher()
    for token_id in tokenizer().encode(text, add_special_tokens=False):
        if matcher.is_finished or not matcher.allowed_tokens(ends)[token_id]:
            return False
        matcher.accept_token(token_id)
    return matcher.is_finished or bool(matcher.allowed_tokens(ends)[list(ends)].any())


@pytest.mark.parametrize("family", CALL_FORMS)
@pytest.mark.parametrize("given", ARGUMENTS)
def test_calls_that_follow_the_schema_are_allowed_and_read_back(family: ToolFamily, given: Any) -> None:
    reading = AnswerFormat("after", family)
    grammar = build_call_grammar(TOOLS, reading, several=True)
    text = written(family, ('get "weather"', given), ("clock", {}))
    assert accepts(grammar, text)
    calls = reading.create_reader().read_delta(text, last=True).calls
    assert [(call.name, json.loads(call.arguments)) for call in calls] == [
        ('get "weather"', given),
        ("clock", {}),
    ]


@pytest.mark.parametrize(
    "calls",
    [
        [("other", {})],
        [("clock", {"a": 1})],
        [('get "weather"', {"days": 1})],
        [('get "weather"', {"days": 1.5, "city": "x"})],
        [('get "weather"', {"days": 1, "city": 5})],
        [('get "weather"', {"days": 1, "city": "x", "unit": "K"})],
        [('get "weather"', {"days": 1, "city": "x", "wind": 1})],
        [('get "weather"', {"days": 1, "city": "x", "places": ["no"]})],
        [("clock", {}), ("clock", {})],
        [],
    ],
)
def test_what_is_no_call_of_a_tool_is_not_allowed(calls: list[tuple[str, Any]]) -> None:
    grammar = build_call_grammar(TOOLS, AnswerFormat("after", "hermes"), several=False)
    assert not accepts(grammar, written("hermes", *calls))


@pytest.mark.parametrize("text", ["Sure. ", "<think>\nWell.\n</think>\n\n"])
def test_nothing_is_said_before_a_call(text: str) -> None:
    grammar = build_call_grammar(TOOLS, AnswerFormat("after", "hermes"), several=False)
    assert not accepts(grammar, text + written("hermes", ("clock", {})))


@pytest.mark.parametrize(
    ("place", "thinking"),
    [
        ("inside", "Well, 1 < 2.\n</think>\n\n"),
        ("inside", "</think>"),
        ("before", "<think>\n<a> <<b>\n</think>\n\n"),
        ("before", ""),
    ],
)
def test_a_model_that_thinks_may_think_first(place: Literal["inside", "before"], thinking: str) -> None:
    reading = AnswerFormat(place, "hermes")
    grammar = build_call_grammar(TOOLS, reading, several=False)
    call = written("hermes", ("clock", {}))
    assert accepts(grammar, thinking + call)
    delta = reading.create_reader().read_delta(thinking + call, last=True)
    assert [each.name for each in delta.calls] == ["clock"] and not delta.content.strip()
    assert not accepts(grammar, thinking + "No. " + call)


def test_a_schema_of_any_depth_has_a_grammar() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(100):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a", 5]}
    tools = [{"type": "function", "function": {"name": "deep", "parameters": schema}}]
    grammar = build_call_grammar(tools, AnswerFormat("after", "hermes"), several=False)
    value: Any = "x"
    for _ in range(100):
        value = {"a": value}
    assert accepts(grammar, written("hermes", ("deep", value)))


@pytest.mark.parametrize("required", [[], ["a"]])
def test_a_grammar_is_about_as_long_as_its_schema(required: list[str]) -> None:
    schema: dict[str, Any] = {"type": ["string", "string"]}
    for _ in range(6):
        lists = {"type": ["array", "array"], "items": schema}
        properties = {"a": schema, "b": {"type": "integer"}, "c": lists, "d": {"type": "null"}}
        schema = {"type": "object", "properties": properties, "required": required}
    tools = [{"type": "function", "function": {"name": "wide", "parameters": schema}}]
    grammar = build_call_grammar(tools, AnswerFormat("after", "hermes"), several=False)
    assert len(grammar) < 4 * len(json.dumps(schema))


@pytest.mark.parametrize(
    ("given", "is_allowed"),
    [
        ({}, True),
        ({"a": 1}, True),
        ({"b": 1}, True),
        ({"a": 1, "c": 1}, True),
        ({"a": 1, "b": 1, "c": 1}, True),
        ({"c": 1, "a": 1}, False),
        ({"a": 1, "d": 1}, False),
    ],
)
def test_any_of_the_optional_properties_may_be_left_out(given: Any, is_allowed: bool) -> None:
    schema = {"type": "object", "properties": {name: {"type": "integer"} for name in "abc"}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    grammar = build_call_grammar(tools, AnswerFormat("after", "hermes"), several=False)
    assert accepts(grammar, written("hermes", ("f", given))) == is_allowed
