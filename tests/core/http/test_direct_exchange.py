"""Requests that are answered without ASGI, and what becomes of those that their handler does not answer."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from radixway.core.http import HttpExchange
from radixway.core.http.direct_exchange import DirectExchange, DirectHandlers
from radixway.core.http.http_protocol import HttpProtocol
from support.web_served import Served, head, served

Answer = Callable[[HttpExchange], Awaitable[None]]
REQUEST = head("/direct", "content-length: 2", method="POST") + b"hi"
LENGTH = (b"content-length", b"2")


class ScriptedHandler:
    """A handler that answers as it is told."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    def may_answer(self, scope: Any) -> bool:
        return True


def handlers(answer: Answer) -> DirectHandlers:
    return {b"/direct": ScriptedHandler(answer)}


async def say_ok(exchange: HttpExchange) -> None:
    await exchange.read_body(100)
    await exchange.send_complete(200, [LENGTH], b"ok")


async def say_nothing(exchange: HttpExchange) -> None:
    pass


async def send_bad_header(exchange: HttpExchange) -> None:
    await exchange.send_complete(200, [LENGTH, (b"x", b"a\r\nb: c")], b"ok")


@pytest.mark.parametrize("answer", [say_nothing, send_bad_header])
async def test_a_request_without_an_answer_is_told_of_an_error(answer, caplog):
    async with served(handlers=handlers(answer)) as running:
        peer = await running.connect()
        await peer.send(REQUEST)
        status, _, body = await peer.answer()
    assert status == 500 and b"internal error" in body
    assert "a handler failed" in caplog.text


async def test_a_stream_without_an_end_is_cut_off(caplog):
    async def begin(exchange: HttpExchange) -> None:
        await exchange.send_start(200, [])
        await exchange.send_chunk(b"begun")

    async with served(handlers=handlers(begin)) as running:
        peer = await running.connect()
        await peer.send(REQUEST)
        assert (await peer.rest()).endswith(b"5\r\nbegun\r\n")
    assert "a handler failed" in caplog.text


@pytest.mark.parametrize(
    "next_input",
    [
        pytest.param(b"no http\r\n\r\n", id="no request"),
        pytest.param(head("/socket", "upgrade: websocket", "connection: upgrade"), id="no handshake"),
    ],
)
async def test_a_refusal_comes_after_the_answer_before_it(next_input):
    running: Served

    async def answer(exchange: HttpExchange) -> None:
        await say_ok(exchange)
        (connection,) = running.server._server.server_state.connections
        connection.data_received(next_input)  # it comes before the answer has been written

    async with served(handlers=handlers(answer)) as running:
        peer = await running.connect()
        await peer.send(REQUEST)
        answers = await peer.rest()
    assert answers.startswith(b"HTTP/1.1 200 ") and answers.count(b"HTTP/1.1 ") == 2
    assert b"okHTTP/1.1 400 " in answers


async def test_a_connection_option_in_a_trailer_ends_the_connection():
    sent = head("/direct", "transfer-encoding: chunked", method="POST")
    async with served(handlers=handlers(say_ok)) as running:
        peer = await running.connect()
        await peer.send(sent + b"2\r\nhi\r\n0\r\nconnection: close\r\n\r\n")
        assert b"connection: close\r\n" in await peer.rest()


async def test_nothing_of_a_request_is_left_to_the_garbage_collector():
    def count(kind: type) -> int:
        return sum(isinstance(each, kind) for each in gc.get_objects())

    gc.collect()
    gc.freeze()  # what is there by now is not counted again and again
    gc.disable()
    try:
        exchanges, connections = count(DirectExchange), count(HttpProtocol)
        async with served(handlers=handlers(say_ok)) as running:
            peer = await running.connect()
            for _ in range(20):
                await peer.send(REQUEST)
                assert (await peer.answer())[2] == b"ok"
            assert count(DirectExchange) <= exchanges + 1  # the connection's latest
        assert (count(DirectExchange), count(HttpProtocol)) == (exchanges, connections)
    finally:
        gc.enable()
