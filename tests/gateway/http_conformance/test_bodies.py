"""Bodies in chunks, too large ones, encoded ones; methods with and without; pages of other sites."""

from __future__ import annotations

import gzip

import pytest

from support.raw_cases import (
    BODY,
    CHUNKED,
    COLD,
    HEAD,
    HEAD_TOO_LARGE,
    HOT,
    LENGTH,
    REFUSED,
    REST,
    SERVED,
    Cases,
    Outcome,
    check_case,
    comparable,
    raw_request,
)
from support.raw_http import SERVERS

LAST = b"0\r\n\r\n"
DATA = b"<body>\r\n"


def chunks(lines: bytes) -> bytes:
    return HEAD + CHUNKED + b"\r\n" + lines


CHUNKS: Cases = {
    **{
        name: (SERVED, chunks(lines))
        for name, lines in {
            "whole": b"<size>\r\n" + DATA + LAST,
            "extension": b"<size>;a=b\r\n" + DATA + LAST,
            "extension without a value": b"<size>;a\r\n" + DATA + LAST,
            "extension, quoted": b'<size>;a="b;c"\r\n' + DATA + LAST,
            "extension of the last": b"<size>\r\n" + DATA + b"0;a=b\r\n\r\n",
            "size with zeros": b"000<size>\r\n" + DATA + LAST,
            "size with many zeros": b"0" * 30 + b"<size>\r\n" + DATA + LAST,
            "last of two zeros": b"<size>\r\n" + DATA + b"00\r\n\r\n",
            "trailer": b"<size>\r\n" + DATA + b"0\r\nx: y\r\n\r\n",
            "trailer with a key": b"<size>\r\n" + DATA + b"0\r\nauthorization: Bearer x\r\n\r\n",
        }.items()
    },
    "announced trailer": (
        SERVED,
        HEAD + CHUNKED + b"trailer: x\r\n\r\n<size>\r\n" + DATA + b"0\r\nx: y\r\n\r\n",
    ),
    **{
        name: (REFUSED, chunks(lines))
        for name, lines in {
            "extension with an open quote": b'<size>;a="b\r\n' + DATA + LAST,
            "extension after a space": b"<size> ; a=b\r\n" + DATA + LAST,
            "extension with a bare LF": b"<size>;a\n" + DATA + LAST,
            "extension with a bare CR": b"<size>;a\rb\r\n" + DATA + LAST,
            "extension with a NUL": b"<size>;a\0\r\n" + DATA + LAST,
            "size 0x": b"0x<size>\r\n" + DATA + LAST,
            "size plus": b"+<size>\r\n" + DATA + LAST,
            "size minus": b"-<size>\r\n" + DATA + LAST,
            "space before the size": b" <size>\r\n" + DATA + LAST,
            "space after the size": b"<size> \r\n" + DATA + LAST,
            "tab after the size": b"<size>\t\r\n" + DATA + LAST,
            "no size": b"\r\n" + DATA + LAST,
            "size of letters": b"xyz\r\n" + DATA + LAST,
            "size with an underscore": b"4_2\r\n" + DATA + LAST,
            "size of 2^64": b"1" + b"0" * 16 + b"\r\n" + DATA + LAST,
            "size of 2^64 and more": b"1" + b"0" * 14 + b"<size>\r\n" + DATA + LAST,
            "size of many digits": b"f" * 400 + b"\r\n" + DATA + LAST,
            "size too small": b"1\r\n" + DATA + LAST,
            "size too large": b"43\r\n" + DATA + LAST,
            "bare LF after the size": b"<size>\n" + DATA + LAST,
            "bare CR after the size": b"<size>\r" + DATA + LAST,
            "bare LF after the data": b"<size>\r\n<body>\n" + LAST,
            "bare CR after the data": b"<size>\r\n<body>\r" + LAST,
            "nothing after the data": b"<size>\r\n<body>" + LAST,
            "bare LF after the last size": b"<size>\r\n" + DATA + b"0\n\r\n",
            "bare LF at the end": b"<size>\r\n" + DATA + b"0\r\n\n",
            "trailer with a length": b"<size>\r\n" + DATA + b"0\r\ncontent-length: 5\r\n\r\n",
            "trailer with an encoding": b"<size>\r\n" + DATA + b"0\r\ntransfer-encoding: chunked\r\n\r\n",
            "trailer, folded": b"<size>\r\n" + DATA + b"0\r\nx: a\r\n b\r\n\r\n",
            "trailer without a colon": b"<size>\r\n" + DATA + b"0\r\nx\r\n\r\n",
            "trailer with a bare LF": b"<size>\r\n" + DATA + b"0\r\nx: y\n\r\n",
        }.items()
    },
    "1,000 trailers": (
        HEAD_TOO_LARGE,
        chunks(b"<size>\r\n" + DATA + b"0\r\n" + b"x: y\r\n" * 1000 + b"\r\n"),
    ),
    "a trailer of 100 KB": (
        HEAD_TOO_LARGE,
        chunks(b"<size>\r\n" + DATA + b"0\r\nx: " + b"y" * 100_000 + b"\r\n\r\n"),
    ),
}
TYPES: Cases = {
    "said to be text": (SERVED, HEAD + b"content-type: text/plain\r\n" + REST),
    "said to be a form": (SERVED, HEAD + b"content-type: application/x-www-form-urlencoded\r\n" + REST),
    "said to be encoded as nothing": (SERVED, HEAD + b"content-encoding: identity\r\n" + REST),
}
PREFLIGHT = (
    b"OPTIONS <path> HTTP/1.1\r\nhost: a\r\norigin: http://page.example\r\n"
    b"access-control-request-method: POST\r\naccess-control-request-headers: authorization\r\n\r\n"
)
PAGES: Cases = {
    "preflight": (Outcome((200,), True, 0), PREFLIGHT),
    "preflight of another page": (Outcome((400,), True, 0), PREFLIGHT.replace(b"page", b"other")),
    "from a page": (SERVED, HEAD + b"origin: http://page.example\r\n" + REST),
    "from another page": (Outcome((403,), True, 0), HEAD + b"origin: http://other.example\r\n" + REST),
}
CASES = {**CHUNKS, **TYPES}


