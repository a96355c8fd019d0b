"""Every text of a request is found, wherever it stands, and can be written anew there."""

from __future__ import annotations

import json

import msgspec
import pytest

from radixway.guard.reading import Reading
from radixway.guard.replacing import mended, replace_texts
from radixway.guard.texts import in_words, read_texts
from radixway.pipeline import BadRequest, Request
from radixway.telemetry import Journal

TEXT = {"type": "text", "text": "u1"}
CHAT = {
    "model": "not a text",
    "user": "nobody reads this",
    "messages": [
        {"role": "system", "content": "s1"},
        {
            "role": "user",
            "name": "Anna",
            "content": [{"type": "text", "text": "u1"}, {"type": "odd", "odd": "u2"}],
        },
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "a1",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"who": "a2"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "t1"},
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}],
        },
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "find",
                "description": "d one",
                "parameters": {
                    "type": "object",
                    "properties": {"id": {"type": "string", "title": "d two"}},
                },
            },
        }
    ],
    "documents": [{"title": "d3", "text": "d4"}],
}
ANTHROPIC = {
    "system": [{"type": "text", "text": "s1"}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "x", "content": [{"type": "text", "text": "t1"}]},
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d1"}},
                {"type": "text", "text": "u1"},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "a1", "signature": "zz"},
                {"type": "tool_use", "id": "x", "name": "mail", "input": {"to": "a2"}},
            ],
        },
    ],
}
RESPONSES = {
    "instructions": "s1",
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "u1"}]},
        {"type": "function_call", "call_id": "x", "name": "mail", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "x", "output": "t1"},
    ],
}


def said(body):
    return [(each.speaker, each.text) for each in read_texts(body).passages]


def test_every_message_part_call_result_definition_and_document_is_read_with_its_speaker():
    assert said(CHAT) == [
        ("system", "s1"),
        ("user", "Anna"),
        ("user", "u1"),
        ("user", "u2"),
        ("assistant", "a1"),
        ("assistant", "find"),
        ("assistant", '{"who": "a2"}'),
        ("tool", "t1"),
        ("system", "d one"),
        ("system", "d two"),
        ("document", "d3"),
        ("document", "d4"),
    ]
    assert read_texts(CHAT).unread == [("messages", 4, "content", 0, "image_url")]


def test_agents_protocols_are_read_in_their_own_words():
    assert said(ANTHROPIC) == [
        ("system", "s1"),
        ("tool", "t1"),
        ("document", "d1"),
        ("user", "u1"),
        ("assistant", "a1"),
        ("assistant", "mail"),
        ("assistant", '{"to": "a2"}'),
    ]
    assert said(RESPONSES) == [
        ("system", "s1"),
        ("user", "u1"),
        ("assistant", "mail"),
        ("assistant", "{}"),
        ("tool", "t1"),
    ]
    assert said({"input": "u1"}) == [("user", "u1")]


def test_completions_and_generate_are_read_in_all_their_forms():
    assert said({"prompt": ["p1", "p2"], "suffix": "p3"}) == [("user", "p1"), ("user", "p2"), ("user", "p3")]
    assert said({"text": ["g1"]}) == [("user", "g1")]
    assert read_texts({"prompt": [[1, 2], [3]]}).unread == [("prompt", 0), ("prompt", 1)]
    assert read_texts({"input_ids": [1, 2]}).unread == [("input_ids",)]


def test_fields_that_usually_say_nothing_are_read_where_they_do():
    body = {
        "messages": [{"role": "system\nsay all", "content": "u1", "id": "x1", "tool_call_id": "not an id"}]
    }
    assert {text for _, text in said(body)} == {"system\nsay all", "u1", "not an id"}
    assert said({"documents": [{"id": "d1", "url": "d2"}]}) == [("document", "d1"), ("document", "d2")]


def test_escapes_in_json_hide_nothing():
    arguments = json.dumps({"name": "张伟"})
    assert "张" not in arguments
    body = {"messages": [{"role": "tool", "content": arguments}]}
    assert said(body) == [("tool", '{"name": "张伟"}')]


def test_places_in_words_name_keys_and_never_what_clients_invent():
    assert in_words(("messages", 2, "content", 0, "text")) == "messages[2].content[0].text"
    assert in_words(("documents", 0, "anna@example.org")) == "documents[0].…"


def test_however_deep_a_body_nests_it_is_read():
    deep = {"a": "u1"}
    for _ in range(5000):
        deep = {"a": deep}
    assert said({"documents": deep}) == [("document", "u1")]


def request(raw, surface="openai.chat"):
    return Request(id="r", surface=surface, path="/", journal=Journal("r"), raw=raw)


def test_a_new_text_stands_where_the_old_one_was_and_every_other_byte_stays():
    raw = b'{"odd":  1e-5, "messages": [{"role":"user","x": 1.0e1,"content":"old"}, {"n":  2}],"z":"\\u00e9"}'
    asked = request(raw)
    replace_texts(asked, {("messages", 0, "content"): "new"})
    for kept in (b"1e-5", b'"x":1.0e1', b'{"n":  2}', b'"\\u00e9"'):
        assert kept in asked.raw
    assert asked.body["messages"][0]["content"] == "new"


def test_arguments_stay_json_whatever_is_put_into_them():
    assert json.loads(mended('{"card": [EMAIL_1], "n": *****, "s": "*****", "t": true}'))["n"] == "*****"
    raw = msgspec.json.encode(ANTHROPIC)
    asked = request(raw)
    replace_texts(asked, {("messages", 1, "content", 1, "input"): '{"to": *****}'})
    assert asked.body["messages"][1]["content"][1]["input"] == {"to": "*****"}


def test_a_place_that_is_not_there_is_the_requests_mistake():
    with pytest.raises(BadRequest):
        replace_texts(request(b'{"messages": []}'), {("messages", 3, "content"): "x"})


class Letters:
    """A tokenizer of single letters."""

    size = 128

    def decode(self, ids):
        return "".join(map(chr, ids))


async def test_token_ids_are_read_where_their_tokenizer_is_known_and_told_of_where_it_is_not():
    async def known(model):
        return "m", Letters()

    asked = request(b'{"input_ids": [[72, 105, 999, -1], [72]]}', "generate")
    texts = await Reading(known).read(asked)
    assert [each.text for each in texts.passages] == ["Hi", "H"] and texts.unread == []
    await Reading().read(asked)
    (entry,) = asked.journal.explain()["steps"]
    assert (entry["step"], entry["parts"], entry["of_token_ids"]) == ("guard_unread", 2, 2)
