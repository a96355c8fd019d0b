"""Ends of answers without ASGI: their order, and clients that do not read them."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from support.web_served import LARGE_BYTES, head, served

SOON_S = 0.05


class Handler:
    """Answers with `run`."""

    def __init__(self, run: Any) -> None:
        self.answer = run

    def may_answer(self, scope: Any) -> bool:
        return True


def served_directly(run: Any, **limits: Any) -> Any:
    return served(handlers={b"/direct": Handler(run)}, **limits)


def request(*headers: str, body: bytes = b"{}") -> bytes:
    return head("/direct", f"content-length: {len(body)}", *headers, method="POST") + body


async def reply_shortly(exchange: Any) -> None:
    await exchange.send_complete(200, [(b"content-length", b"2")], b"ok")


async def test_a_trailer_that_closes_the_connection_closes_it():
    async with served_directly(reply_shortly) as running:
        peer = await running.connect()
        chunks = b"2\r\n{}\r\n0\r\nconnection: close\r\n\r\n"
        for headers in ([(200, None)], [(200, "close")]):
            sent = (
                request()
                if headers[0][1] is None
                else head("/direct", "transfer-encoding: chunked", method="POST") + chunks
            )
            await peer.send(sent)
            status, found, _ = await peer.answer()
            assert [(status, found.get("connection"))] == headers
        assert await peer.rest() == b""


async def test_an_answer_precedes_the_refusal_of_what_came_after_it():
    async def reply_and_receive(exchange: Any) -> None:
        await reply_shortly(exchange)
        exchange._transport.get_protocol().data_received(b"\0\1 no request\r\n\r\n")

    async with served_directly(reply_and_receive) as running:
        peer = await running.connect()
        await peer.send(request())
        assert [(await peer.answer())[0] for _ in range(2)] == [200, 400]


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_reply_that_cannot_be_sent_is_an_internal_error(is_stream: bool):
    async def reply_badly(exchange: Any) -> None:
        with suppress(RuntimeError):
            if is_stream:
                await exchange.send_start(200, [(b"x", b"a\r\nb: c")])
            else:
                await exchange.send_complete(200, [(b"x", b"a\r\nb: c")], b"")
        if is_stream:
            await exchange.send_end(b"over")

    async with served_directly(reply_badly) as running:
        peer = await running.connect()
        for _ in range(2):
            await peer.send(request())
            assert (await peer.answer())[0] == 500


async def test_a_stream_that_its_handler_leaves_is_cut_off():
    async def begin(exchange: Any) -> None:
        await exchange.send_start(200, [])

    async with served_directly(begin) as running:
        peer = await running.connect()
        await peer.send(request())
        assert (await peer.answer())[0] == 200
        assert await peer.rest() == b""


@pytest.mark.parametrize("how", ["close", "keep-alive", "resumed"])
async def test_what_nobody_reads_of_an_answer_does_not_keep_its_connection(how: str):
    """Less than what would pause the answer: no sooner than at its end is it unread."""

    async def reply_at_length(exchange: Any) -> None:
        exchange._transport.set_write_buffer_limits(high=2 * LARGE_BYTES)
        await exchange.send_start(200, [])
        await exchange.send_chunk(bytes(LARGE_BYTES))
        await exchange.send_end(b"")
        if how == "resumed":
            protocol = exchange._transport.get_protocol()
            protocol.pause_writing()
            protocol.resume_writing()

    async with served_directly(reply_at_length, send_timeout_s=SOON_S, keep_alive_s=SOON_S) as running:
        peer = await running.connect()
        await peer.send(request(*(["connection: close"] if how != "keep-alive" else [])))
        for _ in range(400):
            if running.counts.slow_readers:
                break
            await asyncio.sleep(SOON_S)
        assert running.counts.slow_readers == 1
