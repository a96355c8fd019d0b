"""Requests that are sent before the answer to the one before, and requests that come in pieces."""

from __future__ import annotations

import asyncio

import pytest

from support.raw_cases import (
    CHUNKED,
    COLD,
    HEAD,
    HEALTH,
    HOT,
    chat_body,
    chat_request,
    comparable,
    raw_request,
)
from support.raw_http import RawAnswer

MIXES = {
    "hot": [HOT],
    "cold": [COLD],
    "hot, cold": [HOT, COLD],
    "cold, hot": [COLD, HOT],
    "hot, hot, cold": [HOT, HOT, COLD],
    "health, hot": ["/health", HOT],
    "hot, health, cold": [HOT, "/health", COLD],
}


def requests_of(mix: list[str], count: int) -> tuple[list[bytes], list[str]]:
    """`count` requests on the paths of `mix` in turn, and what is said in the answers, `health` for its."""
    paths = [mix[i % len(mix)] for i in range(count)]
    raw = [HEALTH if path == "/health" else chat_request(path, f"say {i}") for i, path in enumerate(paths)]
    return raw, ["health" if path == "/health" else f"say {i}" for i, path in enumerate(paths)]


def said_in(answer: RawAnswer) -> str:
    assert answer.status == 200
    return "health" if "workers" in answer.json() else answer.said()


@pytest.mark.parametrize("count", [2, 3, 16, 17])
@pytest.mark.parametrize("mix", MIXES)
def test_answers_come_in_the_order_of_their_requests(server, mix, count):
    raw, wanted = requests_of(MIXES[mix], count)
    client = server.connect()
    client.send(b"".join(raw))
    assert [said_in(client.answer()) for _ in wanted] == wanted
    assert client.is_kept()


@pytest.mark.parametrize("count", [18, 100])
@pytest.mark.parametrize("mix", MIXES)
def test_with_more_than_sixteen_behind_it_an_answer_is_the_last(server, mix, count):
    raw, wanted = requests_of(MIXES[mix], count)
    client = server.connect()
    client.send(b"".join(raw))
    assert said_in(client.answer()) == wanted[0]
    assert not client.is_kept()
    assert len(server.take_seen()) <= 1


@pytest.mark.parametrize("mix", MIXES)
def test_more_than_sixteen_may_follow_each_other_on_a_connection(server, mix):
    raw, wanted = requests_of(MIXES[mix], 40)
    client = server.connect()
    for each, said in zip(raw, wanted, strict=True):
        client.send(each)
        assert said_in(client.answer()) == said
    assert client.is_kept()


@pytest.mark.parametrize("second", [HOT, COLD])
def test_a_request_behind_a_stream_waits_for_its_end(server, second):
    client = server.connect()
    client.send(chat_request(HOT, "wait", stream=True) + chat_request(second, "behind") + HEALTH)
    client.read_until(b"\r\n\r\n")
    assert b'"w"' in client.read_until(b"\n\n")
    server.release()
    try:
        rest = client.read_until(b"0\r\n\r\n")
    finally:
        server.echo.release.clear()
    assert b"[DONE]" in rest
    assert client.answer().said() == "behind"
    assert said_in(client.answer()) == "health"
    assert client.is_kept()


@pytest.mark.parametrize("first", [HOT, COLD])
@pytest.mark.parametrize("second", [HOT, COLD])
def test_bodies_that_wait_are_bounded(server, first, second):
    client = server.connect()
    client.send(chat_request(first, "wait"))
    server.wait_for_requests(1)
    client.send(chat_request(second, "x" * 40_000) * 2 + HEALTH)
    server.run(asyncio.sleep(0.01))
    server.release()
    try:
        assert client.answer().said() == "wait"
    finally:
        server.echo.release.clear()
    assert not client.is_kept()
    assert len(server.take_seen()) == 1


@pytest.mark.parametrize("path", [HOT, COLD])
def test_a_body_over_64_kb_may_follow_an_answer(server, path):
    client = server.connect()
    for letter in "abc":
        client.send(chat_request(path, letter * 80_000))
        assert client.answer().said() == letter * 80_000
    assert client.is_kept()


@pytest.mark.parametrize("path", [HOT, COLD])
@pytest.mark.parametrize(
    "after",
    [
        b"\0\1\2",
        b"POST / HTTP/3.0\r\n\r\n",
        b"x" * 70_000,
        HEALTH.replace(b"\r\n", b"\n"),
        b"GET / HTTP/1.1\r\n:",
    ],
    ids=["no HTTP", "version", "long line", "bare LF", "no name"],
)
def test_an_answer_under_way_is_whole_and_the_last_where_garbage_follows(server, path, after):
    client = server.connect()
    client.send(chat_request(path, "hello") + after)
    assert client.answer().said() == "hello"
    assert client.rest() == b""


@pytest.mark.parametrize("path", [HOT, COLD])
def test_nothing_is_answered_behind_a_request_that_ends_the_connection(server, path):
    client = server.connect()
    client.send(chat_request(path, "hello", b"connection: close\r\n") + chat_request(path, "more") + HEALTH)
    assert client.answer().said() == "hello"
    assert client.rest() == b""
    assert len(server.take_seen()) == 1


@pytest.mark.parametrize("path", [HOT, COLD])
def test_a_refused_request_does_not_disturb_the_next(server, path):
    client = server.connect()
    client.send(chat_request("/v1/nothing", "hello") + chat_request(path, "hello"))
    assert client.answer().status == 404
    assert client.answer().said() == "hello"
    assert client.is_kept()


@pytest.mark.parametrize("path", [HOT, COLD])
def test_a_connection_option_in_a_trailer_ends_the_connection(server, path):
    trailer = raw_request(HEAD + CHUNKED + b"\r\n<size>\r\n<body>\r\n0\r\nconnection: close\r\n\r\n", path)
    client = server.connect()
    client.send(trailer + HEALTH)
    assert client.answer().said() == "hello"
    assert client.rest() == b""


def exchange() -> bytes:
    """Requests of each framing on each kind of path."""
    body = chat_body("h")
    return b"".join(
        [
            raw_request(HEAD + CHUNKED + b"\r\n<chunks>", HOT, body),
            HEALTH,
            chat_request(COLD, "c"),
            chat_request(HOT, "l"),
        ]
    )


def test_bytes_are_read_the_same_wherever_they_are_cut(servers):
    raw = exchange()
    wanted = None
    for server in servers.values():
        for cut in range(len(raw)):
            client = server.connect()
            client.send(raw[:cut])
            server.run(asyncio.sleep(0))  # the server has read that much by now
            client.send(raw[cut:])
            answers = [client.answer() for _ in range(4)]
            found = [answers[0].said(), answers[1].status, answers[2].said(), answers[3].said()]
            assert found == ["h", 200, "c", "l"], cut
            found = [comparable(answers[0]), comparable(answers[2]), comparable(answers[3])]
            assert wanted in (None, found), cut
            wanted = found
            client.close()
            assert len(server.take_seen()) == 3


@pytest.mark.parametrize("size", [1, 2, 3, 5, 16, 64])
def test_bytes_are_read_the_same_in_pieces_of_any_size(server, size):
    client = server.connect()
    client.send_bytewise(exchange(), size)
    assert client.answer().said() == "h"
    assert said_in(client.answer()) == "health"
    assert [client.answer().said() for _ in "cl"] == ["c", "l"]
    assert client.is_kept()
