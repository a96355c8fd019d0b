"""Tool calls and thinking in texts that come in pieces: every division of a text gives the same message."""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixway.core.parsers import (
    AnswerFormat,
    CallDelta,
    MessageDelta,
    ModelFamily,
    ToolFamily,
    detect_thinking_place,
)
from radixway.core.parsers.parts import ThinkingPlace
from radixway.core.parsers.reader import detect_thinking_style, detect_tool_family

Message = tuple[str, str, list[tuple[str, str]]]
"""Reasoning, content, and the calls' names with their arguments."""


def read(reading: AnswerFormat, pieces: Sequence[str]) -> Message:
    """The message that these pieces add up to; every rule of a stream is checked on the way."""
    reader = reading.create_reader()
    reasoning = content = ""
    calls: list[list[str]] = []
    for number, piece in enumerate([*pieces, ""]):
        delta: MessageDelta = reader.read_delta(piece, last=number == len(pieces))
        reasoning += delta.reasoning
        content += delta.content
        for call in delta.calls:
            if call.name is not None:
                assert call.index == len(calls) and call.id
                calls.append([call.name, ""])
            else:
                assert call.index == len(calls) - 1 and call.id is None and call.arguments
            calls[call.index][1] += call.arguments
    assert reader.has_tool_call == bool(calls)
    return reasoning, content, [(name, arguments) for name, arguments in calls]


def said(text: str, tools: ToolFamily | None, place: ThinkingPlace = "after", **options: Any) -> Message:
    """The message a text is read as, whole and letter by letter."""
    reading = AnswerFormat(place, tools, **options)
    whole = read(reading, [text])
    assert read(reading, list(text)) == whole
    return whole


TOOL = '{"name": "look", "arguments": {"at": "a \\"b}\\" {", "n": [1, {"x": null}]}}'
ARGUMENTS = '{"at": "a \\"b}\\" {", "n": [1, {"x": null}]}'


@pytest.mark.parametrize(
    ("family", "text", "content", "calls"),
    [
        ("hermes", "Just text, 1 < 2, <tool> and {}.  ", "Just text, 1 < 2, <tool> and {}.  ", []),
        ("hermes", f"<tool_call>\n{TOOL}\n</tool_call>", "", [("look", ARGUMENTS)]),
        ("hermes", f"Wait.\n\n<tool_call>{TOOL}</tool_call>\n", "Wait.", [("look", ARGUMENTS)]),
        (
            "hermes",
            f'<tool_call>\n{TOOL}\n</tool_call>\n<tool_call>{{"name": "f", "arguments": {{}}}}</tool_call>',
            "",
            [("look", ARGUMENTS), ("f", "{}")],
        ),
        ("hermes", f"<tool_call>{TOOL}</tool_call> Done.", " Done.", [("look", ARGUMENTS)]),
        ("hermes", f"<tool_call>{TOOL}", "", [("look", ARGUMENTS)]),
        ("hermes", f"<tool_call>{TOOL[:40]}", "", [("look", ARGUMENTS[:10])]),
        ("hermes", '<tool_call>{"arguments": {"a": 1}, "name": "f"}</tool_call>', "", [("f", '{"a": 1}')]),
        ("hermes", '<tool_call>{"name": "f", "arguments": "[1]"}</tool_call>', "", [("f", "[1]")]),
        ("hermes", '<tool_call>{"name": "f"}</tool_call>', "", [("f", "{}")]),
        ("hermes", '<tool_call>{"name": "f", "arguments": {}, "more": [1]}</tool_call>', "", [("f", "{}")]),
        ("hermes", "so <tool_call>oops</tool_call>", "so <tool_call>oops</tool_call>", []),
        ("hermes", f"<tool_call>no <tool_call>{TOOL}</tool_call>", "<tool_call>no", [("look", ARGUMENTS)]),
        ("hermes", '<tool_call>{"name": 5}</tool_call>', '<tool_call>{"name": 5}</tool_call>', []),
        ("hermes", '<tool_call>{"na', '<tool_call>{"na', []),
        ("hermes", "a <tool_c", "a <tool_c", []),
        ("llama3", '{"name": "f", "parameters": {"a": "你好"}}', "", [("f", '{"a": "你好"}')]),
        ("llama3", '<|python_tag|>{"name": "f", "parameters": {}}', "", [("f", "{}")]),
        (
            "llama3",
            ' {"name": "f", "parameters": {}}; {"name": "g", "parameters": {"a": 1}};',
            "",
            [("f", "{}"), ("g", '{"a": 1}')],
        ),
        ("llama3", '{"name": "Bob", "age": 3}\n', '{"name": "Bob", "age": 3}\n', []),
        ("llama3", "Hello {you}", "Hello {you}", []),
        ("llama3", 'Let me see <|python_tag|>{"name": "f", "parameters": {}}', "Let me see", [("f", "{}")]),
        ("llama3", "<|python_tag|>print(1)", "<|python_tag|>print(1)", []),
        ("llama3", '{"name": "f", "parameters": {}} and', " and", [("f", "{}")]),
        ("mistral", f"[TOOL_CALLS][{TOOL}, {TOOL}]", "", [("look", ARGUMENTS)] * 2),
        ("mistral", f"[TOOL_CALLS] [{TOOL}]", "", [("look", ARGUMENTS)]),
        ("mistral", 'Hm.[TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g{}', "Hm.", [("f", '{"a": 1}'), ("g", "{}")]),
        ("mistral", "[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{}", "", [("f", "{}")]),
        ("mistral", "[TOOL_CALLS]what is {this}", "[TOOL_CALLS]what is {this}", []),
        ("mistral", "[TOOL_CALLS] nothing", "[TOOL_CALLS] nothing", []),
        ("mistral", "see [1] and [TOOLS]", "see [1] and [TOOLS]", []),
        ("pythonic", "[look(at='a', n=[1, -2.5, None], yes=true), f()]", "",
         [("look", '{"at": "a", "n": [1, -2.5, null], "yes": true}'), ("f", "{}")]),
        ("pythonic", "[a.b(x={'k': (1, 2)})]\n", "", [("a.b", '{"x": {"k": [1, 2]}}')]),
        ("pythonic", "[f(1)]", "[f(1)]", []),
        ("pythonic", "[f(x=open('y'))]", "[f(x=open('y'))]", []),
        ("pythonic", "[f(", "[f(", []),
        ("pythonic", "[1, 2]", "[1, 2]", []),
        ("pythonic", "  Hello [f()]", "  Hello [f()]", []),
        (None, "<tool_call>{}</tool_call>", "<tool_call>{}</tool_call>", []),
    ],
)  # fmt: skip
def test_calls_are_told_from_content(
    family: ToolFamily | None, text: str, content: str, calls: list[tuple[str, str]]
) -> None:
    assert said(text, family) == ("", content, calls)


