"""Server-sent events (HTML standard, section 9.2): the one place that frames, reads and writes them.

    chunk ─ EventBuffer ─► whole events ─ split_events ─► one event ─ event_data ─► its JSON, or `[DONE]`
                                        └ iterate_data ─────────────────────────────┘

Bytes stay bytes: an event that is passed on is never decoded. Lines end with LF, CR LF or CR, a blank line
ends an event, `data` lines of one event are joined; comments, unknown fields and a byte order mark are passed
over.
"""

import re
from codecs import BOM_UTF8
from collections.abc import AsyncGenerator, AsyncIterable, Iterator

MAX_EVENT_BYTES = 64 * 2**20
"""Bytes of one event, which is held in memory until it is whole."""
DONE_DATA = b"[DONE]"
"""The data of the last event of OpenAI's and SGLang's streams."""
DONE_EVENT = b"data: [DONE]\n\n"

_DATA = b"data:"
_BLANK_LINES = (b"\n\n", b"\r\n\r\n", b"\r\r")
_EVENT_WITH_RETURNS = re.compile(rb".+?(?:(?:\r\n|\n|\r(?!\n)){2}|\Z)", re.DOTALL)


class EventBuffer:
    """Holds back what has arrived after the last blank line, so that only whole events are passed on."""

    __slots__ = ("_buffer", "_searched", "max_event_bytes")

    def __init__(self, max_event_bytes: int | None = None) -> None:
        """`max_event_bytes`: None for `MAX_EVENT_BYTES`."""
        self.max_event_bytes = MAX_EVENT_BYTES if max_event_bytes is None else max_event_bytes
        self._buffer = bytearray()
        self._searched = 0
        """No event ends before this position of the buffer."""

    @property
    def too_large(self) -> bool:
        """True if one event alone has more than `max_event_bytes`."""
        return len(self._buffer) > self.max_event_bytes

    def take_events(self, chunk: bytes) -> bytes:
        """Add `chunk`; return the whole events that are there now, as they were written."""
        if not self._buffer and chunk.endswith(_BLANK_LINES):
            return chunk  # nearly always: an engine writes one event at a time
        buffer = self._buffer
        buffer += chunk
        end = _end_of_events(buffer, self._searched)
        taken = bytes(buffer[:end])
        del buffer[:end]
        self._searched = max(0, len(buffer) - 3)  # a blank line may have begun there
        return taken

    def take_rest(self) -> bytes:
        """Return the buffered rest of a stream that ended: an event, whole or cut, without its blank line."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        self._searched = 0
        return rest


def _end_of_events(text: bytearray, start: int) -> int:
    """Return where the last blank line from `start` on ends; 0 if there is none.

    An LF behind the CR that ends a blank line belongs to it. Behind CR CR it may come later, for then lines
    end with CR alone; behind LF CR it is waited for.
    """
    end = max(text.rfind(line, start) + 2 for line in (b"\n\n", b"\r\r"))
    mixed = text.rfind(b"\n\r", start, len(text) - 1) + 2
    end = max(end, mixed)
    if end < 2:
        return 0
    return end + 1 if text[end - 1 : end + 1] == b"\r\n" else end


def split_events(chunk: bytes) -> Iterator[bytes]:
    """Split a chunk of whole events; joined, they are the chunk again."""
    if b"\r" in chunk:
        yield from (match[0] for match in _EVENT_WITH_RETURNS.finditer(chunk))
        return
    begin = 0
    while (end := chunk.find(b"\n\n", begin) + 2) >= 2:
        yield chunk[begin:end]
        begin = end
    if begin < len(chunk):
        yield chunk[begin:]


def count_events(chunk: bytes) -> int:
    """Count the events in a chunk of whole ones, at least one, without splitting it."""
    return chunk.count(b"\n\n") or chunk.count(b"\r\n\r\n") or chunk.count(b"\r\r") or 1


def event_data(event: bytes) -> bytes:
    """Return the data of one event without white space around it; empty for a comment."""
    lines = event.removeprefix(BOM_UTF8).splitlines()
    return b"\n".join([line[5:] for line in lines if line.startswith(_DATA)]).strip()


def event_id(event: bytes) -> str | None:
    """Return the id of one event, None if it has none."""
    lines = event.removeprefix(BOM_UTF8).splitlines()
    ids = [line[3:].strip() for line in lines if line.startswith(b"id:")]
    return ids[-1].decode("utf-8", "replace") if ids else None


def iterate_data(chunk: bytes) -> Iterator[bytes]:
    """Iterate over the data of the events in a chunk of whole ones, but for empty ones and `[DONE]`."""
    data: list[bytes] = []
    for line in (*chunk.removeprefix(BOM_UTF8).splitlines(), b""):
        if line.startswith(_DATA):
            data.append(line[5:])
        elif data and not line:
            joined = b"\n".join(data).strip()
            data.clear()
            if joined and joined != DONE_DATA:
                yield joined


async def read_events(
    chunks: AsyncIterable[bytes], max_event_bytes: int | None = None
) -> AsyncGenerator[bytes]:
    """Yield the events of a stream, but for a last one cut in a line. Raises ValueError."""
    buffer = EventBuffer(max_event_bytes)
    async for chunk in chunks:
        for event in split_events(buffer.take_events(chunk)):
            yield event
        if buffer.too_large:
            raise ValueError(f"an event has more than {buffer.max_event_bytes} bytes")
    rest = buffer.take_rest()
    if rest.endswith((b"\n", b"\r")) and rest.strip():
        yield rest


def write_event(
    data: bytes, *, event_type: str = "", event_id: int | None = None, line_end: bytes = b"\n"
) -> bytes:
    """Write one event; `data` of several lines, as JSON never has, becomes as many `data` lines."""
    if b"\n" in data or b"\r" in data:
        data = (line_end + b"data: ").join(data.splitlines())
    if not event_type and event_id is None and line_end == b"\n":
        return b"data: " + data + b"\n\n"
    head = b"event: " + event_type.encode() + line_end if event_type else b""
    if event_id is not None:
        head += b"id: %d%b" % (event_id, line_end)
    return b"%bdata: %b%b%b" % (head, data, line_end, line_end)


def write_comment(text: bytes, line_end: bytes = b"\n") -> bytes:
    """Write `text` as a comment, which readers pass over: a sign of life."""
    return b": " + text + line_end + line_end


def replace_data(event: bytes, data: bytes) -> bytes:
    """Write `event` again with other data; its other lines stay."""
    lines = event.removeprefix(BOM_UTF8).splitlines()
    other_lines = [line + b"\n" for line in lines if line and not line.startswith(_DATA)]
    return b"".join(other_lines) + write_event(data)
