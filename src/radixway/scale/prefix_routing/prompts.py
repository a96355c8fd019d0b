"""The prompt among the arguments of a call to a deployment, as bytes that begin alike where prompts do.

Whatever a deployment takes is read: an object with `messages` or `prompt` (Ray Serve's LLM requests), the
same as a mapping, its JSON, a text, token ids, a Starlette request whose body has been read. What stands in
front of the messages in a model's context (tools, roles, pictures) stands in front of them here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from xxhash import xxh3_128_digest

from radixway.routing.block_hash import pack_tokens, text_blocks

BLOCK_BYTES = 64
"""Bytes a block: 16 tokens of English, the block of most engines."""
MOST_BYTES = 2**19
"""Of a longer prompt, what is looked at."""
_FINE_BYTES = 16
_FINE_END = 256
"""Up to here blocks are finer, because prompts of a line or two have beginnings in common as well."""

_FIELDS = ("messages", "prompt", "prompt_token_ids", "input_ids", "text")
_ATTRIBUTES = _FIELDS[:-1]
"""Of objects: `text` is a method of many."""
_encode = msgspec.json.Encoder(enc_hook=repr, order="sorted").encode


class Prompt(NamedTuple):
    """What is known of a prompt."""

    data: bytes
    """At most about `MOST_BYTES` of it."""
    salt: str | None = None
    """What keeps its prefixes apart from others'."""


NO_PROMPT = Prompt(b"")


def read_prompt(args: Sequence[Any], kwargs: Mapping[Any, Any]) -> Prompt:
    """The prompt of a call with these arguments; `NO_PROMPT` where there is none."""
    plain: Any = None
    for value in (kwargs, *args, *kwargs.values()):
        found = _body(value)
        if found is not None:
            return _prompt_of(found)
        if plain is None and isinstance(value, str | bytes):
            plain = value
    if plain is None:
        return NO_PROMPT
    return Prompt(plain if isinstance(plain, bytes) else _utf8(plain))


def fine_blocks(data: bytes, seed: int) -> list[int]:
    """The names of a prompt's whole blocks, of which the first are finer."""
    names = text_blocks(data[:_FINE_END], _FINE_BYTES, seed)
    if len(data) >= _FINE_END + BLOCK_BYTES:
        names += text_blocks(data[_FINE_END:MOST_BYTES], BLOCK_BYTES, names[-1])
    return names


def fine_bytes(blocks: int) -> int:
    """How much of a prompt its first `blocks` blocks are, as `fine_blocks` cuts them."""
    fine = _FINE_END // _FINE_BYTES
    return blocks * _FINE_BYTES if blocks <= fine else _FINE_END + (blocks - fine) * BLOCK_BYTES


def even_blocks(data: bytes, seed: int) -> list[int]:
    """The names of a prompt's whole blocks of `BLOCK_BYTES`."""
    return text_blocks(data[:MOST_BYTES], BLOCK_BYTES, seed)


def _body(value: Any) -> Any:
    """`value`, or what it brings, if a prompt stands in one of its fields."""
    if value is None or isinstance(value, str | int | float | list | tuple):
        return None
    if isinstance(value, bytes | bytearray | memoryview):
        return _json(bytes(value))
    fields = _FIELDS if isinstance(value, Mapping) else _ATTRIBUTES
    if any(_get(value, field) is not None for field in fields):
        return value
    cached = getattr(value, "_body", None)  # where Starlette keeps what has been read
    return _json(cached) if isinstance(cached, bytes) else None


def _json(raw: bytes) -> Any:
    if raw.lstrip()[:1] != b"{":
        return None
    try:
        return _body(msgspec.json.decode(raw))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _prompt_of(body: Any) -> Prompt:
    out = bytearray()
    if tools := _get(body, "tools"):
        out += _encode(tools)
    fields = _FIELDS if isinstance(body, Mapping) else _ATTRIBUTES
    _write(next(found for field in fields if (found := _get(body, field)) is not None), out)
    salt = _get(body, "cache_salt")
    return Prompt(bytes(out), salt if isinstance(salt, str) else None)


def _get(value: Any, name: str) -> Any:
    if isinstance(value, dict | Mapping):  # a dict is found out in no time, any mapping is not
        return value.get(name)
    found = getattr(value, name, None)
    return None if callable(found) else found


def _write(value: Any, out: bytearray) -> None:
    """The bytes of a prompt, of a message, or of a list of them, which is left where there is enough."""
    if isinstance(value, str):
        out += _utf8(value)
    elif isinstance(value, list | tuple):
        if value and isinstance(value[0], int):
            out += pack_tokens(value[: MOST_BYTES // 4])
            return
        for item in value:
            _write(item, out)
            if len(out) > MOST_BYTES:
                break
    elif value is not None:
        _write_message(value, out)


def _write_message(message: Any, out: bytearray) -> None:
    """A message after its role, the text of a part of one, or what stands for a picture."""
    role, content = _get(message, "role"), _get(message, "content")
    if role is None and content is None:
        text = _get(message, "text")
        out += _utf8(text) if isinstance(text, str) else xxh3_128_digest(_encode(message))
        return
    out += _utf8(f"\0{role}\n")
    _write(content, out)
    if calls := _get(message, "tool_calls"):
        out += _encode(calls)


def _utf8(text: str) -> bytes:
    """Half a character, which JSON may bring, is no reason to fail."""
    return text.encode("utf-8", "surrogatepass")