def in_order(reading: AnswerFormat, pieces: Sequence[str]) -> list[tuple[str, str]]:
    """Thoughts, texts and calls in the order in which these pieces say them."""
    reader = reading.create_reader()
    order: list[tuple[str, str]] = []
    for number, piece in enumerate([*pieces, ""]):
        for part in reader.read_parts(piece, last=number == len(pieces)):
            kind, text = type(part).__name__, part.arguments if isinstance(part, CallDelta) else part.text
            kind += str(part.index) if isinstance(part, CallDelta) else ""
            if order and order[-1][0] == kind:
                text = order.pop()[1] + text
            order.append((kind, text))
    return order


def test_what_is_said_around_calls_keeps_its_place() -> None:
    text = f"<think>Hm.</think>Wait. <tool_call>{TOOL}</tool_call> Done."
    order = [
        ("ThinkingPart", "Hm."),
        ("TextPart", "Wait."),
        ("CallDelta0", ARGUMENTS),
        ("TextPart", " Done."),
    ]
    assert in_order(AnswerFormat("before", "hermes"), [text]) == order


SCALARS = st.text(max_size=6) | st.integers() | st.none()
FRAGMENTS = st.sampled_from(
    [
        *(
            "<tool_call>",
            "</tool_call>",
            "<tool",
            "_call>",
            "[TOOL_CALLS]",
            "[ARGS]",
            "[",
            "]",
            "<|python_tag|>",
        ),
        *(
            "<think>",
            "</think>",
            "<",
            "think>",
            "\n",
            " ",
            ";",
            ",",
            "f",
            "(a=1)",
            '"',
            "{",
            "}",
            "\\",
            "text",
        ),
        *(
            '{"name": "f", "arguments": ',
            '{"a": [1, "}"]}',
            '{"name": "f", "parameters": {}}',
            TOOL,
            "你",
            "😀",
        ),
    ]
)


@given(
    st.lists(FRAGMENTS, max_size=14).map("".join),
    st.sampled_from([None, "hermes", "llama3", "mistral", "pythonic"]),
    st.sampled_from(["before", "inside", "after"]),
    st.lists(st.integers(0, 200), max_size=12),
)
def test_how_a_text_is_divided_makes_no_difference(
    text: str, family: ToolFamily | None, place: ThinkingPlace, cuts: list[int]
) -> None:
    reading = AnswerFormat(place, family)
    whole = read(reading, [text])
    bounds = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    assert read(reading, [text[a:b] for a, b in pairwise(bounds)]) == whole
    assert read(reading, list(text)) == whole
    assert in_order(reading, list(text)) == in_order(reading, [text])


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.text(min_size=1, max_size=8),
            st.dictionaries(st.text(max_size=4), st.recursive(SCALARS, st.lists, max_leaves=6)),
        ),
        min_size=1,
        max_size=3,
    ),
    st.booleans(),
)
def test_every_call_written_as_json_is_found(
    calls: list[tuple[str, dict[str, Any]]], ascii_only: bool
) -> None:
    def written(name: str, arguments: Any, key: str) -> str:
        return json.dumps({"name": name, key: arguments}, ensure_ascii=ascii_only)

    texts: dict[ToolFamily, str] = {
        "hermes": "\n".join(f"<tool_call>\n{written(*call, 'arguments')}\n</tool_call>" for call in calls),
        "llama3": "; ".join(written(*call, "parameters") for call in calls),
        "mistral": f"[TOOL_CALLS][{', '.join(written(*call, 'arguments') for call in calls)}]",
    }
    for family, text in texts.items():
        reasoning, content, found = said(text, family)
        assert (reasoning, content) == ("", "")
        assert [(name, json.loads(arguments)) for name, arguments in found] == calls


