"""JSON as workers write it: also with halves of surrogate pairs, which strict readers refuse."""

from __future__ import annotations

import json
from typing import Any

import msgspec

_decode = msgspec.json.Decoder().decode


def decode_json(raw: bytes) -> Any:
    """Raises ValueError, RecursionError, OverflowError for what is no JSON."""
    try:
        return _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return json.loads(raw)


def encode_json(data: Any) -> bytes:
    """What `decode` read, as bytes again."""
    try:
        return msgspec.json.encode(data)
    except UnicodeEncodeError:
        return json.dumps(data, separators=(",", ":")).encode("ascii")
