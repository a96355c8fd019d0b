"""What a client may send to a server, and how long it may take: over real connections, byte by byte."""

import asyncio
import json
import logging
import socket

import pytest
import uvloop

from radixway.core.config.gateway import ServerLimitsConfig
from radixway.core.http import ServerLimits
from support.web_served import LARGE_BYTES, MAX_BODY_BYTES, head, served

SOON_S = 0.05
"""A time limit under test: what is asserted is what happens, not when."""


def test_a_server_has_the_limits_that_the_configuration_has():
    assert ServerLimits(**ServerLimitsConfig().model_dump()) == ServerLimits()


@pytest.mark.parametrize(
    "sent",
    [
        head("/refuse", "x: " + "x" * 3000),
        head("/refuse", *["a: b"] * 40),
        head("/refuse?" + "x" * 3000),
        b"GET /refuse HTTP/1.1\r\nx: " + b"x" * 3000,
    ],
)
async def test_a_head_over_the_limit_is_answered_with_431(sent):
    async with served(max_header_bytes=2048, max_header_count=32) as running:
        peer = await running.connect()
        await peer.send(sent)
        status, headers, body = await peer.answer()
        assert (status, headers["connection"]) == (431, "close")
        assert json.loads(body)["error"]["code"] == "head_too_large"
        assert await peer.rest() == b""
        assert running.counts.large_heads == 1 and running.app.began.empty()


async def test_a_header_without_an_end_is_not_read_on():
    async with served(max_header_bytes=2048) as running:
        peer = await running.connect()
        sent = 0
        with pytest.raises(ConnectionError):
            await peer.send(b"GET /refuse HTTP/1.1\r\nx: ")
            while sent < 200 * 2**20:
                await peer.send(b"x" * 2**16)
                sent += 2**16
        assert sent < 20 * 2**20  # what it throws away for the answer to be read, and what sockets hold


async def test_trailers_are_no_headers():
    async with served() as running:
        peer = await running.connect()
        chunks = b"3\r\nabc\r\n0\r\nauthorization: Bearer late\r\n\r\n"
        await peer.send(head("/read", "transfer-encoding: chunked", method="POST") + chunks)
        assert (await peer.answer())[2] == b"3"
        assert b"authorization" not in dict(running.app.headers)


async def test_a_head_that_does_not_end_in_time_is_answered_with_408():
    async with served(header_timeout_s=SOON_S) as running:
        peer = await running.connect()
        await peer.send(b"GET /refuse HTTP/1.1\r\nx: ")
        status, headers, body = await peer.answer()
        assert (status, headers["connection"]) == (408, "close")
        assert json.loads(body)["error"]["code"] == "header_timeout"
        assert running.counts.slow_heads == 1


async def test_bytes_one_at_a_time_do_not_lengthen_a_heads_time():
    async with served(header_timeout_s=SOON_S) as running:
        peer = await running.connect()
        answering = asyncio.create_task(peer.answer())
        await peer.send(b"GET /refuse HTTP/1.1\r\nx: ")
        while not answering.done():
            peer.writer.write(b"x")
            await asyncio.sleep(SOON_S / 10)
        assert answering.result()[0] == 408


@pytest.mark.parametrize("sent", [b"", b"\r\n"])
async def test_a_connection_on_which_nothing_is_asked_is_closed_in_silence(sent):
    async with served(header_timeout_s=SOON_S) as running:
        peer = await running.connect()
        await peer.send(sent)
        assert await peer.rest() == b""


async def test_an_empty_line_after_an_answer_does_not_keep_a_connection_for_ever():
    async with served(header_timeout_s=SOON_S) as running:
        peer = await running.connect()
        await peer.send(head("/refuse"))
        assert (await peer.answer())[0] == 401
        await peer.send(b"\r\n")
        assert await peer.rest() == b""


async def test_a_second_head_has_a_time_of_its_own():
    async with served(header_timeout_s=SOON_S) as running:
        peer = await running.connect()
        await peer.send(head("/refuse"))
        assert (await peer.answer())[0] == 401
        await peer.send(b"GET /refuse HTTP/1.1\r\nx: ")
        assert (await peer.answer())[0] == 408


async def test_a_long_answer_has_all_the_time_it_wants():
    async with served(header_timeout_s=SOON_S, body_timeout_s=SOON_S, keep_alive_s=SOON_S) as running:
        waiting, streaming = await running.connect(), await running.connect()
        await waiting.send(head("/wait", "content-length: 2", method="POST") + b"{}")
        await streaming.send(head("/stream"))
        slow = await running.connect()  # one that does run out of its time, twice
        await slow.send(b"GET /")
        assert (await slow.answer())[0] == 408
        slow = await running.connect()
        await slow.send(b"GET /")
        assert (await slow.answer())[0] == 408
        running.app.release.set()
        assert (await waiting.answer())[2] == b"released"
        assert b"over" in await streaming.rest()


