"""Large bodies are read in slices, and say the same as at once: fields, and errors that name them."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.core.http import BadBodyError, field_error
from radixway.core.pipeline.endpoints import CHAT_COMPLETIONS, COMPLETIONS
from radixway.core.pipeline.endpoints.generation import Message
from radixway.core.pipeline.endpoints.large_bodies import check_items
from radixway.core.work_slices import run_at_once

MESSAGE = {"role": "user", "content": "word"}


def said(read):
    """What a reader says: the parsed fields, or its refusal."""
    try:
        return read()
    except BadBodyError as error:
        return said_by(error)


def said_by(error):
    return str(error), error.param, error.code


def slices_of(work):
    count = 0
    try:
        while True:
            next(work)
            count += 1
    except StopIteration as done:
        return count, done.value


odd_texts = st.text(st.sampled_from('{}[],:" \\x\n'), max_size=8)
odd_values = st.recursive(
    st.none() | st.integers() | odd_texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(odd_texts, inner, max_size=3),
    max_leaves=6,
)
a_message = st.fixed_dictionaries(
    {"role": odd_texts}, optional={"content": odd_texts | st.lists(odd_values), "tool_calls": odd_values}
)
an_odd_message = st.fixed_dictionaries({}, optional={"role": odd_values, "content": odd_values}) | odd_values


@given(st.lists(a_message | an_odd_message, min_size=1, max_size=12), st.integers(1, 60), st.booleans())
def test_messages_checked_in_pieces_are_those_checked_at_once(messages, piece_bytes, spaced):
    raw = msgspec.json.encode(messages)
    raw = msgspec.json.format(raw, indent=1) if spaced else raw
    decoder = msgspec.json.Decoder(list[Message])
    expected = None
    try:
        decoder.decode(raw)
    except msgspec.ValidationError as error:
        expected = said_by(field_error(str(error).replace("`$[", "`$.messages[")))
    found = said(lambda: run_at_once(check_items(msgspec.Raw(raw), decoder, "messages", piece_bytes)))
    assert found == expected


@pytest.mark.parametrize(
    ("messages", "fields"),
    [
        ([MESSAGE] * 20_000, {"stream": True, "n": 3, "rid": "r"}),
        ([MESSAGE] * 19_999 + [{"content": "no role"}], {}),
        ([MESSAGE] * 19_999 + [{"role": "user", "content": 7}], {}),
        ([MESSAGE] * 20_000, {"temperature": -1}),
        ([{"role": "user", "content": [{"type": "text", "text": "}, {"}] * 20_000}] * 2, {}),
        ({"not": [MESSAGE] * 20_000}, {}),
        ([MESSAGE] * 20_000, {"stream_options": {}}),
    ],
    ids=["good", "no role", "wrong content", "wrong field", "parts", "no array", "no stream"],
)
def test_a_large_chat_is_read_like_a_small_one(messages, fields):
    raw = msgspec.json.encode({"model": "m", "messages": messages} | fields)
    assert said(lambda: run_at_once(CHAT_COMPLETIONS.read_in_slices(raw))) == said(
        lambda: CHAT_COMPLETIONS.read(raw)
    )


def test_a_hundred_thousand_messages_are_read_in_slices_of_64_kib():
    raw = msgspec.json.encode({"model": "m", "messages": [MESSAGE] * 100_000})
    slices, parsed = slices_of(CHAT_COMPLETIONS.read_in_slices(raw))
    assert slices > len(raw) / 2**17 and parsed == CHAT_COMPLETIONS.read(raw)


def test_a_long_text_is_read_at_once():
    raw = msgspec.json.encode({"model": "m", "messages": [MESSAGE | {"content": "word " * 100_000}]})
    assert slices_of(CHAT_COMPLETIONS.read_in_slices(raw))[0] == 0


def test_an_invalid_large_body_is_refused():
    raw = msgspec.json.encode({"model": "m", "messages": [MESSAGE] * 20_000})[:-1]
    assert said(lambda: run_at_once(CHAT_COMPLETIONS.read_in_slices(raw)))[2] == "invalid_json"
    bad = msgspec.json.encode({"messages": [MESSAGE] * 20_000 + [{"role": "x"}]}).replace(b'"x"', b'"\xff"')
    assert said(lambda: run_at_once(CHAT_COMPLETIONS.read_in_slices(bad)))[2] == "invalid_json"


@pytest.mark.parametrize(
    ("prompt", "answers"),
    [([7] * 200_000, 1), (["a prompt"] * 50_000, None), ("word " * 100_000, 1), ([[7] * 100_000] * 2, None)],
    ids=["token ids", "prompts", "text", "prompts of token ids"],
)
def test_prompts_are_not_built(prompt, answers):
    raw = msgspec.json.encode({"model": "m", "prompt": prompt, "stream": True})
    parsed = run_at_once(COMPLETIONS.read_in_slices(raw))
    assert parsed == msgspec.structs.replace(COMPLETIONS.read(raw), answers=answers)


def test_a_prompt_that_is_none_is_refused_as_ever():
    raw = msgspec.json.encode({"model": "m", "prompt": {"a": "word " * 100_000}})
    assert said(lambda: run_at_once(COMPLETIONS.read_in_slices(raw))) == said(lambda: COMPLETIONS.read(raw))
