"""Requests cut and changed at random: all ways of serving answer the same, log nothing and serve on."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.raw_cases import (
    CHUNKED,
    COLD,
    HEAD,
    HEALTH,
    HOT,
    REST,
    chat_request,
    comparable,
    raw_request,
)
from support.raw_http import ThreadedGateway

VALID = [
    *(raw_request(HEAD + REST, path) for path in (HOT, COLD)),
    *(raw_request(HEAD + CHUNKED + b"\r\n<chunks>", path) for path in (HOT, COLD)),
    raw_request(HEAD + b"expect: 100-continue\r\n" + REST, HOT),
    raw_request(HEAD + b"connection: upgrade\r\nupgrade: h2c\r\n" + REST, HOT),
    HEALTH,
]
MAX_BODY_BYTES = 100_000
"""The limit of `servers`."""
ODD = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b":",
    b"\xff",
    b"0\r\n\r\n",
    b"content-length: 5\r\n",
    b"transfer-encoding: chunked\r\n",
    b"connection: close\r\n",
    b"HTTP/1.0",
    b"%2F",
    b"POST / HTTP/1.1\r\n\r\n",
]


TAIL = bytes(4 * MAX_BODY_BYTES)
"""The end of every request: longer than any body that is read, and no head, chunk or trailer."""


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Valid requests one behind the other, changed in up to three places."""
    raw = b"".join(draw(st.lists(st.sampled_from(VALID), min_size=1, max_size=4)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(raw)))
        until = min(len(raw), at + draw(st.integers(0, 8)))
        raw = raw[:at] + draw(st.sampled_from(ODD) | st.binary(max_size=4)) + raw[until:]
    return raw


@given(raw=streams(), cuts=st.lists(st.integers(0, 2000), max_size=6))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_are_answered_differently_or_disturb_the_server(servers, raw, cuts):
    first, second = (exchange(server, raw, cuts) for server in servers.values())
    for one, other in zip(first, second, strict=True):
        both = min(len(one), len(other))  # where garbage follows, requests that wait are not answered
        assert one[:both] == other[:both]
    for server in servers.values():
        client = server.connect()
        client.send(chat_request(HOT, "still here") + chat_request(COLD, "still here"))
        assert [client.answer().said() for _ in range(2)] == ["still here"] * 2
        assert client.is_kept()
        server.wait_until_idle()
        server.take_seen()
        assert not server.errors


def exchange(server: ThreadedGateway, raw: bytes, cuts: list[int]) -> tuple[list[object], list[object]]:
    """What came back for `raw`, which the server reads cut at `cuts`, and what the worker saw."""
    client = server.connect()
    begin = 0
    for end in [*sorted({cut % (len(raw) + 1) for cut in cuts}), len(raw)]:
        client.send(raw[begin:end])
        server.run(asyncio.sleep(0))  # it has read that much by now
        begin = end
    client.send(TAIL)
    answers: list[object] = []
    with suppress(EOFError):
        while True:
            answer = client.answer()
            answer.headers.pop("connection", None)  # garbage behind may come before the answer, or after
            answers.append(comparable(answer))
    server.wait_until_idle()
    return answers, list(server.take_seen())