@pytest.mark.parametrize("path", [HOT, COLD])
@pytest.mark.parametrize("name", CASES)
def test_bodies_are_read_in_one_way(servers, name, path):
    check_case(servers, path, CASES[name])


@pytest.mark.parametrize("path", [HOT, COLD])
@pytest.mark.parametrize("name", PAGES)
def test_pages_are_answered_in_one_way(page_servers, name, path):
    check_case(page_servers, path, PAGES[name])


@pytest.mark.parametrize("way", SERVERS)
@pytest.mark.parametrize("path", [HOT, COLD])
def test_a_page_that_may_ask_gets_the_headers_that_let_it_read(page_servers, path, way):
    client = page_servers[way].connect()
    client.send(raw_request(PREFLIGHT, path))
    said = client.answer("OPTIONS").headers
    assert said["access-control-allow-origin"] == "http://page.example"
    client.send(raw_request(HEAD + b"origin: http://page.example\r\n" + REST, path))
    answer = client.answer()
    assert answer.headers["access-control-allow-origin"] == "http://page.example"
    assert "x-request-id" in answer.headers["access-control-expose-headers"]


@pytest.mark.parametrize(
    ("template", "status", "is_kept"),
    [
        (HEAD + b"\r\n", 400, True),
        (HEAD + b"\r\n<body>", 400, False),
        (HEAD + b"content-length: 0\r\n\r\n", 400, True),
        (HEAD + b"content-length: 1\r\n\r\n{", 400, True),
        (HEAD + b"content-length: 2\r\n\r\n{}rest\r\n\r\n", 400, False),
        (chunks(LAST), 400, True),
        (HEAD + b"content-length: 20000000\r\n\r\n", 413, False),
        (HEAD + b"content-length: %d\r\n\r\n" % 2**63, 413, False),
        (HEAD + b"content-length: 150000\r\n\r\n" + b" " * 150_000, 413, True),
        (chunks(b"2710\r\n%b\r\n" % (b" " * 10_000) * 15 + LAST), 413, True),
    ],
    ids=[
        "none",
        "without a length",
        "length 0",
        "half a JSON",
        "longer than its length",
        "no chunks",
        "announced far too large",
        "announced as 2^63",
        "too large",
        "too large in chunks",
    ],
)
def test_a_body_that_a_declared_endpoint_does_not_take(servers, template, status, is_kept):
    check_case(servers, HOT, (Outcome((status,), is_kept, 0), template))


@pytest.mark.parametrize("size", [150_000, 400_000], ids=["too large", "far too large"])
@pytest.mark.parametrize("framing", ["length", "chunks"])
@pytest.mark.parametrize("path", [HOT, COLD])
def test_a_body_too_large_is_refused_after_its_sender_could_read_why(servers, path, framing, size):
    found = []
    for server in servers.values():
        client = server.connect()
        if framing == "length":
            client.send(raw_request(HEAD + b"content-length: %d\r\n\r\n" % size, path))
            client.send(b" " * size)
        else:
            client.send(raw_request(HEAD + CHUNKED + b"\r\n", path))
            client.send(b"2710\r\n%b\r\n" % (b" " * 10_000) * (size // 10_000) + LAST)
        answer = client.answer()
        assert answer.status == 413
        assert answer.json()["error"]["code"] == "body_too_large"
        assert server.take_seen() == []
        found.append(comparable(answer)[2])
    assert found[0] == found[1]


def test_an_encoded_body_is_none_that_a_declared_endpoint_reads(servers):
    packed = gzip.compress(BODY, mtime=0)
    template = HEAD + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(packed) + packed
    check_case(servers, HOT, (Outcome((400,), True, 0), template))


@pytest.mark.parametrize("path", [HOT, COLD])
@pytest.mark.parametrize("size", [1, 2, 7])
def test_chunks_of_any_size_are_one_body(server, path, size):
    parts = [BODY[i : i + size] for i in range(0, len(BODY), size)]
    client = server.connect()
    client.send(raw_request(HEAD + CHUNKED + b"\r\n", path))
    client.send_bytewise(b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + LAST, size=3)
    assert client.answer().said() == "hello"
    assert server.take_seen() == [("POST", path, BODY)]
    assert client.is_kept()


@pytest.mark.parametrize("path", [HOT, COLD])
def test_a_head_and_a_body_may_come_byte_by_byte(server, path):
    client = server.connect()
    client.send_bytewise(raw_request(HEAD + LENGTH + b"x: y\r\n\r\n<body>", path))
    assert client.answer().said() == "hello"
    assert server.take_seen() == [("POST", path, BODY)]
    assert client.is_kept()
