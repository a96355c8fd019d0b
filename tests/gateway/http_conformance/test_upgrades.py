"""Offers to upgrade, WebSockets, and `Expect`."""

from __future__ import annotations

import pytest

from support.raw_cases import (
    CHUNKED,
    COLD,
    HEAD,
    HOT,
    NOT_ALLOWED,
    REFUSED,
    REST,
    SERVED,
    SERVED_LAST,
    Cases,
    Outcome,
    chat_request,
    check_case,
    comparable,
    raw_request,
)
from support.raw_http import gateway_in_a_thread

H2C = b"connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n"
GET = b"GET <path> HTTP/1.1\r\nhost: a\r\n"
WEBSOCKET = b"connection: upgrade\r\nupgrade: websocket\r\n"
KEY = b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
OLD = b"<line> HTTP/1.0\r\nhost: a\r\n"
FORBIDDEN = Outcome((403,), False, 0)

CASES: Cases = {
    "h2c": (SERVED, HEAD + H2C + REST),
    "h2c in chunks": (SERVED, HEAD + CHUNKED + H2C + b"\r\n<chunks>"),
    "h2c, and a request behind": (Outcome((200, 200), True, 2), HEAD + H2C + REST + HEAD + REST),
    "h2c behind a request": (Outcome((200, 200), True, 2), HEAD + REST + HEAD + H2C + REST),
    "h2c and Expect": (SERVED, HEAD + H2C + b"expect: 100-continue\r\n" + REST),
    "h2c by GET": (NOT_ALLOWED, GET + H2C + b"\r\n"),
    "h2c and close": (SERVED_LAST, HEAD + b"connection: upgrade, close\r\nupgrade: h2c\r\n" + REST),
    "h2c in HTTP/1.0": (SERVED_LAST, OLD + H2C + REST),
    "h2c without Connection": (SERVED, HEAD + b"upgrade: h2c\r\n" + REST),
    "Connection without an upgrade": (SERVED, HEAD + b"connection: upgrade\r\n" + REST),
    "TLS": (SERVED, HEAD + b"connection: upgrade\r\nupgrade: TLS/1.0\r\n" + REST),
    "unknown": (SERVED, HEAD + b"connection: upgrade\r\nupgrade: x\r\n" + REST),
    "WebSocket by POST": (SERVED, HEAD + WEBSOCKET + KEY + REST),
    "WebSocket": (FORBIDDEN, GET + WEBSOCKET + KEY + b"\r\n"),
    "WebSocket of HTTP/1.0": (FORBIDDEN, b"GET <path> HTTP/1.0\r\nhost: a\r\n" + WEBSOCKET + KEY + b"\r\n"),
    "WebSocket and data": (FORBIDDEN, GET + WEBSOCKET + KEY + b"\r\n\x81\x05hello"),
    "WebSocket without a key": (REFUSED, GET + WEBSOCKET + b"\r\n"),
    "WebSocket with a body": (REFUSED, GET + WEBSOCKET + KEY + REST),
    "WebSocket without a host": (REFUSED, b"GET <path> HTTP/1.1\r\n" + WEBSOCKET + KEY + b"\r\n"),
    "WebSocket with two hosts": (REFUSED, GET + b"host: b\r\n" + WEBSOCKET + KEY + b"\r\n"),
    "h2c with two hosts": (REFUSED, HEAD + b"host: b\r\n" + H2C + REST),
    "h2c in gzipped chunks": (
        REFUSED,
        HEAD + b"transfer-encoding: gzip, chunked\r\n" + H2C + b"\r\n<chunks>",
    ),
    "WebSocket in chunks": (REFUSED, GET + WEBSOCKET + KEY + CHUNKED + b"\r\n<chunks>"),
    "WebSocket with a long header": (
        Outcome((431,), False, 0),
        GET + WEBSOCKET + KEY + b"x: " + b"y" * 10_000 + b"\r\n\r\n",
    ),
    "WebSocket behind a request": (
        Outcome((200, 405), True, 1),
        HEAD + REST + GET + WEBSOCKET + KEY + b"\r\n",
    ),
    "Expect": (SERVED, HEAD + b"expect: 100-continue\r\n" + REST),
    "Expect in capitals": (SERVED, HEAD + b"Expect: 100-Continue\r\n" + REST),
    "Expect in chunks": (SERVED, HEAD + CHUNKED + b"expect: 100-continue\r\n\r\n<chunks>"),
    "Expect in HTTP/1.0": (SERVED_LAST, OLD + b"expect: 100-continue\r\n" + REST),
    "Expect, twice": (SERVED, HEAD + b"expect: 100-continue\r\nexpect: 100-continue\r\n" + REST),
    "Expect, unknown": (SERVED, HEAD + b"expect: 200-ok\r\n" + REST),
    "Expect, empty": (SERVED, HEAD + b"expect:\r\n" + REST),
}


