"""What a client sends again is recognised when it means the same, and only then."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.core.tokenizer import count_common_messages
from radixway.core.tokenizer.messages import is_same_message


def call(arguments: Any, name: str = "weather", **fields: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "content": None, "tool_calls": [{"function": function, **fields}]}


def said(content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **fields}


def asked(content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **fields}


SAME = {
    "no content and empty content": (said(None), said("")),
    "no content and no parts": (said(None), said([])),
    "a text and its only part": (asked("Hi"), asked([{"type": "text", "text": "Hi"}])),
    "a text and a bare part": (asked("Hi"), asked(["Hi"])),
    "a text in two blocks": (
        said("Hi there"),
        said([{"text": "Hi "}, {"type": "output_text", "text": "there"}]),
    ),
    "an answer trimmed": (said("\n\nHi \n"), said("Hi")),
    "reasoning dropped": (said("Hi", reasoning_content="hm"), said("Hi")),
    "reasoning null": (said("Hi", reasoning_content="hm"), said("Hi", reasoning=None)),
    "reasoning under another name": (said("Hi", reasoning_content="hm\n"), said("Hi", reasoning="hm")),
    "thinking cut from the content": (said("<think>\nhm\n</think>\n\nHi"), said("Hi")),
    "arguments written anew": (call('{"b":2.0,"a":"é"}'), call('{ "a": "\\u00e9", "b": 2 }')),
    "arguments as an object": (call('{"a": [1, {"b": null}]}'), call({"a": [1, {"b": None}]})),
    "no arguments": (call(""), call("{}")),
    "null arguments": (call(None), call({})),
    "broken arguments": (call('{"a": '), call('{"a": ')),
    "an id left out": (call("{}", id="call_1"), call("{}")),
    "no calls": (said("Hi", tool_calls=None), said("Hi", tool_calls=[])),
    "an index of a streamed call": (call("{}", index=0, type="function"), call("{}")),
    "fields that templates do not read": (asked("Hi"), asked("Hi", cache_control={"type": "ephemeral"})),
}

DIFFERENT = {
    "another role": (asked("Hi"), said("Hi")),
    "another text": (asked("Hi"), asked("Ho")),
    "a question's white space": (asked("Hi"), asked("Hi\n")),
    "another answer": (said("Hi"), said("Hi!")),
    "an emptied answer": (said("Hi"), said("")),
    "another reasoning": (said("Hi", reasoning_content="hm"), said("Hi", reasoning_content="oh")),
    "reasoning made up": (said("Hi"), said("Hi", reasoning_content="oh")),
    "another image": (
        asked([{"type": "image_url", "image_url": {"url": "a"}}]),
        asked([{"type": "image_url", "image_url": {"url": "b"}}]),
    ),
    "an image more": (asked("Hi"), asked(["Hi", {"type": "image_url", "image_url": {"url": "b"}}])),
    "another value": (call('{"a": 1}'), call('{"a": 2}')),
    "true for one": (call('{"a": 1}'), call('{"a": true}')),
    "a text for a number": (call('{"a": 1}'), call('{"a": "1"}')),
    "lists in another order": (call('{"a": [1, 2]}'), call('{"a": [2, 1]}')),
    "another tool": (call("{}"), call("{}", name="news")),
    "another id": (call("{}", id="call_1"), call("{}", id="call_2")),
    "a call dropped": (call("{}"), said(None)),
    "repaired arguments": (call('{"a": '), call('{"a": 1}')),
    "a legacy call": (said(None, function_call={"name": "a", "arguments": "{}"}), said(None)),
    "a result of another call": (
        {"role": "tool", "content": "21", "tool_call_id": "1"},
        {"role": "tool", "content": "21", "tool_call_id": "2"},
    ),
    "calls that are no objects": (said(None, tool_calls=["a"]), said(None, tool_calls=[{"function": 3}])),
}


@pytest.mark.parametrize(("known", "sent"), SAME.values(), ids=SAME)
def test_a_message_means_the_same_with(known: dict[str, Any], sent: dict[str, Any]) -> None:
    assert is_same_message(known, sent)


@pytest.mark.parametrize(("known", "sent"), DIFFERENT.values(), ids=DIFFERENT)
def test_a_message_is_another_with(known: dict[str, Any], sent: dict[str, Any]) -> None:
    assert not is_same_message(known, sent)


def test_turns_are_common_up_to_the_first_that_differs() -> None:
    known = [asked("a"), said("b"), asked("c")]
    assert count_common_messages(known, [asked("a"), said("b"), asked("c"), said("d")]) == 3
    assert count_common_messages(known, [asked("a"), said("x"), asked("c")]) == 1
    assert count_common_messages(known, [asked("a")]) == 1
    assert count_common_messages([], known) == 0


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), json_values, max_size=4), st.integers(0, 4))
def test_arguments_survive_any_way_of_writing_their_json(value: dict[str, Any], indent: int) -> None:
    turned = dict(reversed(value.items()))
    for text in (json.dumps(turned, indent=indent), json.dumps(value, ensure_ascii=False), value):
        assert is_same_message(call(json.dumps(value)), call(text))


def test_arguments_nested_beyond_what_json_can_read_are_compared_as_text() -> None:
    deep = "[" * 200_000
    assert is_same_message(call(deep), call(deep))
    assert not is_same_message(call(deep), call(deep + "["))