def test_only_so_many_calls_are_given_out_as_were_asked_for() -> None:
    text = f"<tool_call>{TOOL}</tool_call> a <tool_call>{TOOL}</tool_call> b"
    assert said(text, "hermes", max_calls=1) == ("", " a b", [("look", ARGUMENTS)])


@pytest.mark.parametrize(
    ("place", "text", "reasoning", "content"),
    [
        ("before", "<think>\nHm, 1 < 2.\n</think>\n\nYes.\n", "Hm, 1 < 2.", "Yes.\n"),
        ("before", "\n<think>\n\n</think>\n\nYes.", "", "Yes."),
        ("before", "Yes. <think>no</think>", "", "Yes. <think>no</think>"),
        ("before", "  <thin", "", "  <thin"),
        ("before", "<think>cut", "cut", ""),
        ("inside", "Hm.\n</think>\nYes.", "Hm.", "Yes."),
        ("inside", "<think>\nHm.</think>Yes.", "Hm.", "Yes."),
        ("inside", "Hm. </thin", "Hm. </thin", ""),
        ("inside", "", "", ""),
        ("after", "Yes </think>", "", "Yes </think>"),
    ],
)
def test_thinking_is_told_from_the_answer(
    place: ThinkingPlace, text: str, reasoning: str, content: str
) -> None:
    assert said(text, None, place) == (reasoning, content, [])


def test_a_call_comes_after_the_thinking_and_never_from_within() -> None:
    text = f"<think>Perhaps <tool_call>{TOOL}</tool_call>?</think>\n\n<tool_call>{TOOL}</tool_call>"
    reasoning, content, calls = said(text, "hermes", "before")
    assert reasoning == f"Perhaps <tool_call>{TOOL}</tool_call>?"
    assert (content, calls) == ("", [("look", ARGUMENTS)])


def test_the_family_is_read_from_the_template() -> None:
    assert detect_tool_family("… <tool_call>\n{{ tool_call }}\n</tool_call> …") == "hermes"
    assert detect_tool_family("<tool_call>\n<function=example>") is None
    assert detect_tool_family("{{ '[TOOL_CALLS]' }}") == "mistral"
    assert detect_tool_family('{{ "<|python_tag|>" }} {"name": …, "parameters": …}') == "llama3"
    assert detect_tool_family("[func_name1(params_name1=params_value1)]") == "pythonic"
    assert detect_tool_family("{{ messages }}") is None
    assert detect_thinking_style("'<think>\\n\\n</think>\\n\\n'") == "qwen3"
    assert detect_thinking_style("content.split('</think>')[-1]") == "deepseek_r1"
    assert detect_thinking_style("{{ messages }}") is None


def test_what_an_operator_names_goes_before_what_the_templates_tell() -> None:
    templates = ["{{ messages }}", "<tool_call> <think>"]
    assert ModelFamily.detect_family(templates) == ModelFamily("hermes", "qwen3")
    assert ModelFamily.detect_family(templates, tools="mistral", thinking="deepseek_r1") == ModelFamily(
        "mistral", "deepseek_r1"
    )
    assert ModelFamily.detect_family(templates, tools="none", thinking="none") == ModelFamily()


def test_a_reading_names_the_markers_that_its_text_must_contain() -> None:
    assert AnswerFormat("after", None).markers == ()
    assert AnswerFormat("before", "hermes").markers == ("<tool_call>", "</tool_call>", "<think>", "</think>")


def test_where_an_answer_begins_is_read_from_its_prompt() -> None:
    assert detect_thinking_place("qwen3", "<|im_start|>assistant\n", None) == "before"
    assert detect_thinking_place("qwen3", "<|im_start|>assistant\n<think>\n", None) == "inside"
    assert detect_thinking_place("qwen3", "assistant\n<think>\n\n</think>\n\n", None) == "after"
    assert detect_thinking_place("deepseek_r1", "<｜Assistant｜>", None) == "inside"
    assert detect_thinking_place("deepseek_r1", "…<think>a", "<think>a") == "inside"
    assert detect_thinking_place("deepseek_r1", "…Yes", "Yes") == "after"
    assert detect_thinking_place(None, "<think>\n", None) == "after"