@pytest.mark.parametrize("path", [HOT, COLD])
@pytest.mark.parametrize("name", CASES)
def test_an_offer_that_is_not_taken_changes_nothing(servers, name, path):
    check_case(servers, path, CASES[name])


@pytest.mark.parametrize("path", [HOT, COLD])
@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_a_client_is_told_to_send_its_body(server, path, framing):
    template = (
        HEAD + b"expect: 100-continue\r\n" + (REST if framing == "length" else CHUNKED + b"\r\n<chunks>")
    )
    head, end, body = raw_request(template, path).partition(b"\r\n\r\n")
    client = server.connect()
    client.send(head + end)
    assert client.next_response().status == 100
    assert server.take_seen() == []
    client.send(body)
    assert client.next_response().status == 200
    assert client.is_kept()


@pytest.mark.parametrize("path", [HOT, COLD])
def test_a_client_of_http_1_0_is_not_told(server, path):
    client = server.connect()
    client.send(raw_request(OLD + b"expect: 100-continue\r\n" + REST, path))
    assert client.next_response().status == 200


def test_a_body_that_would_be_too_large_is_not_asked_for(servers):
    found = []
    for server in servers.values():
        client = server.connect()
        client.send(raw_request(HEAD + b"expect: 100-continue\r\ncontent-length: 150000\r\n\r\n", HOT))
        answer = client.next_response()
        assert answer.status == 413
        assert not client.is_kept()
        found.append(comparable(answer))
    assert found[0] == found[1]


@pytest.mark.parametrize("which", ["configured", "asgi"])
def test_a_body_without_a_key_is_not_asked_for(which):
    tenants = {"one": {"keys": [{"key": "a-key-of-the-test"}]}}
    with gateway_in_a_thread(which, tenants=tenants, chat={"enabled": False}) as server:
        for path in (HOT, COLD):
            client = server.connect()
            head = HEAD + b"expect: 100-continue\r\ncontent-length: 500\r\n\r\n"
            client.send(raw_request(head, path))
            assert client.next_response().status == 401
            assert not client.is_kept()
            client = server.connect()
            client.send(chat_request(path, "hello"))
            assert client.next_response().status == 401
            assert client.is_kept()
            client = server.connect()
            client.send(chat_request(path, "hello", b"authorization: Bearer a-key-of-the-test\r\n"))
            assert client.answer().said() == "hello"
        assert not server.errors


@pytest.mark.parametrize("which", ["configured", "asgi"])
def test_a_websocket_opens_behind_an_answered_request(which):
    with gateway_in_a_thread(which, chat={"allow_debug_auth": True}) as server:
        client = server.connect()
        client.send(chat_request(HOT, "hello"))
        assert client.answer().said() == "hello"
        client.send(raw_request(GET + WEBSOCKET + KEY + b"x-api-key: 0\r\n\r\n", "/workers/work"))
        answer = client.answer("GET")
        assert answer.status == 101
        assert answer.headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        client.send(b"\x88\x80\0\0\0\0")  # a close frame without a code
        assert client.rest()[:1] in (b"\x88", b"\x81")
        assert not server.errors
