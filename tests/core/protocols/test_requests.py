"""What bodies ask, and what they are refused for: a 400 that names the field, and nothing worse."""

from __future__ import annotations

import base64
import copy
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import radixway.bundled
from radixway.core.http import BadBodyError
from radixway.core.parsers import AnswerFormat, ModelFamily
from radixway.core.tokenizer import Tokenizer, render_chat
from support.scripted_model import WIRES

CHAT, COMPLETIONS, RESPONSES, ANTHROPIC = WIRES.values()
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
TEXT = {"type": "text", "text": "x"}
REASONING = {"type": "reasoning_text", "text": "r"}
USER = {"role": "user", "content": "x"}
FUNCTION = {"name": "f", "parameters": SCHEMA}
USE = {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "2"}]}

BODIES = {
    CHAT: {
        "model": "m",
        "messages": [{"role": "system", "content": "s"}, {**USER, "content": [TEXT]}],
        "tools": [{"type": "function", "function": FUNCTION}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}},
        "stop": ["a"],
        "stream": True,
        "stream_options": {"include_usage": True},
        "chat_template_kwargs": {"enable_thinking": False},
    },
    COMPLETIONS: {"prompt": [[1, 2]], "max_tokens": 4, "stop": "x", "logprobs": 2, "seed": 5},
    RESPONSES: {
        "input": [
            {**USER, "content": [{"type": "input_text", "text": "x"}]},
            {"type": "reasoning", "id": "r", "summary": [], "content": [REASONING]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "y"}]},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "2"},
        ],
        "tools": [{"type": "function", **FUNCTION}],
        "tool_choice": {"type": "function", "name": "f"},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}},
        "reasoning": {"effort": "low"},
    },
    ANTHROPIC: {
        "max_tokens": 5,
        "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            USER,
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "r", "signature": ""}, USE]},
            {"role": "user", "content": [RESULT, {"type": "text", "text": "so?"}]},
        ],
        "tools": [{"name": "f", "input_schema": SCHEMA}],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        "thinking": {"type": "enabled", "budget_tokens": 3},
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
    },
}  # fmt: skip


def read(wire, **body):
    return wire.parse_request(json.dumps(body).encode())


def test_sampling_parameters_get_the_names_of_generate():
    given_ = {"temperature": 0.5, "top_p": 0.9, "top_k": 4, "seed": 3, "min_tokens": 1, "stop": "x"}
    ask = read(CHAT, messages=[USER], max_completion_tokens=7, **given_)
    assert ask.sampling == {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 4,
        "sampling_seed": 3,
        "min_new_tokens": 1,
        "stop": ["x"],
        "max_new_tokens": 7,
    }
    assert ask.max_tokens == 7
    assert read(COMPLETIONS, prompt="x").sampling == {"max_new_tokens": 16}
    assert read(RESPONSES, input="x").sampling == {}


