"""Routed experts of answers that came in pieces: the rows that sampling used, not those recomputed later.

SGLang returns them in base64: a row of int32 for each token of prompt and answer but the last one, from
`routed_experts_start_len` of the request on. Servers that do not know that field return all rows again.
"""

import binascii
from base64 import b64decode, b64encode
from typing import Any

_NAME = "routed_experts"


def join_reply_experts(
    first: dict[str, Any], second: dict[str, Any], new_tokens: int, *, start: int = 0
) -> dict[str, Any]:
    """The field for `first` continued by `second`, from their `meta_info`; {} where there is none.

    `start` is the client's `routed_experts_start_len`.

    `second` has either its `new_tokens` rows alone, or all of them again: then those of `first` are kept,
    because they are what its tokens were sampled with. Anything else stays as `second` says it.
    """
    held, more = _decode_rows(first), _decode_rows(second)
    if held is None or more is None:
        return {_NAME: first[_NAME]} if held is not None and not new_tokens else {}
    row = _row_bytes(first, held, start)
    if row is None:
        return {}
    if len(more) == row * new_tokens:
        return {_NAME: _encode_rows(held + more)}
    if len(more) == len(held) + row * new_tokens:
        return {_NAME: _encode_rows(held + more[len(held) :])}
    return {}


def first_rows(meta: dict[str, Any], *, dropped: int, start: int = 0) -> dict[str, Any]:
    """The field without the rows of the last `dropped` tokens; {} where there is none, or nothing to drop."""
    held = _decode_rows(meta)
    row = None if held is None else _row_bytes(meta, held, start)
    if held is None or row is None or not dropped:
        return {}
    return {_NAME: _encode_rows(held[: len(held) - row * dropped])}


def _row_bytes(meta: dict[str, Any], held: bytes, start: int) -> int | None:
    prompt, sampled = meta.get("prompt_tokens"), meta.get("completion_tokens")
    if type(prompt) is not int or type(sampled) is not int:
        return None
    rows = prompt + sampled - 1 - start
    return len(held) // rows if rows > 0 and not len(held) % rows else None


def _decode_rows(meta: dict[str, Any]) -> bytes | None:
    text = meta.get(_NAME)
    if not isinstance(text, str):
        return None
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _encode_rows(rows: bytes) -> str:
    return b64encode(rows).decode("ascii")
