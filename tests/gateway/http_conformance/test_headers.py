"""Header lines: names, values, folds, how many and how long; the host; what says when a connection ends."""

from __future__ import annotations

import pytest

from support.raw_cases import (
    COLD,
    HEAD,
    HEAD_TOO_LARGE,
    HOT,
    REFUSED,
    REST,
    SERVED,
    SERVED_LAST,
    Cases,
    check_case,
    raw_request,
)

LINES: Cases = {
    **{
        name: (REFUSED, HEAD + lines + REST)
        for name, lines in {
            "no colon": b"x\r\n",
            "empty name": b": y\r\n",
            "space in a name": b"x y: z\r\n",
            "space before the colon": b"x : y\r\n",
            "tab before the colon": b"x\t: y\r\n",
            "control in a name": b"x\x01: y\r\n",
            "non-ASCII in a name": b"\xc3\xbc: y\r\n",
            "brackets in a name": b"x[0]: y\r\n",
            "NUL in a value": b"x: a\0b\r\n",
            "control in a value": b"x: a\x01b\r\n",
            "DEL in a value": b"x: a\x7fb\r\n",
            "escape in a value": b"x: a\x1bb\r\n",
            "bare CR in a value": b"x: a\rb\r\n",
            "bare LF in a value": b"x: a\nb\r\n",
            "folded": b"x: a\r\n b\r\n",
            "folded with a tab": b"x: a\r\n\tb\r\n",
            "folded to nothing": b"x: a\r\n \r\n",
            "a fold of the host": b" x: y\r\n",
        }.items()
    },
    "a fold of the request line": (REFUSED, b"<line> HTTP/1.1\r\n x: y\r\nhost: a\r\n" + REST),
    **{
        name: (SERVED, HEAD + lines + REST)
        for name, lines in {
            "colon in a value": b"x:y: z\r\n",
            "non-ASCII in a value": b"x: \xc3\xbc\xff\r\n",
            "tab in a value": b"x: a\tb\r\n",
            "empty value": b"x:\r\n",
            "no space after the colon": b"x:y\r\n",
            "spaces around a value": b"x:   y   \r\n",
            "128 headers": b"x: y\r\n" * 126,
            "60 KB": b"x: " + b"y" * 60_000 + b"\r\n",
        }.items()
    },
    **{
        name: (HEAD_TOO_LARGE, HEAD + lines + REST)
        for name, lines in {
            "129 headers": b"x: y\r\n" * 127,
            "10,000 headers": b"x: y\r\n" * 10_000,
            "a value of 1 MB": b"x: " + b"y" * 2**20 + b"\r\n",
            "a name of 70 KB": b"x" * 70_000 + b": y\r\n",
        }.items()
    },
}
HOSTS: Cases = {
    **{
        f"{name} in HTTP/{version}": (REFUSED, b"<line> HTTP/%b\r\n" % version.encode() + lines + REST)
        for version in ("1.1", "1.0")
        for name, lines in {
            "two hosts": b"host: a\r\nhost: b\r\n",
            "two equal hosts": b"host: a\r\nhost: a\r\n",
            "two hosts, one empty": b"host: a\r\nHOST:\r\n",
            "host with a space": b"host: a b\r\n",
            "host with a path": b"host: a/b\r\n",
            "host with a query": b"host: a?b\r\n",
            "host with a fragment": b"host: a#b\r\n",
            "host with a scheme": b"host: http://a\r\n",
            "host with a backslash": b"host: a\\b\r\n",
            "host with a user": b"host: u@a\r\n",
            "list of hosts": b"host: a, b\r\n",
            "host, non-ASCII": b"host: \xc3\xbc\r\n",
            "host, half encoded": b"host: a%6\r\n",
            "host, badly encoded": b"host: a%zz\r\n",
            "port of letters": b"host: a:b\r\n",
            "negative port": b"host: a:-1\r\n",
            "two ports": b"host: a:80:80\r\n",
            "address without brackets": b"host: ::1\r\n",
            "address with half a bracket": b"host: [::1\r\n",
            "address in brackets with more behind": b"host: [::1]a\r\n",
            "empty brackets": b"host: []\r\n",
        }.items()
    },
    "no host": (REFUSED, b"<line> HTTP/1.1\r\n" + REST),
    "no host, behind a request": (SERVED_LAST, HEAD + REST + b"<line> HTTP/1.1\r\n" + REST),
    "no host but in the target": (REFUSED, b"POST http://a<path> HTTP/1.1\r\n" + REST),
    "no host in HTTP/1.0": (SERVED_LAST, b"<line> HTTP/1.0\r\n" + REST),
    **{
        name: (SERVED, b"<line> HTTP/1.1\r\n" + lines + REST)
        for name, lines in {
            "empty host": b"host:\r\n",
            "host with a port": b"host: a:80\r\n",
            "host with an empty port": b"host: a:\r\n",
            "host in capitals": b"HOST: LOCALHOST\r\n",
            "host with underscores": b"host: my_name\r\n",
            "host between tabs": b"host:\ta\t\r\n",
            "encoded host": b"host: %C3%BC\r\n",
            "IPv4 address": b"host: 127.0.0.1:80\r\n",
            "IPv6 address": b"host: [::1]:80\r\n",
            "IPv6 address with a zone": b"host: [fe80::1%25eth0]\r\n",
        }.items()
    },
}
CONNECTIONS: Cases = {
    **{
        f"kept, {name}": (SERVED, HEAD + lines + REST)
        for name, lines in {
            "by default": b"",
            "keep-alive": b"connection: keep-alive\r\n",
            "unknown": b"connection: x\r\n",
            "closed": b"connection: closed\r\n",
            "empty": b"connection:\r\n",
            "named header": b"connection: content-length\r\n",
            "header keep-alive": b"keep-alive: timeout=5\r\n",
        }.items()
    },
    **{
        f"ended, {name}": (SERVED_LAST, HEAD + lines + REST)
        for name, lines in {
            "close": b"connection: close\r\n",
            "CLOSE": b"Connection: CLOSE\r\n",
            "in a list": b"connection: x, close\r\n",
            "before keep-alive": b"connection: close, keep-alive\r\n",
            "after keep-alive": b"connection: keep-alive, close\r\n",
            "in a second header": b"connection: keep-alive\r\nconnection: close\r\n",
            "in the first header": b"connection: close\r\nconnection: keep-alive\r\n",
            "of a proxy": b"proxy-connection: close\r\n",
        }.items()
    },
    **{
        f"ended in HTTP/1.0, {name}": (SERVED_LAST, b"<line> HTTP/1.0\r\nhost: a\r\n" + lines + REST)
        for name, lines in {
            "by default": b"",
            "close": b"connection: close\r\n",
            "keep-alive": b"connection: keep-alive\r\n",
            "Keep-Alive": b"Connection: Keep-Alive\r\n",
        }.items()
    },
}
CASES = {**LINES, **HOSTS, **CONNECTIONS}


