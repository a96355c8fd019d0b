"""A connection over a real socket, with a client that writes its frames by hand."""

import asyncio

import pytest

from radixway.core.http2 import Http2Connection, encode_headers
from radixway.core.http2.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    HAS_PRIORITY,
    PADDED,
    ErrorCode,
    FrameKind,
    Setting,
    encode_frame,
    encode_number,
    encode_settings,
)
from support.http2_frames import DONE, PREFACE, REQUEST, Echo, EchoServer, frame_client

CANCEL = 8
MANY_BYTES = 300_000


async def test_a_request_is_answered_and_settings_and_pings_are_acknowledged():
    async with frame_client() as (client, server):
        assert (await client.frame())[0] == FrameKind.SETTINGS
        assert (await client.until(FrameKind.SETTINGS))[1] == ACK
        client.send(FrameKind.PING, 0, 0, b"12345678")
        assert await client.until(FrameKind.PING) == (FrameKind.PING, ACK, 0, b"12345678")
        client.open()
        client.send(FrameKind.DATA, END_STREAM, 1, b"hello")
        assert await client.reply() == b"hello"
        assert server.heads == [[(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/x")]]


class Transport:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []

    def write(self, data):
        self.writes.append(data)

    def abort(self):
        raise AssertionError

    def close(self):
        """Connections may end."""


class LaterServer(EchoServer):
    """Each of its streams replies with what it is sent, and once more from a task."""

    def open_stream(self, stream, headers):
        echo, loop = Echo(stream, self), asyncio.get_running_loop()

        async def send_more():
            stream.send_data(b"more")

        def on_data(data):
            Echo.on_data(echo, data)
            loop.create_task(send_more())

        echo.on_data = on_data
        return echo


async def test_what_handlers_and_their_tasks_send_in_a_turn_goes_out_in_one_write():
    server = LaterServer()
    connection = Http2Connection(server, max_streams=3)
    transport = Transport()
    connection.connection_made(transport)
    connection.data_received(PREFACE + encode_settings({}))
    await asyncio.sleep(0)
    transport.writes.clear()
    data = b""
    for stream_id in (1, 3, 5):
        data += encode_frame(FrameKind.HEADERS, END_HEADERS, stream_id, REQUEST)
        data += encode_frame(FrameKind.DATA, 0, stream_id, b"hello")
    connection.data_received(data)
    await asyncio.sleep(0)
    assert [(frames.count(b"hello"), frames.count(b"more")) for frames in transport.writes] == [(3, 3)]
    connection.connection_lost(None)


@pytest.mark.parametrize("size", [1, 2, 9, 10, 30])
async def test_frames_may_arrive_in_any_pieces(size):
    padded = bytes([3]) + b"hello" + bytes(3)
    data = PREFACE + encode_settings({})
    data += encode_frame(FrameKind.HEADERS, HAS_PRIORITY, 1, bytes(5) + REQUEST[:7])
    data += encode_frame(FrameKind.CONTINUATION, 0, 1, REQUEST[7:9])
    data += encode_frame(FrameKind.CONTINUATION, END_HEADERS, 1, REQUEST[9:])
    data += encode_frame(FrameKind.DATA, PADDED, 1, padded)
    data += encode_frame(FrameKind.HEADERS, END_HEADERS | END_STREAM, 1, encode_headers([(b"t", b"u")]))
    server = EchoServer()
    connection = Http2Connection(server, max_streams=1)
    transport = Transport()
    connection.connection_made(transport)
    for at in range(0, len(data), size):
        connection.data_received(data[at : at + size])
    await asyncio.sleep(0)  # the end of the turn of the loop
    assert encode_frame(FrameKind.DATA, 0, 1, b"hello") in b"".join(transport.writes) and server.ended == [1]
    connection.connection_lost(None)


async def test_what_is_sent_waits_for_both_windows():
    async with frame_client(settings={Setting.WINDOW: 10}) as (client, _):
        client.open()
        client.send(FrameKind.DATA, END_STREAM, 1, b"0123456789abcdefghij")
        assert (await client.until(FrameKind.DATA))[3] == b"0123456789"
        client.send(FrameKind.WINDOW_UPDATE, 0, 1, encode_number(3))
        assert (await client.until(FrameKind.DATA))[3] == b"abc"
        client.write(encode_settings({Setting.WINDOW: 12}))
        assert (await client.until(FrameKind.DATA))[3] == b"de"
        client.send(FrameKind.WINDOW_UPDATE, 0, 1, encode_number(100))
        assert (await client.until(FrameKind.DATA))[3] == b"fghij"
        assert (await client.until(FrameKind.HEADERS))[3] == DONE


async def test_a_large_reply_takes_the_connections_window_and_goes_on_with_it():
    async with frame_client(settings={Setting.WINDOW: 2**31 - 1}) as (client, _):
        client.open()
        for _ in range(MANY_BYTES // 50_000):
            client.send(FrameKind.DATA, 0, 1, b"x" * 50_000)
        client.send(FrameKind.DATA, END_STREAM, 1)
        got = 0
        while got < 65_535:
            _, _, _, payload = await client.until(FrameKind.DATA)
            assert len(payload) <= 16_384
            got += len(payload)
        assert got == 65_535
        client.send(FrameKind.WINDOW_UPDATE, 0, 0, encode_number(2**30))
        assert got + len(await client.reply()) == MANY_BYTES


async def test_a_sender_is_granted_what_it_has_sent():
    async with frame_client() as (client, _):
        client.open()
        for _ in range(120):
            client.send(FrameKind.DATA, 0, 1, b"x" * 40_000)
        granted = {0: 0, 1: 0}
        while min(granted.values()) < 2 * 2**20:
            _, _, stream_id, payload = await client.until(FrameKind.WINDOW_UPDATE)
            granted[stream_id] += int.from_bytes(payload, "big")


async def test_a_stream_that_is_reset_is_told_and_leaves_others_alone():
    async with frame_client() as (client, server):
        client.open(1)
        client.open(3)
        client.send(FrameKind.RST_STREAM, 0, 1, encode_number(CANCEL))
        client.send(FrameKind.DATA, END_STREAM, 1, b"late")
        client.send(FrameKind.DATA, END_STREAM, 3, b"hello")
        assert await client.reply(3) == b"hello"
        assert server.reset == [1] and server.ended == [3]


async def test_a_connection_that_is_lost_resets_its_streams():
    async with frame_client() as (client, server):
        client.open(1)
        client.open(3)
        client.send(FrameKind.PING, 0, 0, bytes(8))
        await client.until(FrameKind.PING)
        client.abort()
        await server.is_gone.wait()
        assert server.reset == [1, 3]


async def test_more_streams_than_allowed_are_refused_and_may_be_tried_again():
    async with frame_client(max_streams=2) as (client, _):
        for stream_id in (1, 3, 5):
            client.open(stream_id)
        refused = await client.until(FrameKind.RST_STREAM)
        assert refused[2:] == (5, encode_number(ErrorCode.REFUSED_STREAM))
        client.send(FrameKind.DATA, END_STREAM, 1, b"one")
        assert await client.reply(1) == b"one"
        client.open(7)
        client.send(FrameKind.DATA, END_STREAM, 7, b"seven")
        assert await client.reply(7) == b"seven"


async def test_a_connection_that_drains_ends_with_its_last_stream():
    async with frame_client() as (client, server):
        client.open(1)
        client.send(FrameKind.DATA, 0, 1, b"one")
        await client.until(FrameKind.DATA)
        next(iter(server.connections)).start_draining()
        _, _, _, payload = await client.until(FrameKind.GOAWAY)
        assert payload == encode_number(1) + encode_number(ErrorCode.NO_ERROR)
        client.open(3)
        assert (await client.until(FrameKind.RST_STREAM))[2] == 3
        client.send(FrameKind.DATA, END_STREAM, 1)
        assert (await client.until(FrameKind.HEADERS))[3] == DONE
        assert await client._reader.read() == b""


def grant(stream_id: int, size: int) -> bytes:
    return encode_frame(FrameKind.WINDOW_UPDATE, 0, stream_id, encode_number(size))


HEADERS = encode_frame(FrameKind.HEADERS, END_HEADERS, 1, REQUEST)
OTHER = encode_frame(FrameKind.HEADERS, END_HEADERS, 3, REQUEST)
HALF_CLOSED = (
    encode_settings({Setting.WINDOW: 0})
    + HEADERS
    + encode_frame(FrameKind.DATA, END_STREAM, 1, b"unanswered")
)


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        (encode_frame(FrameKind.DATA, 0, 0, b"x"), ErrorCode.PROTOCOL_ERROR),
        (encode_frame(FrameKind.DATA, 0, 1, b"x"), ErrorCode.PROTOCOL_ERROR),
        (encode_frame(FrameKind.RST_STREAM, 0, 1, bytes(4)), ErrorCode.PROTOCOL_ERROR),
        (encode_frame(FrameKind.HEADERS, END_HEADERS, 2, REQUEST), ErrorCode.PROTOCOL_ERROR),
        (encode_frame(FrameKind.HEADERS, END_HEADERS, 0, REQUEST), ErrorCode.PROTOCOL_ERROR),
        (HEADERS + HEADERS, ErrorCode.PROTOCOL_ERROR),
        (HEADERS + encode_frame(FrameKind.DATA, PADDED, 1, b"\x05abc"), ErrorCode.PROTOCOL_ERROR),
        (encode_frame(FrameKind.CONTINUATION, END_HEADERS, 1, REQUEST), ErrorCode.PROTOCOL_ERROR),
        (
            encode_frame(FrameKind.HEADERS, 0, 1, REQUEST) + encode_frame(FrameKind.PING, 0, 0, bytes(8)),
            ErrorCode.PROTOCOL_ERROR,
        ),
        (encode_frame(FrameKind.PUSH_PROMISE, 0, 1, bytes(4)), ErrorCode.PROTOCOL_ERROR),
        (encode_frame(FrameKind.WINDOW_UPDATE, 0, 0, bytes(4)), ErrorCode.PROTOCOL_ERROR),
        (
            encode_frame(FrameKind.WINDOW_UPDATE, 0, 0, encode_number(2**31 - 1)),
            ErrorCode.FLOW_CONTROL_ERROR,
        ),
        (encode_settings({Setting.WINDOW: 2**31}), ErrorCode.FLOW_CONTROL_ERROR),
        (encode_settings({Setting.MAX_FRAME: 100}), ErrorCode.PROTOCOL_ERROR),
        (encode_frame(FrameKind.SETTINGS, 0, 0, bytes(5)), ErrorCode.FRAME_SIZE_ERROR),
        (encode_frame(FrameKind.PING, 0, 0, bytes(7)), ErrorCode.FRAME_SIZE_ERROR),
        (b"\xff\xff\xff" + bytes(6), ErrorCode.FRAME_SIZE_ERROR),
        (encode_frame(FrameKind.HEADERS, END_HEADERS, 1, b"\x80"), ErrorCode.COMPRESSION_ERROR),
        (
            encode_frame(FrameKind.HEADERS, 0, 1, REQUEST)
            + encode_frame(FrameKind.CONTINUATION, 0, 1, bytes(60_000)) * 2,
            ErrorCode.ENHANCE_YOUR_CALM,
        ),
        (
            HEADERS
            + encode_frame(FrameKind.HEADERS, END_HEADERS, 3, REQUEST)
            + encode_frame(FrameKind.HEADERS, END_HEADERS, 1, REQUEST),
            ErrorCode.PROTOCOL_ERROR,
        ),
        (HEADERS + encode_frame(FrameKind.DATA, PADDED, 1, b""), ErrorCode.PROTOCOL_ERROR),
        (HEADERS + encode_frame(FrameKind.RST_STREAM, 0, 1, bytes(3)), ErrorCode.FRAME_SIZE_ERROR),
        (HEADERS + OTHER + encode_frame(FrameKind.RST_STREAM, 0, 2, bytes(4)), ErrorCode.PROTOCOL_ERROR),
        (HEADERS + grant(1, 2**31 - 1), ErrorCode.FLOW_CONTROL_ERROR),
        (HEADERS + grant(1, 2**30) + encode_settings({Setting.WINDOW: 2**30}), ErrorCode.FLOW_CONTROL_ERROR),
        (encode_settings({Setting.ENABLE_PUSH: 2}), ErrorCode.PROTOCOL_ERROR),
        (HEADERS + encode_frame(FrameKind.SETTINGS, 0, 1, b""), ErrorCode.PROTOCOL_ERROR),
        (encode_frame(FrameKind.SETTINGS, ACK, 0, bytes(6)), ErrorCode.FRAME_SIZE_ERROR),
        (HEADERS + encode_frame(FrameKind.PING, 0, 1, bytes(8)), ErrorCode.PROTOCOL_ERROR),
        (HEADERS + encode_frame(FrameKind.GOAWAY, 0, 1, bytes(8)), ErrorCode.PROTOCOL_ERROR),
        (encode_frame(FrameKind.PRIORITY, 0, 0, bytes(5)), ErrorCode.PROTOCOL_ERROR),
        (encode_frame(FrameKind.PRIORITY, 0, 1, bytes(4)), ErrorCode.FRAME_SIZE_ERROR),
        (HALF_CLOSED + encode_frame(FrameKind.DATA, 0, 1, b"x"), ErrorCode.STREAM_CLOSED),
        (
            HALF_CLOSED + encode_frame(FrameKind.HEADERS, END_HEADERS | END_STREAM, 1, REQUEST),
            ErrorCode.STREAM_CLOSED,
        ),
        (
            HEADERS + encode_frame(FrameKind.RST_STREAM, 0, 1, encode_number(CANCEL)) + HEADERS,
            ErrorCode.STREAM_CLOSED,
        ),
    ],
)
async def test_a_peer_that_breaks_the_protocol_is_told_so_and_cut_off(frames, code):
    async with frame_client() as (client, server):
        client.write(frames)
        assert await client.goaway() is code
        await server.is_gone.wait()
        assert server.reset == list((1, 3)[: len(server.heads)])


async def test_a_connection_that_has_failed_takes_no_more_frames():
    server = EchoServer()
    connection = Http2Connection(server, max_streams=3)
    connection.connection_made(Transport())
    connection.data_received(PREFACE + encode_settings({}) + HEADERS + HEADERS)
    assert server.reset == [1]
    connection.data_received(OTHER)
    assert len(server.heads) == 1
    connection.connection_lost(None)


async def test_a_client_that_speaks_another_protocol_is_cut_off():
    async with frame_client(preface=b"GET / HTTP/1.1\r\nhost: x\r\n\r\n") as (client, server):
        assert await client.goaway() is ErrorCode.PROTOCOL_ERROR
        assert not server.heads


async def test_a_preface_is_followed_by_settings():
    ping = encode_frame(FrameKind.PING, 0, 0, bytes(8))
    async with frame_client(preface=PREFACE + ping) as (client, _):
        assert await client.goaway() is ErrorCode.PROTOCOL_ERROR


METHOD, SCHEME, PATH = (b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/x")


@pytest.mark.parametrize(
    "headers",
    [
        [METHOD, SCHEME],
        [METHOD, PATH],
        [SCHEME, PATH],
        [METHOD, SCHEME, (b":path", b"")],
        [METHOD, SCHEME, PATH, PATH],
        [METHOD, SCHEME, PATH, (b":status", b"200")],
        [METHOD, SCHEME, (b"te", b"trailers"), PATH],
        [METHOD, SCHEME, PATH, (b"Te", b"trailers")],
        [METHOD, SCHEME, PATH, (b"", b"nameless")],
        [METHOD, SCHEME, PATH, (b"connection", b"close")],
        [METHOD, SCHEME, PATH, (b"transfer-encoding", b"chunked")],
    ],
)
async def test_a_malformed_request_is_refused_and_leaves_others_alone(headers):
    async with frame_client() as (client, server):
        client.open(1, block=encode_headers(headers))
        client.send(FrameKind.DATA, END_STREAM, 1, b"late")
        client.open(3)
        client.send(FrameKind.DATA, END_STREAM, 3, b"hello")
        refused = await client.until(FrameKind.RST_STREAM)
        assert refused[2:] == (1, encode_number(ErrorCode.PROTOCOL_ERROR))
        assert await client.reply(3) == b"hello"
        assert len(server.heads) == 1


async def test_unknown_frames_and_settings_are_ignored():
    async with frame_client() as (client, _):
        client.write(b"\x00\x00\x01\xfa\x00" + encode_number(0) + b"x")
        client.send(FrameKind.SETTINGS, 0, 0, b"\x00\xff" + encode_number(7))
        client.open()
        client.send(FrameKind.DATA, END_STREAM, 1, b"hello")
        assert await client.reply() == b"hello"
