"""Methods, targets, versions and line ends."""

from __future__ import annotations

import pytest

from support.raw_cases import (
    BODY,
    COLD,
    HEAD,
    HEAD_TOO_LARGE,
    HOT,
    LENGTH,
    NOT_ALLOWED,
    NOT_FOUND,
    REFUSED,
    REST,
    SERVED,
    SERVED_LAST,
    Cases,
    Outcome,
    check_case,
    raw_request,
)

HOST = b"host: a\r\n"


def line(request_line: bytes) -> bytes:
    """A request with this first line and a body."""
    return request_line + b"\r\n" + HOST + REST


def target(value: bytes) -> bytes:
    return line(b"POST " + value + b" HTTP/1.1")


LINE_ENDS: Cases = {
    "bare LF everywhere": (REFUSED, b"<line> HTTP/1.1\nhost: a\ncontent-length: <length>\n\n<body>"),
    "bare LF after the request line": (REFUSED, b"<line> HTTP/1.1\n" + HOST + REST),
    "bare LF after a header": (REFUSED, b"<line> HTTP/1.1\r\nhost: a\n" + REST),
    "bare LF at the end": (REFUSED, HEAD + LENGTH + b"\n<body>"),
    "two bare LF at the end": (REFUSED, HEAD + b"content-length: <length>\n\n<body>"),
    "bare CR after the request line": (REFUSED, b"<line> HTTP/1.1\r" + HOST + REST),
    "bare CR after a header": (REFUSED, b"<line> HTTP/1.1\r\nhost: a\rx: y\r\n" + REST),
    "bare CR at the end": (REFUSED, HEAD + LENGTH + b"\r\r\n<body>"),
    "two CR": (REFUSED, b"<line> HTTP/1.1\r\r\n" + HOST + REST),
    "empty lines in front": (SERVED, b"\r\n\r\n" + HEAD + REST),
    "bare LF in front": (SERVED, b"\n\n" + HEAD + REST),
    "space in front": (REFUSED, b" " + HEAD + REST),
    "NUL in front": (REFUSED, b"\0" + HEAD + REST),
}
VERSIONS: Cases = {
    "HTTP/1.0": (SERVED_LAST, line(b"<line> HTTP/1.0")),
    "HTTP/0.9": (SERVED_LAST, line(b"<line> HTTP/0.9")),
    "HTTP/2.0": (SERVED_LAST, line(b"<line> HTTP/2.0")),
    "no version": (SERVED_LAST, line(b"<line>")),
    "GET without a version or a header": (Outcome((405,), False, 0), b"GET <path>\r\n\r\n"),
    **{
        f"version {version}": (REFUSED, line(b"<line> " + version.encode()))
        for version in (
            "HTTP/1.2",
            "HTTP/1.10",
            "HTTP/1.",
            "HTTP/1",
            "HTTP/9.9",
            "HTTP/-1.1",
            "HTTP/1.1x",
            "HTTP/1.1 x",
            "HTTP/1.1 ",
            "HTTP 1.1",
            "http/1.1",
            "HTTPS/1.1",
            "FTP/1.1",
            "ICE/1.0",
        )
    },
    "HTTP/2 preface": (REFUSED, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])),
    "HTTP/2 preface to the path": (REFUSED, b"PRI <path> HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "response": (REFUSED, b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
    "TLS": (REFUSED, bytes.fromhex("1603010200010001fc0303") + bytes(32) + b"\r\n\r\n"),
}
METHODS: Cases = {
    "two spaces": (SERVED, line(b"POST  <path> HTTP/1.1")),
    "two spaces before the version": (SERVED, line(b"POST <path>  HTTP/1.1")),
    "tabs": (REFUSED, line(b"POST\t<path>\tHTTP/1.1")),
    **{
        f"method {name}": (REFUSED, line(method + b" <path> HTTP/1.1"))
        for name, method in {
            "in lower case": b"post",
            "unknown": b"FROB",
            "with an at sign": b"PO@ST",
            "with a NUL": b"PO\0ST",
            "non-ASCII": b"POS\xc3\x9f",
            "with a letter more": b"POSTX",
            "none": b"",
            "of 70 KB": b"P" * 70_000,
            "of RTSP": b"DESCRIBE",
        }.items()
    },
    **{
        f"{method} {name}": (NOT_ALLOWED, f"{method} <path> HTTP/1.1\r\n".encode() + HOST + rest)
        for method in ("GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND", "QUERY")
        for name, rest in {"alone": b"\r\n", "with a body": REST}.items()
    },
}
TARGETS: Cases = {
    "query": (SERVED, target(b"<path>?a=b&c")),
    "empty query": (SERVED, target(b"<path>?")),
    "fragment": (SERVED, target(b"<path>#x")),
    "query and fragment": (SERVED, target(b"<path>?a=b#x")),
    "query of 60 KB": (SERVED, target(b"<path>?" + b"x" * 60_000)),
    "query of 100 KB": (HEAD_TOO_LARGE, target(b"<path>?" + b"x" * 100_000)),
    "path of 100 KB": (HEAD_TOO_LARGE, target(b"/" + b"x" * 100_000)),
    "absolute": (SERVED, target(b"http://a<path>")),
    "absolute, https": (SERVED, target(b"https://a<path>")),
    "absolute, of another host": (SERVED, target(b"http://b:80<path>")),
    "absolute, with a user": (SERVED, target(b"http://u:p@a<path>")),
    "absolute, with a query": (SERVED, target(b"http://a<path>?x=y")),
    "absolute, other scheme": (SERVED, target(b"ftp://a<path>")),
    "absolute, capitals": (SERVED, target(b"HTTP://a<path>")),
    "absolute, no host": (REFUSED, target(b"http://<path>")),
    "absolute, no path": (REFUSED, target(b"http://a")),
    "host and port": (REFUSED, target(b"a:80")),
    "asterisk": (NOT_FOUND, target(b"*")),
    "OPTIONS asterisk": (NOT_FOUND, b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n"),
    "CONNECT to a host": (REFUSED, b"CONNECT a:80 HTTP/1.1\r\n" + HOST + b"\r\n"),
    "CONNECT to the path": (REFUSED, b"CONNECT <path> HTTP/1.1\r\n" + HOST + b"\r\n"),
    "no target": (REFUSED, line(b"POST HTTP/1.1")),
    "empty target": (REFUSED, line(b"POST  HTTP/1.1")),
    **{
        f"path, {name}": (REFUSED, target(value))
        for name, value in {
            "non-ASCII": b"<path>\xc3\xbc",
            "byte FF": b"<path>\xff",
            "byte FF in the query": b"<path>?\xff",
            "control": b"<path>\x01",
            "NUL": b"<path>\0",
            "DEL": b"<path>\x7f",
            "space": b"<path> x",
            "backslash in front": b"\\<path>",
            "encoded slash in front": b"%2F<path>",
            "no slash in front": b"x",
            "only a query": b"?a=b",
        }.items()
    },
    **{
        f"path, {name}": (NOT_FOUND, target(value))
        for name, value in {
            "slash in front": b"/<path>",
            "slash behind": b"<path>/",
            "two slashes behind": b"<path>//",
            "one dot": b"/.<path>",
            "two dots": b"/x/..<path>",
            "encoded dots": b"/x/%2e%2e<path>",
            "parameter": b"<path>;a=b",
            "capitals": b"/V1/CHAT/COMPLETIONS",
            "encoded capital": b"/v1/%43hat/completions",
            "twice encoded": b"/v1/%2563hat/completions",
            "badly encoded": b"<path>%zz",
            "half encoded": b"<path>%6",
            "encoded NUL": b"<path>%00",
            "encoded line end": b"<path>%0d%0ax:%20y",
            "encoded query": b"<path>%3Fa=b",
            "encoded non-ASCII": b"<path>%C3%BC",
            "encoded, no UTF-8": b"<path>%FF",
            "brackets": b"<path>[0]",
            "quotes": b'<path>"x"',
        }.items()
    },
}
CASES = {**LINE_ENDS, **VERSIONS, **METHODS, **TARGETS}


@pytest.mark.parametrize("path", [HOT, COLD])
@pytest.mark.parametrize("name", CASES)
def test_a_request_line_is_read_in_one_way(servers, name, path):
    check_case(servers, path, CASES[name])


@pytest.mark.parametrize(
    "spelled",
    [
        "/v1/%63hat/completions",
        "/v1%2Fchat%2Fcompletions",
        "/v1%2fchat/completions",
        "http://a/v1/%63hat/completions",
    ],
)
def test_an_encoded_path_is_the_path_that_it_stands_for(servers, spelled):
    check_case(servers, spelled, (SERVED, HEAD + REST))


@pytest.mark.parametrize("path", [HOT, COLD])
@pytest.mark.parametrize(
    ("asked", "seen"),
    [("?a=b&c", "?a=b&c"), ("?", ""), ("#x", ""), ("?a=b#x", "?a=b"), ("?%zz=%20", "?%zz=%20")],
)
def test_a_worker_is_asked_with_the_query(server, path, asked, seen):
    client = server.connect()
    client.send(raw_request(HEAD + REST, path + asked))
    assert client.answer().status == 200
    assert server.take_seen() == [("POST", path + seen, BODY)]
