"""Every text of a request is found, wherever it stands, and can be written anew there."""

from __future__ import annotations

import json
import threading

import msgspec
import pytest

from radixway.core.pipeline import ENDPOINTS, BadRequest, Request
from radixway.core.telemetry import Journal
from radixway.semantics.guard.passages import (
    DEEPEST,
    MAX_PASSAGES,
    TextTooLongError,
    format_place,
    read_texts,
)
from radixway.semantics.guard.redaction import repair_json_numbers, replace_texts
from radixway.semantics.guard.request_reader import RequestTextReader

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


def test_text_that_is_dressed_as_data_is_read():
    dressed = "data:x;base64, say all"
    user = {"role": "user", "content": dressed}
    assert said({"messages": [user]}) == [("user", dressed)]
    for part in ({"type": "text", "text": dressed}, {"type": "odd", "image": "say all"}):
        assert said({"messages": [{"role": "user", "content": [part]}]}) == [("user", [*part.values()][1])]
    picture = {"type": "odd", "odd": "data:image/png;base64,AA", "image": "iVBORw0KGgo="}
    assert said({"messages": [{"role": "user", "content": [picture]}]}) == []
    source = {"type": "base64", "data": "\n".join(["A" * 76, "A" * 76, "AA=="])}
    assert said({"messages": [{"role": "user", "content": [{"type": "image", "source": source}]}]}) == []


def test_what_templates_write_out_is_read_whatever_it_is_called():
    hidden = {"type": "base64", "data": "h1", "image": "h2", "url": "h3", "audio": {"transcript": "h4"}}
    read = {"h1", "h2", "h3", "h4"}
    assert read <= {text for _, text in said({"documents": [hidden]})}
    assert read <= {text for _, text in said({"chat_template_kwargs": {"x": hidden}})}
    schema = {"properties": {"image": {"description": "h one"}}, "required": ["h@two"], "format": "h three"}
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    assert {text for _, text in said({"tools": tools})} == {"h one", "h@two", "h three"}


def test_ids_and_roles_that_are_none_are_read():
    message = {"role": "a@b", "content": "u1", "tool_call_id": "4111111111111111", "id": "call_4111111111"}
    assert {text for _, text in said({"messages": [message]})} == {"a@b", "u1", "4111111111111111"}


def test_names_of_fields_and_long_numbers_are_read():
    (key,) = read_texts({"chat_template_kwargs": {"say all": True}}).passages
    assert (key.text, key.is_key, key.place) == ("say all", True, ("chat_template_kwargs", "say all"))
    assert said({"documents": [{"card": 4111111111111111, "n": 12, "share": 0.123456789123}]}) == [
        ("document", "4111111111111111")
    ]


def test_arguments_that_are_an_object_are_read_as_their_json():
    call = {"type": "function", "function": {"name": "f", "arguments": {"id": "a1", "n": 1, "image": "a2"}}}
    body = {"messages": [{"role": "assistant", "tool_calls": [call]}]}
    assert ("assistant", '{"id": "a1", "n": 1, "image": "a2"}') in said(body)


def test_fields_that_nobody_knows_are_read_and_those_for_the_worker_alone_are_not():
    assert said({"chat_history": ["x1"], "extra_body": {"y": "x2"}}) == [("user", "x1"), ("user", "x2")]
    assert said({"guided_json": {"enum": ["x1"]}, "sampling_params": {"regex": "x2", "stop": ["x3"]}}) == [
        ("system", "x1"),
        ("system", "x2"),
    ]
    assert said({"user": "x1", "metadata": {"a": "x2"}, "stop": ["x3"], "seed": 4111111111111111}) == []
    assert read_texts({"image_data": ["x1"]}).unread == [("image_data",)]


def test_a_list_with_anything_but_numbers_in_it_is_no_list_of_token_ids():
    assert said({"prompt": [1, "p1"]}) == [("user", "p1")]
    assert said({"input_ids": [True, "p1"]}) == [("user", "p1")]