@pytest.mark.parametrize(
    ("wire", "body"),
    [
        (CHAT, {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}}),
        (RESPONSES, {"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}}),
        (ANTHROPIC, {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
    ],
)
def test_a_schema_for_the_answer_is_the_same_however_it_is_asked_for(wire, body):
    sampling = wire.parse_request(json.dumps(BODIES[wire] | body).encode()).sampling
    assert json.loads(sampling["json_schema"]) == SCHEMA


@pytest.mark.parametrize("wire", [CHAT, RESPONSES, ANTHROPIC], ids=lambda wire: wire.name)
def test_tools_have_one_form_whatever_they_came_in(wire):
    ask = wire.parse_request(json.dumps(BODIES[wire]).encode())
    assert ask.tools == [{"type": "function", "function": FUNCTION}]
    named = {"type": "function", "function": {"name": "f"}}
    assert ask.tool_choice == ("required" if wire is ANTHROPIC else named)
    assert ask.parallel_tool_calls is (wire is not ANTHROPIC)


def test_thinking_is_switched_through_the_chat_template():
    def arguments(wire, **body):
        return read(wire, **body).template_arguments

    assert arguments(CHAT, messages=[USER], reasoning_effort="none") == {"enable_thinking": False}
    assert arguments(RESPONSES, input="x", reasoning={"effort": "low"}) == {"reasoning_effort": "low"}
    disabled = {"type": "disabled"}
    assert arguments(ANTHROPIC, max_tokens=1, messages=[USER], thinking=disabled) == {
        "enable_thinking": False
    }
    assert arguments(ANTHROPIC, messages=[USER], max_tokens=1) == {}


def test_an_answer_is_read_as_its_request_allows():
    family, prompt = ModelFamily("hermes", "qwen3"), "<|im_start|>assistant\n"
    ask = CHAT.parse_request(json.dumps(BODIES[CHAT]).encode())
    assert ask.answer_format(family, prompt) == AnswerFormat("before", "hermes")
    assert read(CHAT, messages=[USER]).answer_format(family, prompt) == AnswerFormat("before", None)
    single = read(CHAT, **{**BODIES[CHAT], "parallel_tool_calls": False})
    assert single.answer_format(family, prompt).max_calls == 1
    unused = read(CHAT, **{**BODIES[CHAT], "tool_choice": "none"})
    assert unused.visible_tools is None and unused.answer_format(family, prompt).tools is None
    assert read(COMPLETIONS, prompt="x").answer_format(family, "x") == AnswerFormat()


def test_anthropics_last_assistant_message_is_the_beginning_of_the_answer():
    ask = read(ANTHROPIC, max_tokens=1, messages=[USER, {"role": "assistant", "content": "<think>so"}])
    assert ask.continue_final_message
    assert ask.answer_format(ModelFamily(thinking="qwen3"), "… <think>so").place == "inside"


def test_anthropics_results_become_tool_messages_where_they_stand():
    messages = ANTHROPIC.parse_request(json.dumps(BODIES[ANTHROPIC]).encode()).messages
    assert messages[0] == {"role": "system", "content": "s"}
    assert messages[2]["reasoning_content"] == "r"
    assert messages[3:] == [
        {"role": "tool", "tool_call_id": "t1", "content": "2"},
        {"role": "user", "content": "so?"},
    ]


CALLED = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
TOLD = {
    CHAT: {
        "messages": [
            {"role": "system", "content": "s"},
            USER,
            {"role": "assistant", "content": "y", "reasoning_content": "r", "tool_calls": [CALLED]},
            {"role": "tool", "tool_call_id": "c1", "content": "2"},
            {"role": "user", "content": "so?"},
        ],
        "tools": BODIES[CHAT]["tools"],
    },
    RESPONSES: {
        "instructions": "s",
        "input": [
            USER,
            {"type": "reasoning", "id": "r", "summary": [], "content": [REASONING]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "y"}]},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'},
            {"type": "function_call_output", "call_id": "c1", "output": "2"},
            {"role": "user", "content": [{"type": "input_text", "text": "so?"}]},
        ],
        "tools": BODIES[RESPONSES]["tools"],
    },
    ANTHROPIC: {
        "max_tokens": 9,
        "system": "s",
        "messages": [
            USER,
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "r", "signature": "any"},
                    {"type": "text", "text": "y"},
                    {**USE, "id": "c1"},
                ],
            },
            {"role": "user", "content": [{**RESULT, "tool_use_id": "c1"}, {"type": "text", "text": "so?"}]},
        ],
        "tools": BODIES[ANTHROPIC]["tools"],
    },
}


def test_a_result_may_name_its_call_as_sglangs_clients_do():
    named = {name: value for name, value in RESULT.items() if name != "tool_use_id"} | {"id": "t1"}
    told = [
        read(ANTHROPIC, **BODIES[ANTHROPIC] | {"messages": [{"role": "user", "content": [result]}]})
        for result in (RESULT, named)
    ]
    assert told[0].messages == told[1].messages


def test_one_conversation_told_in_three_protocols_makes_one_prompt():
    chat, *others = (read(wire, **body) for wire, body in TOLD.items())
    assert chat.messages == TOLD[CHAT]["messages"]
    for ask in others:
        assert (ask.messages, ask.tools, ask.tool_choice) == (chat.messages, chat.tools, chat.tool_choice)
    tokenizer = Tokenizer.load(Path(radixway.bundled.__file__).parent / "guide")
    prompts = {render_chat(tokenizer, ask.messages, tools=ask.visible_tools) for ask in (chat, *others)}
    assert len(prompts) == 1 and "so?" in prompts.pop()


