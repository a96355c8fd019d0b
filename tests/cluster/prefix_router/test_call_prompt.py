"""What the prompt of a call is, whatever it is called with."""

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from radixway.cluster.prefix_router.call_prompt import (
    BLOCK_BYTES,
    MAX_PROMPT_BYTES,
    NO_PROMPT,
    count_fine_bytes,
    find_prompt,
    hash_even_blocks,
    hash_fine_blocks,
)

MESSAGES = [
    {"role": "system", "content": "You know boats."},
    {"role": "user", "content": "What is a keel?"},
]
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def prompt(*args, **kwargs):
    return find_prompt(args, kwargs).data


def starlette_request(body):
    request = Request({"type": "http"})
    request._body = body
    return request


@pytest.mark.parametrize(
    "call",
    [
        (SimpleNamespace(messages=MESSAGES),),
        ({"messages": MESSAGES},),
        (json.dumps({"model": "m", "messages": MESSAGES}).encode(),),
        (starlette_request(json.dumps({"messages": MESSAGES}).encode()),),
        (SimpleNamespace(messages=[SimpleNamespace(**message) for message in MESSAGES]),),
        (SimpleNamespace(messages=MESSAGES, prompt=None),),
        ("an id", {"messages": MESSAGES}),
    ],
    ids=["attribute", "mapping", "JSON", "read request", "objects", "no prompt", "second argument"],
)
def test_messages_are_the_same_however_they_are_brought(call):
    assert prompt(*call) == b"\0system\nYou know boats.\0user\nWhat is a keel?"


def test_keyword_arguments_are_looked_at():
    assert prompt(request={"prompt": "Hi"}) == prompt(prompt="Hi") == prompt({"prompt": "Hi"}) == b"Hi"
    assert prompt(messages=MESSAGES) == prompt({"messages": MESSAGES})


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("a text", b"a text"),
        (SimpleNamespace(prompt="a prompt"), b"a prompt"),
        ({"text": "SGLang's"}, b"SGLang's"),
        ({"prompt": ["several", " of them"]}, b"several of them"),
        ({"input_ids": [1, 258]}, b"\1\0\0\0\2\1\0\0"),
        ({"prompt": [[1], [2]]}, b"\1\0\0\0\2\0\0\0"),
        (b"no JSON", b"no JSON"),
    ],
)
def test_other_prompts_are_read(call, expected):
    assert prompt(call) == expected


@pytest.mark.parametrize(
    "call",
    [None, 7, [1], object(), {}, {"messages": None}, {"messages": []}, {"prompt": ""}, "", b"{", b'{"a": 1}'],
)
def test_a_call_may_have_no_prompt(call):
    """The published router raises, and Ray then lets the request wait for ever."""
    assert prompt(call) in (b"", b"{", b'{"a": 1}')
    assert find_prompt((), {}) == NO_PROMPT


def test_pictures_count_although_they_are_no_text():
    def asked(picture):
        return prompt(
            {"messages": [{"role": "user", "content": [picture, {"type": "text", "text": "What?"}]}]}
        )

    other = {"type": "image_url", "image_url": {"url": "data:image/png;base64,BBBB"}}
    assert asked(PICTURE) == asked(dict(reversed(PICTURE.items())))
    assert asked(PICTURE) != asked(other)
    assert asked(PICTURE).endswith(b"What?")


def test_roles_tools_and_calls_count():
    turns = [{"role": "user", "content": "Hi"}]
    assert prompt({"messages": turns}) != prompt({"messages": [{"role": "system", "content": "Hi"}]})
    assert prompt({"messages": turns, "tools": [{"name": "f"}]}).startswith(b'[{"name":"f"}]')
    called = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    assert (
        prompt({"messages": [*turns, called]}) == prompt({"messages": turns}) + b'\0assistant\n[{"id":"1"}]'
    )


def test_a_longer_conversation_continues_a_shorter_one():
    longer = [*MESSAGES, {"role": "assistant", "content": "A part of a ship."}]
    assert prompt({"messages": longer}).startswith(prompt({"messages": MESSAGES}))


def test_what_keeps_prefixes_apart_is_told():
    assert find_prompt(({"prompt": "Hi", "cache_salt": "tenant 7"},), {}).salt == "tenant 7"


def test_half_a_character_is_read():
    assert prompt("\ud83d") == "\ud83d".encode("utf-8", "surrogatepass")


def test_of_a_long_list_of_messages_enough_is_read():
    turns = [{"role": "user", "content": "x" * 100_000}] * 1000
    assert MAX_PROMPT_BYTES < len(prompt({"messages": turns})) < MAX_PROMPT_BYTES + 200_000


@given(st.text(max_size=900), st.text(max_size=900))
def test_blocks_are_shared_as_far_as_prompts_are(one, two):
    first, second = one.encode(), (one[: len(one) // 2] + two).encode()
    common = next((at for at, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
    common = min(len(first), len(second)) if common is None else common
    pairs = zip(hash_fine_blocks(first, 1), hash_fine_blocks(second, 1), strict=False)
    depth = next((at for at, (a, b) in enumerate(pairs) if a != b), None)
    depth = min(len(hash_fine_blocks(first, 1)), len(hash_fine_blocks(second, 1))) if depth is None else depth
    assert count_fine_bytes(depth) <= common
    assert count_fine_bytes(depth + 1) > common or depth == min(
        len(hash_fine_blocks(first, 1)), len(hash_fine_blocks(second, 1))
    )


def test_blocks_cover_the_prompt_and_no_more_of_it_than_is_looked_at():
    sizes = (15, 16, 256, 319, 320, 1000)
    covered = [count_fine_bytes(len(hash_fine_blocks(b"x" * size, 1))) for size in sizes]
    assert covered == [0, 16, 256, 256, 320, 960]
    assert count_fine_bytes(len(hash_fine_blocks(b"x" * 2 * MAX_PROMPT_BYTES, 1))) == MAX_PROMPT_BYTES
    assert len(hash_even_blocks(b"x" * 2 * MAX_PROMPT_BYTES, 1)) == MAX_PROMPT_BYTES // BLOCK_BYTES