@pytest.mark.parametrize(
    "raw",
    [
        b'{"messages": [], "messages": []}',
        b'{"messages": [{"content": "a", "content": "b"}]}',
        b'{"messages": [], "mess\\u0061ges": []}',
    ],
)
async def test_a_field_that_stands_twice_is_refused_as_workers_differ_in_which_they_read(raw):
    with pytest.raises(BadRequest, match="twice"):
        await RequestTextReader().read_request(request(raw))


def test_escapes_in_json_hide_nothing():
    arguments = json.dumps({"name": "张伟"})
    assert "张" not in arguments
    body = {"messages": [{"role": "tool", "content": arguments}]}
    assert said(body) == [("tool", '{"name": "张伟"}')]


def test_places_in_words_name_keys_and_never_what_clients_invent():
    assert format_place(("messages", 2, "content", 0, "text")) == "messages[2].content[0].text"
    assert format_place(("documents", 0, "anna@example.org")) == "documents[0].…"


def test_however_deep_a_body_nests_it_is_read():
    deep = {"a": ["u1"] * 3}
    for _ in range(500):
        deep = {"a": deep}
    (passage,) = read_texts({"documents": deep}).passages
    assert passage.text.count("u1") == 3 and len(passage.place) == DEEPEST
    asked = request(msgspec.json.encode({"documents": deep}))
    replace_texts(asked, {passage.place: passage.text.replace("u1", "u2")})
    assert asked.raw.count(b'"u2"') == 3 and b"u1" not in asked.raw


def test_what_nests_deeper_than_anybody_can_write_is_the_requests_mistake():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(BadRequest):
        read_texts({"documents": deep})


def request(raw, surface="openai.chat"):
    return Request(id="r", endpoint=ENDPOINTS[surface], path="/", journal=Journal("r"), raw=raw)


def test_a_new_text_stands_where_the_old_one_was_and_every_other_byte_stays():
    raw = b'{"odd":  1e-5, "messages": [{"role":"user","x": 1.0e1,"content":"old"}, {"n":  2}],"z":"\\u00e9"}'
    asked = request(raw)
    replace_texts(asked, {("messages", 0, "content"): "new"})
    for kept in (b"1e-5", b'"x":1.0e1', b'{"n":  2}', b'"\\u00e9"'):
        assert kept in asked.raw
    assert asked.body["messages"][0]["content"] == "new"


def test_arguments_stay_json_whatever_is_put_into_them():
    assert (
        json.loads(repair_json_numbers('{"card": [EMAIL_1], "n": *****, "s": "*****", "t": true}'))["n"]
        == "*****"
    )
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
    texts = await RequestTextReader(known).read_request(asked)
    assert [each.text for each in texts.passages] == ["Hi", "H"] and texts.unread == []
    await RequestTextReader().read_request(asked)
    (entry,) = asked.journal.explain()["steps"]
    assert (entry["step"], entry["parts"], entry["of_token_ids"]) == ("guard_unread", 2, 2)


@pytest.mark.parametrize(
    "written",
    ["[72.0, 105]", "[72, 105.0]", "[true, 72, 105]", "[null, 72, 105]", '["72", "105"]', "[[72, 105], 4.5]"],
)
async def test_ids_are_read_however_an_engine_may_still_understand_them(written):
    async def known(model):
        return "m", Letters()

    for body in ('{"input_ids": %s}', '{"prompt": [%s]}'):
        texts = await RequestTextReader(known).read_request(request((body % written).encode(), "generate"))
        assert any("Hi" in each.text for each in texts.passages)
        assert texts.unread == []


def test_words_and_long_numbers_among_token_ids_are_read_as_such():
    assert said({"input_ids": [1, "p1", ["p2"]]}) == [("user", "p1"), ("user", "p2")]
    assert said({"prompt": ["72", "p1"]}) == [("user", "72"), ("user", "p1")]
    assert said({"prompt": [1, 4111111111111111.0]}) == [("user", "4111111111111111.0")]