def test_a_count_of_anthropics_tokens_needs_no_max_tokens():
    body = {name: value for name, value in BODIES[ANTHROPIC].items() if name != "max_tokens"}
    counted = ANTHROPIC.parse_count_request(json.dumps(body).encode())
    assert counted.messages == ANTHROPIC.parse_request(json.dumps(BODIES[ANTHROPIC]).encode()).messages


def test_a_response_may_go_on_from_another():
    ask = read(RESPONSES, previous_response_id="resp_7", input="and?")
    assert (ask.previous_response_id, ask.messages) == ("resp_7", [{"role": "user", "content": "and?"}])


def test_sealed_reasoning_comes_back_and_another_servers_does_not():
    def turn(content):
        item = {"type": "reasoning", "summary": [], "encrypted_content": content}
        said = {"role": "assistant", "content": "y"}
        return read(RESPONSES, input=[item, said, USER]).messages[0]

    assert turn(base64.b64encode("hm 你".encode()).decode())["reasoning_content"] == "hm 你"
    assert "reasoning_content" not in turn("gAAAAAB!")


def test_turns_that_follow_each_other_stay_apart():
    first, second = ({"role": "assistant", "content": text} for text in "ab")
    messages = read(RESPONSES, input=[USER, first, second]).messages
    assert [message["content"] for message in messages] == ["x", "a", "b"]


@pytest.mark.parametrize("wire", BODIES, ids=lambda wire: wire.name)
def test_fields_that_nobody_knows_are_kept_and_change_nothing(wire):
    plain = wire.parse_request(json.dumps(BODIES[wire]).encode())
    ask = wire.parse_request(json.dumps(BODIES[wire] | {"reward": {"of": [1, None]}}).encode())
    assert ask.extra == {"reward": {"of": [1, None]}}
    assert ask.body == BODIES[wire] | ask.extra
    assert (ask.messages, ask.prompt, ask.sampling) == (plain.messages, plain.prompt, plain.sampling)