@pytest.mark.parametrize("path", [HOT, COLD])
@pytest.mark.parametrize("name", CASES)
def test_headers_are_read_in_one_way(servers, name, path):
    check_case(servers, path, CASES[name])


def test_a_worker_gets_a_header_as_it_was_sent(server):
    client = server.connect()
    client.send(raw_request(HEAD + b"X-Odd:  a \t b:c  \r\nx-odd-too: \xc3\xbc\r\n" + REST, HOT))
    assert client.answer().status == 200
    headers = server.worker.requests[0].headers
    assert headers["x-odd"] == "a \t b:c"
    assert headers["x-odd-too"].encode("latin-1") == b"\xc3\xbc"


@pytest.mark.parametrize("path", [HOT, COLD])
def test_an_answer_says_that_the_connection_ends(server, path):
    client = server.connect()
    client.send(raw_request(HEAD + b"connection: close\r\n" + REST, path))
    answer = client.answer()
    assert answer.headers["connection"] == "close"
    client.send(raw_request(HEAD + REST, path))
    assert client.rest() == b""


@pytest.mark.parametrize("path", [HOT, COLD])
@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (b"", "the request names no host"),
        (b"host: a\r\nhost: a\r\n", "the request names more than one host"),
        (b"host: a b\r\n", "the request's host is not valid"),
        (
            b"host: a\r\ntransfer-encoding: gzip, chunked\r\n",
            "the request's body has another transfer coding than chunked",
        ),
    ],
)
def test_a_refused_head_is_told_why(server, path, lines, reason):
    client = server.connect()
    end = b"\r\n<chunks>" if b"chunked" in lines else REST
    client.send(raw_request(b"<line> HTTP/1.1\r\n" + lines + end, path))
    answer = client.answer()
    assert (answer.status, answer.headers["connection"]) == (400, "close")
    assert answer.json()["error"]["message"] == reason
    assert client.rest() == b""