async def test_a_websocket_has_all_the_time_it_wants():
    async with served(header_timeout_s=SOON_S, keep_alive_s=SOON_S) as running:
        peer = await running.connect()
        upgrade = ("connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13")
        await peer.send(head("/socket", *upgrade, "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA=="))
        assert (await peer.answer())[0] == 101
        for _ in range(2):
            slow = await running.connect()
            await slow.send(b"GET /")
            assert (await slow.answer())[0] == 408
        running.app.release.set()
        assert b"released" in await peer.reader.readuntil(b"released")


@pytest.mark.parametrize("framing", ["content-length: 1000", "transfer-encoding: chunked"])
async def test_a_body_that_stalls_is_answered_with_408(framing):
    async with served(body_timeout_s=SOON_S) as running:
        peer = await running.connect()
        await peer.send(head("/read", framing, method="POST"))
        status, headers, body = await peer.answer()
        assert (status, headers["connection"]) == (408, "close")
        error = json.loads(body)["error"]
        assert error["code"] == "body_timeout" and "stalled" in error["message"]
        assert (running.counts.slow_bodies, await running.next_end()) == (1, "body_timeout")


async def test_what_an_application_lets_through_is_answered_under_the_requests_id():
    async with served(body_timeout_s=SOON_S) as running:
        peer = await running.connect()
        await peer.send(head("/leak", "content-length: 1000", "x-request-id: mine", method="POST"))
        status, headers, body = await peer.answer()
        assert (status, headers["x-request-id"]) == (408, "mine")
        assert json.loads(body)["error"]["code"] == "body_timeout"


async def test_a_body_that_drips_is_one_that_stalls():
    async with served(body_timeout_s=2 * SOON_S, min_body_bytes_per_s=1000) as running:
        peer = await running.connect()
        await peer.send(head("/read", "content-length: 10000", method="POST"))
        answering = asyncio.create_task(peer.answer())
        while not answering.done():
            peer.writer.write(b"x")
            await asyncio.sleep(SOON_S / 10)
        assert answering.result()[0] == 408


async def test_a_body_in_time_may_take_any_number_of_spans():
    async with served(body_timeout_s=10, min_body_bytes_per_s=1) as running:
        peer = await running.connect()
        await peer.send(head("/read", "content-length: 100", method="POST"))
        await running.next_beginning()
        for _ in range(10):
            await peer.send(b"x" * 10)
        assert (await peer.answer())[2] == b"100"
        await peer.send(head("/refuse"))  # and the connection goes on
        assert (await peer.answer())[0] == 401


async def test_an_answer_before_the_body_ends_the_connection_without_reading_it():
    async with served() as running:
        peer = await running.connect()
        await peer.send(head("/refuse", "content-length: 300000000", method="POST"))
        status, headers, body = await peer.answer()
        assert (status, headers["connection"], body) == (401, "close", b"no")
        sent = 0
        with pytest.raises(ConnectionError):
            while sent < 200 * 2**20:
                await peer.send(b"x" * 2**16)
                sent += 2**16
        assert sent < 20 * 2**20


async def test_a_small_body_that_nobody_reads_does_not_end_the_connection():
    async with served() as running:
        peer = await running.connect()
        for _ in range(3):
            await peer.send(head("/refuse", "content-length: 5", method="POST") + b"12345")
            status, headers, _ = await peer.answer()
            assert status == 401 and "connection" not in headers


@pytest.mark.parametrize(
    "announced",
    [
        [f"content-length: {2 * MAX_BODY_BYTES + 1}"],
        [f"content-length: {MAX_BODY_BYTES + 1}", "expect: 100-continue"],
    ],
)
async def test_a_body_that_is_announced_as_too_large_is_not_asked_for(announced):
    async with served() as running:
        peer = await running.connect()
        await peer.send(head("/read", *announced, method="POST"))
        status, headers, _ = await peer.answer()
        assert (status, headers["connection"]) == (413, "close")


async def test_a_client_that_sends_all_of_a_body_too_large_can_read_why():
    async with served() as running:
        peer = await running.connect()
        size = 2 * MAX_BODY_BYTES + 2**19
        await peer.send(head("/read", "transfer-encoding: chunked", method="POST"))
        await peer.send(b"%x\r\n" % size + b"x" * size + b"\r\n0\r\n\r\n")
        assert (await peer.answer())[0] == 413
        assert await peer.rest() == b""


