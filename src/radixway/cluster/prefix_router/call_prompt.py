"""The prompt among the arguments of a call to a deployment, as bytes that begin alike where prompts do.

Whatever a deployment takes is read: an object with `messages` or `prompt` (Ray Serve's LLM requests), the
same as a mapping, its JSON, a text, token ids, a Starlette request whose body has been read. What stands in
front of the messages in a model's context (tools, roles, pictures) stands in front of them here.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from xxhash import xxh3_128_digest

from radixway.routing.block_hash import hash_text_blocks, pack_tokens

BLOCK_BYTES = 64
"""Bytes a block: 16 tokens of English, the block of most engines."""
MAX_PROMPT_BYTES = 2**19
"""Bytes of a longer prompt that are read."""
_FINE_BYTES = 16
_FINE_END = 256
"""Blocks up to here are smaller, because short prompts share beginnings, too."""

_FIELDS = ("messages", "prompt", "prompt_token_ids", "input_ids", "text")
_ATTRIBUTES = _FIELDS[:-1]
"""Attributes of objects: `text` is a method of many."""
_encode = msgspec.json.Encoder(enc_hook=repr, order="sorted").encode


class CallPrompt(NamedTuple):
    """The bytes of a prompt, and its salt."""

    data: bytes
    """At most about `MAX_PROMPT_BYTES` of it."""
    salt: str | None = None
    """Separates its prefixes from others'."""


NO_PROMPT = CallPrompt(b"")


def find_prompt(args: Sequence[Any], kwargs: Mapping[Any, Any]) -> CallPrompt:
    """The prompt of a call with these arguments; `NO_PROMPT` where there is none."""
    plain: Any = None
    for value in (kwargs, *args, *kwargs.values()):
        found = _prompt_holder(value)
        if found is not None:
            return _prompt_of(found)
        if plain is None and isinstance(value, str | bytes):
            plain = value
    if plain is None:
        return NO_PROMPT
    return CallPrompt(plain if isinstance(plain, bytes) else _encode_text(plain))


def hash_fine_blocks(data: bytes, seed: int) -> list[int]:
    """The names of a prompt's whole blocks, of which the first are finer."""
    names = hash_text_blocks(data[:_FINE_END], _FINE_BYTES, seed)
    if len(data) >= _FINE_END + BLOCK_BYTES:
        names += hash_text_blocks(data[_FINE_END:MAX_PROMPT_BYTES], BLOCK_BYTES, names[-1])
    return names


def count_fine_bytes(blocks: int) -> int:
    """Return the bytes of a prompt's first `blocks` blocks, as `hash_fine_blocks` cuts them."""
    fine = _FINE_END // _FINE_BYTES
    return blocks * _FINE_BYTES if blocks <= fine else _FINE_END + (blocks - fine) * BLOCK_BYTES


def hash_even_blocks(data: bytes, seed: int) -> list[int]:
    """The names of a prompt's whole blocks of `BLOCK_BYTES`."""
    return hash_text_blocks(data[:MAX_PROMPT_BYTES], BLOCK_BYTES, seed)


def _prompt_holder(value: Any) -> Any:
    """Return `value`, or what it holds, if a prompt stands in one of its fields."""
    if value is None or isinstance(value, str | int | float | list | tuple):
        return None
    if isinstance(value, bytes | bytearray | memoryview):
        return _decode_holder(bytes(value))
    fields = _FIELDS if isinstance(value, Mapping) else _ATTRIBUTES
    if any(_get_field(value, field) is not None for field in fields):
        return value
    cached = getattr(value, "_body", None)  # where Starlette keeps what has been read
    return _decode_holder(cached) if isinstance(cached, bytes) else None


def _decode_holder(raw: bytes) -> Any:
    if raw.lstrip()[:1] != b"{":
        return None
    try:
        return _prompt_holder(msgspec.json.decode(raw))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _prompt_of(body: Any) -> CallPrompt:
    out = bytearray()
    if tools := _get_field(body, "tools"):
        out += _encode(tools)
    fields = _FIELDS if isinstance(body, Mapping) else _ATTRIBUTES
    _append_content(next(found for field in fields if (found := _get_field(body, field)) is not None), out)
    salt = _get_field(body, "cache_salt")
    return CallPrompt(bytes(out), salt if isinstance(salt, str) else None)


def _get_field(value: Any, name: str) -> Any:
    if isinstance(value, dict | Mapping):  # a dict is found out in no time, any mapping is not
        return value.get(name)
    found = getattr(value, name, None)
    return None if callable(found) else found


def _append_content(value: Any, out: bytearray) -> None:
    """Append the bytes of a prompt, message or list to `out` until there is enough."""
    if isinstance(value, str):
        out += _encode_text(value)
    elif isinstance(value, list | tuple):
        if value and isinstance(value[0], int):
            out += pack_tokens(value[: MAX_PROMPT_BYTES // 4])
            return
        for item in value:
            _append_content(item, out)
            if len(out) > MAX_PROMPT_BYTES:
                break
    elif value is not None:
        _append_message(value, out)


def _append_message(message: Any, out: bytearray) -> None:
    """Append a message after its role, a text part, or a picture's placeholder."""
    role, content = _get_field(message, "role"), _get_field(message, "content")
    if role is None and content is None:
        text = _get_field(message, "text")
        out += _encode_text(text) if isinstance(text, str) else xxh3_128_digest(_encode(message))
        return
    out += _encode_text(f"\0{role}\n")
    _append_content(content, out)
    if calls := _get_field(message, "tool_calls"):
        out += _encode(calls)


def _encode_text(text: str) -> bytes:
    """Encode text that may hold lone surrogates."""
    return text.encode("utf-8", "surrogatepass")
