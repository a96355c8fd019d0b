"""Server-sent events as bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

_EVENT = re.compile(rb".+?(?:\r?\n\r?\n|\Z)", re.DOTALL)
_EVENT_WITH_RETURNS = re.compile(rb".+?(?:(?:\r\n|\n|\r(?!\n)){2}|\Z)", re.DOTALL)
"""Lines may end with a carriage return alone (HTML standard, 9.2.5)."""
_SPACE = re.compile(r"\s*")
_DONE = "[DONE]"


def split_events(chunk: bytes) -> Iterator[bytes]:
    """The server-sent events in a chunk of whole ones."""
    ends = _EVENT_WITH_RETURNS if b"\r" in chunk else _EVENT
    return (match[0] for match in ends.finditer(chunk))


def data_of(event: bytes) -> bytes:
    """What one event says, without the names of its lines."""
    return b"\n".join(line[5:] for line in event.splitlines() if line.startswith(b"data:")).strip()


def take_apart(event: bytes) -> list[bytes]:
    """An event that says several JSON texts as events that say one each, as readers of lines understand it.

    Bytes that are no UTF-8 become U+FFFD. Empty where there is anything else in it.
    """
    said = data_of(event).decode("utf-8", "replace")
    kept = [line for line in event.splitlines() if line and not line.startswith(b"data:")]
    parts: list[bytes] = []
    at = 0
    while at < len(said):
        try:
            end = at + len(_DONE) if said.startswith(_DONE, at) else _decoder.raw_decode(said, at)[1]
        except (ValueError, RecursionError):
            return []
        parts.append(b"\n".join([*kept, *_data(said[at:end])]) + b"\n\n")
        space = _SPACE.match(said, end)
        at = end if space is None else space.end()
    return parts


_decoder = json.JSONDecoder()


def _data(text: str) -> list[bytes]:
    return [b"data: " + line for line in text.encode("utf-8", "replace").splitlines()]