async def test_bodies_that_do_not_fit_into_memory_are_refused_and_small_ones_are_not():
    async with served(max_body_bytes_in_flight=2**20) as running:
        first, second, small = [await running.connect() for _ in range(3)]
        large = head("/read", f"content-length: {2**20}", method="POST")
        await first.send(large + b"x" * (3 * 2**18))
        await running.next_beginning()
        await second.send(large + b"x" * (3 * 2**18))
        status, headers, body = await second.answer()
        assert (status, json.loads(body)["error"]["code"]) == (503, "too_many_bodies")
        assert headers["connection"] == "close" and running.counts.bodies_without_memory == 1
        await small.send(head("/read", "content-length: 60000", method="POST"))
        await small.send(b"x" * 60_000)
        assert (await small.answer())[2] == b"60000"
        await first.send(b"x" * 2**18)
        assert (await first.answer())[2] == b"%d" % 2**20
        third = await running.connect()  # what others held is free again
        await third.send(large + b"x" * 2**20)
        assert (await third.answer())[0] == 200


async def test_a_new_connection_takes_the_place_of_the_one_that_was_idle_longest(caplog):
    async with served(max_connections=3) as running:
        peers = [await running.connect() for _ in range(3)]
        for peer in peers:
            await peer.send(head("/refuse"))
            assert (await peer.answer())[0] == 401
        with caplog.at_level(logging.WARNING):
            assert (await running.ask("/refuse"))[0] == 401
        assert await peers[0].rest() == b""
        await peers[1].send(head("/refuse"))
        assert (await peers[1].answer())[0] == 401
        assert (running.counts.closed_idle, running.counts.refused_connections) == (1, 0)
        assert "limits.server.max_connections" in caplog.text


async def test_slow_heads_make_place_for_whoever_asks():
    async with served(max_connections=3) as running:
        for _ in range(20):
            await (await running.connect()).send(b"GET /refuse HTTP/1.1\r\nx: ")
        assert (await running.ask("/refuse"))[0] == 401


async def test_where_all_connections_are_busy_a_new_one_is_refused_in_words(caplog):
    async with served(max_connections=2) as running:
        busy = [await running.connect() for _ in range(2)]
        for peer in busy:
            await peer.send(head("/wait"))
            await running.next_beginning()
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                status, headers, body = await running.ask("/refuse")
                assert (status, headers["retry-after"], headers["connection"]) == (503, "1", "close")
                assert json.loads(body)["error"]["code"] == "too_many_connections"
        assert running.counts.refused_connections == 3
        lines = [record for record in caplog.records if "max_connections" in record.getMessage()]
        assert len(lines) == 1
        running.app.release.set()
        for peer in busy:
            assert (await peer.answer())[2] == b"released"
        assert (await running.ask("/refuse"))[0] == 401


async def test_refused_clients_that_stay_do_not_stay_for_ever():
    async with served(max_connections=1) as running:
        busy = await running.connect()
        await busy.send(head("/wait"))
        await running.next_beginning()
        refused = [await running.connect() for _ in range(100)]
        for peer in refused:
            assert b"too_many_connections" in (said := await peer.rest()) or said == b""


@pytest.mark.parametrize(
    "sent",
    [head("/large"), head("/large", "connection: close"), head("/large") * 3],
    ids=["keep-alive", "close", "pipelined"],
)
async def test_an_answer_that_nobody_reads_does_not_keep_its_connection(sent):
    async with served(send_timeout_s=SOON_S) as running:
        peer = await running.connect()
        await peer.send(sent)
        async with asyncio.timeout(20):
            while running.counts.slow_readers == 0:
                await running.ask("/refuse")
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            for _ in range(3):
                await peer.answer()


async def test_answers_that_nobody_reads_make_place_for_whoever_asks():
    async with served(max_connections=1) as running:
        peer = await running.connect()
        await peer.send(head("/large"))
        assert await running.next_end() == "answered"
        assert (await running.ask("/refuse"))[0] == 401
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await peer.answer()


async def test_an_answer_that_is_still_being_read_is_waited_for():
    async with served(keep_alive_s=SOON_S, send_timeout_s=10) as running:
        peer = await running.connect()
        await peer.send(head("/large"))
        assert len((await peer.answer())[2]) == LARGE_BYTES
        assert await peer.rest() == b""


def test_many_new_connections_are_accepted_within_few_turns_of_the_event_loop():
    async def accepted_in_turns(turns: int) -> int:
        async with served() as running:
            clients = [socket.create_connection((running.host, running.port)) for _ in range(64)]
            for _ in range(turns):
                await asyncio.sleep(0)
            count = len(running.server._server.server_state.connections)
            for client in clients:
                client.close()
            return count

    assert uvloop.run(accepted_in_turns(16)) == 64  # the loop that servers run on: others accept in their way
