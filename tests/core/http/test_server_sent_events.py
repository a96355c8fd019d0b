"""Server-sent events are the same however they are cut, whatever ends their lines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.core.http.server_sent_events import (
    DONE_EVENT,
    EventBuffer,
    count_events,
    event_data,
    event_id,
    iterate_data,
    read_events,
    replace_data,
    split_events,
    write_comment,
    write_event,
)


async def arriving(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def data_of(*chunks: bytes) -> list[tuple[str | None, bytes]]:
    events = [event async for event in read_events(arriving(chunks))]
    return [(event_id(event), data) for event in events if (data := event_data(event))]


line_ends = st.sampled_from(["\n", "\r\n", "\r"])
fields = st.sampled_from(["data: a", "data:b", "data: {é}", "id: 7", ": ping", "retry: 1"])
streams = st.lists(st.tuples(st.lists(st.tuples(fields, line_ends), min_size=1), line_ends))


@given(streams, st.booleans(), st.data())
async def test_events_are_the_same_however_they_are_cut(
    events: list[tuple[list[tuple[str, str]], str]], has_mark: bool, draw: st.DataObject
) -> None:
    text = "".join("".join(map("".join, lines)) + blank for lines, blank in events)
    whole = b"\xef\xbb\xbf" * has_mark + text.encode()
    # A CR before an LF is one line end with it: the text is read as the standard does.
    expected: list[tuple[str | None, bytes]] = []
    data: list[str] = []
    name: str | None = None
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if line.startswith("data:"):
            data.append(line[5:])
        elif line.startswith("id:"):
            name = line[3:].strip()
        elif not line:
            if data:
                expected.append((name, "\n".join(data).encode().strip()))
            data, name = [], None
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert await data_of(*pieces) == expected
    assert await data_of(whole) == expected
    buffer = EventBuffer()
    assert b"".join([*map(buffer.take_events, pieces), buffer.take_rest()]) == whole, "no byte is lost"
    assert b"".join(split_events(whole)) == whole


async def test_every_byte_may_come_alone() -> None:
    raw = b'id: 7\r\ndata: {"a":"\xc3\xa9"}\r\n\r\n: ping\r\n\r\ndata: one\ndata: two\n\ndata: never ended'
    for size in range(1, len(raw)):
        cut = [raw[at : at + size] for at in range(0, len(raw), size)]
        assert await data_of(*cut) == [("7", '{"a":"é"}'.encode()), (None, b"one\n two")]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_an_event_passes_when_its_blank_line_has_come(line_end: bytes) -> None:
    buffer = EventBuffer()
    event = b"data: a" + line_end * 2
    assert buffer.take_events(event) == event
    assert buffer.take_events(event[:5]) == b""
    assert buffer.take_events(event[5:] + b"data") == event
    assert buffer.take_rest() == b"data"


async def test_an_event_that_never_ends_is_refused() -> None:
    chunks = [b"data: " + b"x" * 90, b"y" * 90]
    with pytest.raises(ValueError, match="more than 100 bytes"):
        async for _ in read_events(arriving(chunks), max_event_bytes=100):
            pass


def test_what_is_written_is_read_again() -> None:
    assert write_event(b"{}") == b"data: {}\n\n"
    assert write_event(b"{}", event_type="ping", event_id=3) == b"event: ping\nid: 3\ndata: {}\n\n"
    assert write_event(b"{}", event_id=3, line_end=b"\r\n") == b"id: 3\r\ndata: {}\r\n\r\n"
    assert write_comment(b"ping") == b": ping\n\n"
    several = write_event(b"one\ntwo\rthree")
    assert several == b"data: one\ndata: two\ndata: three\n\n" and count_events(several) == 1
    assert replace_data(b"id: 3\r\ndata: {}\r\n: c\r\n\r\n", b"[]") == b"id: 3\n: c\ndata: []\n\n"
    chunk = write_event(b"1") + write_comment(b"ping") + write_event(b"2") + DONE_EVENT
    assert [*iterate_data(chunk)] == [b"1", b"2"] and count_events(chunk) == 4
