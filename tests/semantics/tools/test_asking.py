"""What is read of a request, whatever it holds."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.semantics.tools.tool_definition import called_tools, may_choose_tools, read_client_tools


def read(tools):
    body = {"tools": tools}
    return read_client_tools(msgspec.json.encode(body), body)


@pytest.mark.parametrize(
    ("body", "whether"),
    [
        ({}, False),
        ({"tool_choice": "auto"}, True),
        ({"tools": [{}]}, True),
        ({"tools": [], "tool_choice": None}, False),
        ({"tools": [{}], "tool_choice": "none"}, False),
        ({"tools": [{}], "tool_choice": "required"}, False),
        ({"tools": [{}], "tool_choice": {"type": "function"}}, False),
    ],
)
def test_a_model_may_choose_where_it_says_so_or_brings_a_list(body, whether):
    assert may_choose_tools(body) is whether


def test_names_that_come_twice_and_tools_without_a_name_are_not_judged():
    tools = [{"function": {"name": "a", "description": "A"}}, {"custom": 1}, {"function": {"name": "a"}}]
    own = read([*tools, {"function": {"name": "b"}}, {"function": {"name": ""}}])
    assert [(tool.name, tool.description) for tool in own.tools] == [("a", "A"), ("b", "")]
    assert own.places == (0, 3) and len(own.raw) == 5


def test_what_is_kept_of_a_list_does_not_hold_the_requests_body():
    own = read([{"function": {"name": "a", "parameters": {"x": "y" * 1000}}}])
    assert len(bytes(own.tools[0].definition)) == 0 and len(bytes(own.raw[0])) > 1000


def test_calls_are_found_in_both_forms_of_any_message():
    messages = [
        {"role": "assistant", "tool_calls": [{"function": {"name": "a"}}, {"function": {"name": "b"}}]},
        {"role": "assistant", "function_call": {"name": "c"}},
        {"role": "tool", "content": "d"},
    ]
    assert called_tools({"messages": messages}) == {"a", "b", "c"}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["function", "name", "tool_calls", "function_call", "description", "x"]), inner
        )
    ),
    max_leaves=12,
)


@given(tools=ANYTHING, messages=ANYTHING, choice=ANYTHING)
def test_no_body_is_an_error(tools, messages, choice):
    body = {"tools": tools, "messages": messages, "tool_choice": choice}
    may_choose_tools(body)
    called_tools(body)
    own = read_client_tools(json.dumps(body).encode(), body)
    if own is not None:
        assert len(own.raw) == len(tools) and len(own.places) == len(own.tools) <= len(tools)
