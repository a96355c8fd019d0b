"""Server-sent events as bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator

_EVENT = re.compile(rb".+?(?:\r?\n\r?\n|\Z)", re.DOTALL)


def split_events(chunk: bytes) -> Iterator[bytes]:
    """The server-sent events in a chunk of whole ones."""
    return (match[0] for match in _EVENT.finditer(chunk))


def data_of(event: bytes) -> bytes:
    """What one event says, without the names of its lines."""
    return b"\n".join(line[5:] for line in event.splitlines() if line.startswith(b"data:")).strip()