async def test_names_that_stand_twice_are_refused_however_deep_the_rest_is():
    for depth in range(800, 1100):
        nested = b"[" * depth + b"]" * depth
        with pytest.raises(BadRequest):
            await RequestTextReader().read_request(
                request(b'{"text": "a", "text": "b", "more": %s}' % nested, "generate")
            )


class Counted(Letters):
    """Notes how often its size is asked, and which threads decode."""

    def __init__(self):
        self.asked = 0
        self.threads = []

    @property
    def size(self):
        self.asked += 1
        return 128

    def decode(self, ids):
        self.threads.append(threading.current_thread())
        return super().decode(ids)


async def test_a_tokenizer_is_asked_once_for_its_size_and_decodes_away_from_the_loop():
    tokenizer = Counted()

    async def known(model):
        return "m", tokenizer

    asked = request(msgspec.json.encode({"input_ids": [[72] * 5_000, [105]]}), "generate")
    texts = await RequestTextReader(known).read_request(asked)
    assert [len(each.text) for each in texts.passages] == [5_000, 1]
    assert tokenizer.asked == 1
    assert threading.current_thread() not in tokenizer.threads


@pytest.mark.parametrize(("name", "ids"), [("input_ids", [72] * 300), ("prompt", [[72] * 200, [72] * 200])])
async def test_more_token_ids_than_are_read_are_refused_before_they_are_decoded(name, ids):
    tokenizer = Counted()

    async def known(model):
        return "m", tokenizer

    with pytest.raises(TextTooLongError, match="at most 1000 characters") as refused:
        await RequestTextReader(known, max_characters=1000).read_request(
            request(msgspec.json.encode({name: ids}))
        )
    assert (refused.value.status, refused.value.param) == (413, name)
    assert tokenizer.threads == []


async def test_what_token_ids_say_counts_by_its_characters():
    class Talkative(Letters):
        def decode(self, ids):
            return "word " * 100 * len(ids)

    async def known(model):
        return "m", Talkative()

    with pytest.raises(TextTooLongError):
        await RequestTextReader(known, max_characters=1000).read_request(request(b'{"input_ids": [1, 2, 3]}'))


async def test_more_text_than_is_read_is_refused_naming_the_field():
    raw = msgspec.json.encode({"messages": [{"content": "a" * 600}], "suffix": "b" * 401})
    with pytest.raises(TextTooLongError, match="guard.long_texts.max_characters") as refused:
        await RequestTextReader(max_characters=1000).read_request(request(raw))
    assert refused.value.param == "suffix"
    texts = await RequestTextReader(max_characters=1001).read_request(request(raw))
    assert texts.characters == 1001


@pytest.mark.parametrize("value", [["a"] * (MAX_PASSAGES + 1), [[1]] * (MAX_PASSAGES + 1)])
def test_more_texts_than_are_read_are_refused_however_short_they_are(value):
    with pytest.raises(TextTooLongError) as refused:
        read_texts({"prompt": value})
    assert refused.value.param == "prompt"
    assert len(read_texts({"prompt": value[1:]}).passages + read_texts({"prompt": value[1:]}).unread) > 1


async def test_a_large_body_is_read_away_from_the_loop_and_a_small_one_at_once(monkeypatch):
    threads = []

    def noting(body, **more):
        threads.append(threading.current_thread())
        return read_texts(body, **more)

    monkeypatch.setattr("radixway.semantics.guard.request_reader.read_texts", noting)
    for size in (1_000, 1_000_000):
        texts = await RequestTextReader().read_request(request(msgspec.json.encode({"text": "a" * size})))
        assert len(texts.passages[0].text) == size
    assert [thread is threading.current_thread() for thread in threads] == [True, False]


async def test_a_field_that_stands_twice_in_a_large_body_is_refused_too():
    with pytest.raises(BadRequest, match="twice"):
        await RequestTextReader().read_request(request(b'{"text": "%b", "text": "b"}' % (b"a" * 1_000_000)))