@pytest.mark.parametrize(
    ("wire", "change", "param"),
    [
        (CHAT, {"n": 2}, "n"),
        (CHAT, {"messages": []}, "messages"),
        (CHAT, {"messages": [{"content": "x"}]}, "messages[0].role"),
        (CHAT, {"max_tokens": 0}, "max_tokens"),
        (CHAT, {"temperature": -1}, "temperature"),
        (CHAT, {"temperature": "hot"}, "temperature"),
        (CHAT, {"top_logprobs": 2}, "top_logprobs"),
        (CHAT, {"tools": [{"type": "web"}]}, "tools[0]"),
        (CHAT, {"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        (CHAT, {"tool_choice": "perhaps"}, "tool_choice"),
        (CHAT, {"tools": None, "tool_choice": "required"}, "tool_choice"),
        (CHAT, {"tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice"),
        (CHAT, {"stream": False}, "stream_options"),
        (CHAT, {"functions": [{"name": "f"}]}, "functions"),
        (CHAT, {"response_format": {"type": "yaml"}}, "response_format.type"),
        (CHAT, {"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
        (COMPLETIONS, {"prompt": ["a", "b"]}, "prompt"),
        (COMPLETIONS, {"prompt": []}, "prompt"),
        (COMPLETIONS, {"prompt": [1, -1]}, "prompt"),
        (COMPLETIONS, {"prompt": [1, True]}, "prompt"),
        (COMPLETIONS, {"best_of": 3}, "best_of"),
        (COMPLETIONS, {"echo": True}, "echo"),
        (RESPONSES, {"input": None}, "input"),
        (RESPONSES, {"input": [7]}, "input[0]"),
        (RESPONSES, {"input": [{"role": "robot", "content": "x"}]}, "input[0].role"),
        (RESPONSES, {"input": [{"type": "computer_call"}]}, "input[0].type"),
        (RESPONSES, {"input": [{"type": "function_call_output", "output": "x"}]}, "input[0].call_id"),
        (RESPONSES, {"input": [{**USER, "content": [{"type": "input_image"}]}]}, "input[0].content[0].type"),
        (RESPONSES, {"tools": [{"type": "web_search"}]}, "tools[0].type"),
        (RESPONSES, {"background": True}, "background"),
        (RESPONSES, {"text": {"format": {"type": "json_schema"}}}, "text.format.schema"),
        (ANTHROPIC, {"max_tokens": None}, "max_tokens"),
        (ANTHROPIC, {"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        (ANTHROPIC, {"messages": [{**USER, "content": [{"type": "image"}]}]}, "messages[0].content[0].type"),
        (
            ANTHROPIC,
            {"messages": [{**USER, "content": [{**RESULT, "content": [{"type": "image"}]}]}]},
            "messages[0].content[0].content[0].type",
        ),
        (ANTHROPIC, {"messages": [USER, {"role": "assistant", "content": [USE]}]}, "messages"),
        (ANTHROPIC, {"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0].type"),
        (ANTHROPIC, {"tools": [{"name": "f", "input_schema": []}]}, "tools[0].input_schema"),
        (ANTHROPIC, {"tool_choice": {"type": "tool"}}, "tool_choice"),
        (ANTHROPIC, {"system": [{"type": "image"}]}, "system[0].type"),
    ],
)
def test_what_cannot_be_is_refused_by_the_name_of_its_field(wire, change, param):
    with pytest.raises(BadBodyError) as refused:
        wire.parse_request(json.dumps(BODIES[wire] | change).encode())
    assert (refused.value.status, refused.value.param) == (400, param)
    assert param in json.loads(wire.encode_error_body(refused.value))["error"]["message"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def places(value, path=()):
    """The paths to everything in a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        yield from places(item, (*path, name))


@pytest.mark.parametrize("wire", BODIES, ids=lambda wire: wire.name)
@given(data=st.data())
def test_whatever_stands_where_in_a_body_it_is_read_or_refused(wire, data):
    body = {"body": copy.deepcopy(BODIES[wire])}
    for _ in range(data.draw(st.integers(1, 2))):
        *path, name = data.draw(st.sampled_from([path for path in places(body) if path]))
        holder = body
        for step in path:
            holder = holder[step]
        holder[name] = data.draw(JSON)
    try:
        ask = wire.parse_request(json.dumps(body["body"]).encode())
    except BadBodyError as error:
        assert error.status == 400
    else:
        assert ask.messages or ask.prompt is not None or ask.previous_response_id is not None


ALLOWED = {
    CHAT: lambda mode, *names: {
        "type": "allowed_tools",
        "allowed_tools": {
            "mode": mode,
            "tools": [{"type": "function", "function": {"name": name}} for name in names],
        },
    },
    RESPONSES: lambda mode, *names: {
        "type": "allowed_tools",
        "mode": mode,
        "tools": [{"type": "function", "name": name} for name in names],
    },
}


@pytest.mark.parametrize("wire", ALLOWED, ids=lambda wire: wire.name)
def test_of_allowed_tools_the_others_are_left_out(wire):
    body = BODIES[wire]
    (tool,) = body["tools"]
    other = {**tool, "function": {**FUNCTION, "name": "g"}} if "function" in tool else {**tool, "name": "g"}
    for mode in ("auto", "required"):
        ask = read(wire, **{**body, "tools": [tool, other], "tool_choice": ALLOWED[wire](mode, "g")})
        assert ([each["function"]["name"] for each in ask.tools], ask.tool_choice) == (["g"], mode)
    for choice in (ALLOWED[wire]("required", "h"), ALLOWED[wire]("none", "f"), ALLOWED[wire]("auto")):
        with pytest.raises(BadBodyError) as refused:
            read(wire, **{**body, "tool_choice": choice})
        assert refused.value.param.startswith("tool_choice")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "a.png", "data:text/plain;base64,aGk=", 5, None])
def test_an_image_is_a_link_or_its_own_bytes(url):
    body = {"input": [{**USER, "content": [{"type": "input_image", "image_url": url}]}]}
    with pytest.raises(BadBodyError) as refused:
        type(RESPONSES)(takes_images=True).parse_request(json.dumps(BODIES[RESPONSES] | body).encode())
    assert refused.value.param == "input[0].content[0].image_url"
