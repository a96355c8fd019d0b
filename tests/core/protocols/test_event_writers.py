"""Whatever pieces an answer comes in, its stream adds up to the whole reply; and what goes out comes back."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.core.protocols import GeneratedAnswer, NormalizedRequest
from radixway.core.protocols.anthropic_reply import arguments_from_input, parse_tool_input, tool_input_text
from support.assembling import anthropic_message, chat_message, events_of, response_output
from support.scripted_model import WIRES, Script, event_stream, growths, head, whole_reply

CHAT, COMPLETIONS, RESPONSES, ANTHROPIC = WIRES.values()
CALL = '<tool_call>\n{"name": "f", "arguments": {"a": [1, "}"], "ü": null}}\n</tool_call>'
FRAGMENTS = st.sampled_from(
    [
        *("<think>", "</think>", "<tool_call>", "</tool_call>", CALL, '{"name": "g", "arguments": '),
        *('{"b": 2', "}", "[1]", " ", "\n\n", "Well", ", then", "你", "😀", "<", '"', "\\"),
    ]
)
TEXTS = st.lists(FRAGMENTS, max_size=10).map("".join)
CUTS = st.lists(st.integers(0, 200), max_size=8)
REASONS = st.sampled_from(["stop", "length", "abort"])


def pieces(text: str, cuts: list[int]) -> list[str]:
    bounds = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    return [text[a:b] for a, b in pairwise(bounds)]


def asked(**more) -> NormalizedRequest:
    tool = {"type": "function", "function": {"name": "f"}}
    return NormalizedRequest(model="m", messages=[{"role": "user", "content": "x"}], tools=[tool], **more)


def numbered(reply: bytes) -> bytes:
    """The calls' ids, made anew by each reader, as numbers in their order."""
    ids: dict[bytes, bytes] = {}
    return re.sub(rb"[0-9a-f]{24}", lambda found: ids.setdefault(found[0], b"%d" % len(ids)), reply)


def streamed_and_whole(wire, ask, text, cuts, reason):
    """The events of the text in these pieces, and the reply of the text in one."""
    stream = b"".join(event_stream(wire, ask, Script(pieces(text, cuts), reason)))
    return events_of(numbered(stream)), json.loads(numbered(whole_reply(wire, ask, Script([text], reason))))


@given(TEXTS, CUTS, REASONS)
def test_a_chats_chunks_add_up_to_its_whole_message(text, cuts, reason):
    ask = asked(top_logprobs=0, return_token_ids=True)
    events, whole = streamed_and_whole(CHAT, ask, text, cuts, reason)
    message, finish, scores, ids = chat_message(events)
    assert message == whole["choices"][0]["message"]
    assert finish == whole["choices"][0]["finish_reason"]
    assert "".join(score["token"] for score in scores) == text
    assert ids == [100 + number for number in range(len(pieces(text, cuts)))]


@given(TEXTS, CUTS, REASONS)
def test_a_completions_chunks_add_up_to_its_whole_text(text, cuts, reason):
    events, whole = streamed_and_whole(
        COMPLETIONS, NormalizedRequest(model="m", prompt="x"), text, cuts, reason
    )
    assert "".join(event["choices"][0]["text"] for event in events) == whole["choices"][0]["text"] == text
    assert events[-1]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"] == reason


@given(TEXTS, CUTS, REASONS)
def test_a_responses_events_add_up_to_the_whole_response(text, cuts, reason):
    events, whole = streamed_and_whole(RESPONSES, asked(), text, cuts, reason)
    assert response_output(events) == whole["output"]
    last = events[-1]["response"]
    assert events[-1]["type"] == f"response.{whole['status']}"
    assert last | {"usage": None} == whole | {"usage": None}


@given(TEXTS, CUTS, REASONS)
def test_an_anthropic_messages_events_add_up_to_the_whole_message(text, cuts, reason):
    events, whole = streamed_and_whole(ANTHROPIC, asked(), text, cuts, reason)
    message = anthropic_message(events)
    assert message | {"usage": None} == whole | {"usage": None}
    assert message["usage"]["output_tokens"] == len(pieces(text, cuts))


@pytest.mark.parametrize(
    "arguments", ['{"a": NaN}', '{"a": "\\ud800"}', "[1]", '{"a": 1', "[" * 9_999, "nothing"]
)
def test_an_input_that_json_cannot_say_is_kept_as_text(arguments):
    assert parse_tool_input(arguments) == {"INVALID_JSON": arguments}
    assert json.loads(tool_input_text(arguments)) == {"INVALID_JSON": arguments}
    assert arguments_from_input(parse_tool_input(arguments)) == arguments


def test_an_input_that_is_an_object_is_sent_as_it_was_written():
    assert tool_input_text('{"a":1.0}') == '{"a":1.0}'
    assert tool_input_text(" ") == "{}"
    assert parse_tool_input(f'{{"a": {10**40}}}') == {"a": 10**40}


def sent_back(wire, reply):
    """The body of a next request, with the reply in the history as it came."""
    more = {"role": "user", "content": "Go on."}
    if wire is RESPONSES:
        return {"input": [*reply["output"], more]}
    if wire is ANTHROPIC:
        turn = {"role": "assistant", "content": reply["content"]}
        return {"max_tokens": 9, "messages": [turn, more]}
    return {"messages": [reply["choices"][0]["message"], more]}


def canonical(message):
    """A message whose calls have objects for arguments: Anthropic's protocol does not keep their spelling."""
    calls = [
        {
            **call,
            "function": {**call["function"], "arguments": parse_tool_input(call["function"]["arguments"])},
        }
        for call in message.get("tool_calls", ())
    ]
    return {**message, "tool_calls": calls}


@pytest.mark.parametrize("wire", [CHAT, RESPONSES, ANTHROPIC], ids=lambda wire: wire.name)
@given(text=TEXTS)
def test_a_reply_that_is_sent_back_is_read_as_the_message_it_was(wire, text):
    answer, ask, script = GeneratedAnswer(), asked(), Script([text])
    for growth in growths(ask, script.pieces):
        answer.apply_delta(growth)
    reply = json.loads(wire.encode_reply(ask, head(), answer, script.ending()))
    *turns, _ = wire.parse_request(json.dumps(sent_back(wire, reply)).encode()).messages
    if wire is RESPONSES and not answer.blocks:
        assert turns == []
    elif wire is ANTHROPIC:
        assert list(map(canonical, turns)) == [canonical(answer.to_message())]
    else:
        assert turns == [answer.to_message()]
