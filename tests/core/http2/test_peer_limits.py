"""Floods: each kind of frame that costs a peer little is counted, and ordinary traffic meets no limit."""

import tracemalloc

import pytest

from radixway.core.http2 import Http2Connection, encode_headers
from radixway.core.http2.frames import (
    END_HEADERS,
    END_STREAM,
    ErrorCode,
    FrameKind,
    Http2Error,
    Setting,
    encode_frame,
    encode_number,
    encode_settings,
)
from radixway.core.http2.peer_limits import (
    MAX_CONTINUATIONS,
    MAX_IDLE_FRAMES,
    MAX_RAPID_RESETS,
    MAX_UNREAD_BYTES,
    MAX_WAITING_MESSAGES,
    RAPID_RESET_S,
    REFILL_S,
    FrameBudget,
)
from support.http2_frames import PREFACE, REQUEST, EchoServer, frame_client

CANCEL = encode_number(8)
GRANT = encode_number(100)
PING = encode_frame(FrameKind.PING, 0, 0, bytes(8))
TRAILERS = encode_headers([(b"t", b"u")])


def opening(stream_id: int, flags: int = 0) -> bytes:
    return encode_frame(FrameKind.HEADERS, END_HEADERS | flags, stream_id, REQUEST)


def reset(stream_id: int) -> bytes:
    return encode_frame(FrameKind.RST_STREAM, 0, stream_id, CANCEL)


def test_a_budget_is_spent_earned_and_whole_again_after_some_time():
    now = [0.0]
    budget = FrameBudget(3, "frames", lambda: now[0])
    for _ in range(3):
        budget.spend()
    budget.earn(1)
    budget.spend()
    with pytest.raises(Http2Error, match="more than 3 frames") as error:
        budget.spend()
    assert error.value.code is ErrorCode.ENHANCE_YOUR_CALM
    now[0] = REFILL_S
    for _ in range(3):
        budget.spend()
    with pytest.raises(Http2Error):
        budget.spend()
    now[0] = 3 * REFILL_S
    budget.spend()
    budget.earn(100)
    for _ in range(3):
        budget.spend()
    with pytest.raises(Http2Error):
        budget.spend()


@pytest.mark.parametrize(
    ("before", "frame"),
    [
        (b"", PING),
        (b"", encode_settings({})),
        (b"", encode_settings({Setting.WINDOW: 70_000})),
        (b"", encode_frame(FrameKind.PRIORITY, 0, 1, bytes(5))),
        (b"", b"\x00\x00\x00\xfa\x00" + bytes(4)),
        (opening(1), encode_frame(FrameKind.DATA, 0, 1, b"")),
        (opening(1), encode_frame(FrameKind.DATA, 8, 1, b"\x05" + bytes(5))),
        (opening(1, END_STREAM), encode_frame(FrameKind.DATA, 0, 1, b"")),
        (opening(1, END_STREAM), encode_frame(FrameKind.DATA, END_STREAM, 1, b"")),
        (opening(1, END_STREAM), reset(1)),
        (
            opening(1, END_STREAM),
            encode_frame(FrameKind.HEADERS, END_HEADERS | END_STREAM, 1, TRAILERS),
        ),
    ],
)
async def test_frames_that_bring_nothing_end_a_connection_beyond_their_budget(before, frame):
    async with frame_client() as (client, server):
        if before:
            client.write(before)
            client.write(frame * MAX_IDLE_FRAMES)  # it has earned what SETTINGS cost
        else:
            client.write(frame * (MAX_IDLE_FRAMES - 1))
        client.open(3)
        client.send(FrameKind.DATA, END_STREAM, 3, b"hello")
        while True:
            _, flags, stream_id, _ = await client.until(FrameKind.HEADERS)
            if stream_id == 3 and flags & END_STREAM:
                break
        client.write(frame * 9)  # the stream and its data earned eight
        assert await client.goaway() is ErrorCode.ENHANCE_YOUR_CALM
        await server.is_gone.wait()


async def test_streams_that_are_opened_and_reset_at_once_end_the_connection():
    async with frame_client(max_streams=3) as (client, server):
        for number in range(MAX_RAPID_RESETS + 1):
            client.write(opening(2 * number + 1) + reset(2 * number + 1))
        assert await client.goaway() is ErrorCode.ENHANCE_YOUR_CALM
        await server.is_gone.wait()
        assert len(server.heads) == len(server.reset) == MAX_RAPID_RESETS + 1


@pytest.mark.parametrize("block", [REQUEST, encode_headers([(b":method", b"POST")])])
async def test_streams_that_are_refused_at_once_end_the_connection(block):
    async with frame_client(max_streams=1) as (client, server):
        client.open(1)
        for number in range(1, MAX_RAPID_RESETS + 2):
            client.open(2 * number + 1, block=block)
        assert await client.goaway() is ErrorCode.ENHANCE_YOUR_CALM
        assert len(server.heads) == 1


async def test_many_streams_that_were_there_for_longer_may_be_reset_together():
    count = MAX_RAPID_RESETS + 10
    async with frame_client(max_streams=count) as (client, server):
        for number in range(count):
            client.open(2 * number + 1)
        client.write(PING)
        await client.until(FrameKind.PING)
        for stream in server.streams:
            stream.opened_at_s -= RAPID_RESET_S
        for number in range(count):
            client.write(reset(2 * number + 1))
        client.write(PING)
        await client.until(FrameKind.PING)
        assert len(server.reset) == count


class TakingServer(EchoServer):
    """Answers the first piece of each request, and no other."""

    def open_stream(self, stream, headers):
        echo = super().open_stream(stream, headers)
        on_data = echo.on_data

        def answer_first(data: bytes) -> None:
            on_data(data)
            echo.on_data = lambda data: None

        echo.on_data = answer_first
        return echo


async def test_streams_that_are_reset_while_a_message_has_no_answer_end_the_connection():
    async with frame_client(server=TakingServer()) as (client, server):
        for number in range(MAX_RAPID_RESETS + 1):
            stream_id = 2 * number + 1
            data = encode_frame(FrameKind.DATA, 0, stream_id, b"x")
            client.write(opening(stream_id) + data + data + reset(stream_id))
        assert await client.goaway() is ErrorCode.ENHANCE_YOUR_CALM
        assert len(server.reset) == MAX_RAPID_RESETS + 1


async def test_ordinary_traffic_meets_no_limit():
    """Short requests that end themselves, that are reset after their answer, as by Envoy, and before it."""
    count = 3 * MAX_RAPID_RESETS + 30
    async with frame_client(max_streams=100) as (client, server):
        for first in range(0, count, 30):
            frames = bytearray()
            for number in range(first, first + 30):
                stream_id = 2 * number + 1
                frames += opening(stream_id) + PING + encode_frame(FrameKind.WINDOW_UPDATE, 0, 0, GRANT)
                if number % 3:
                    frames += encode_frame(FrameKind.DATA, 0, stream_id, b"hello")
                if number % 3 == 1:
                    frames += encode_frame(FrameKind.DATA, END_STREAM, stream_id, b"")
                frames += reset(stream_id)
            client.write(bytes(frames))
            answered = 0
            while answered < 20:
                kind, *_ = await client.until(FrameKind.DATA, FrameKind.GOAWAY)
                assert kind == FrameKind.DATA
                answered += 1
        assert len(server.reset) == 2 * count // 3 and len(server.ended) == count // 3


async def test_any_number_of_streams_may_be_reset_once_they_are_answered():
    count = 2 * MAX_RAPID_RESETS
    async with frame_client() as (client, server):
        for number in range(count):
            stream_id = 2 * number + 1
            client.write(opening(stream_id) + encode_frame(FrameKind.DATA, 0, stream_id, b"hello"))
            client.write(reset(stream_id))
        client.write(PING)
        await client.until(FrameKind.PING)
        assert len(server.reset) == count


async def test_a_header_block_has_a_limit_of_frames():
    async with frame_client() as (client, server):
        for stream_id, count in ((1, MAX_CONTINUATIONS - 1), (3, MAX_CONTINUATIONS)):
            client.send(FrameKind.HEADERS, END_STREAM, stream_id, REQUEST)
            client.write(encode_frame(FrameKind.CONTINUATION, 0, stream_id, b"") * count)
            client.send(FrameKind.CONTINUATION, END_HEADERS, stream_id)
        assert await client.goaway() is ErrorCode.ENHANCE_YOUR_CALM
        assert server.ended == [1]


class TalkativeServer(EchoServer):
    """Refuses each request in many words."""

    def open_stream(self, stream, headers):
        stream.finish(bytes(4_096))
        return super().open_stream(stream, headers)


class PausedTransport:
    """Takes what is written, of which nothing is read."""

    def __init__(self) -> None:
        self.size = 0
        self.is_aborted = False

    def write(self, data) -> None:
        self.size += len(data)

    def abort(self) -> None:
        self.is_aborted = True


async def test_a_peer_that_reads_nothing_is_cut_off():
    connection = Http2Connection(TalkativeServer(), max_streams=3)
    transport = PausedTransport()
    connection.connection_made(transport)
    connection.data_received(PREFACE + encode_settings({}))
    connection.pause_writing()
    for number in range(MAX_UNREAD_BYTES // 4_096):
        connection.data_received(opening(2 * number + 1))
        connection.flush()
        assert transport.is_aborted or transport.size <= MAX_UNREAD_BYTES
    assert transport.is_aborted
    connection.connection_lost(None)


async def test_a_stream_whose_replies_are_not_taken_ends_alone():
    async with frame_client(settings={Setting.WINDOW: 3}) as (client, server):
        client.open(1)
        client.open(3)
        for _ in range(MAX_WAITING_MESSAGES + 4):
            client.send(FrameKind.DATA, 0, 1, b"x")
        ended = await client.until(FrameKind.RST_STREAM)
        assert ended[2:] == (1, encode_number(ErrorCode.ENHANCE_YOUR_CALM))
        client.send(FrameKind.DATA, END_STREAM, 3, b"abc")
        assert await client.reply(3) == b"abc"
        assert server.reset == [1]


class CountingConnection(Http2Connection):
    """Counts how often its streams ask for a window."""

    asked = 0

    def take_part(self, stream, size):
        self.asked += 1
        return super().take_part(stream, size)


@pytest.mark.parametrize(
    "grants",
    [
        encode_frame(FrameKind.WINDOW_UPDATE, 0, 1, encode_number(1)) * 100,
        encode_frame(FrameKind.WINDOW_UPDATE, 0, 0, encode_number(1)) * 100,
        encode_frame(FrameKind.SETTINGS, 0, 0, b"\x00\x04\x00\x00\x00\x01\x00\x04\x00\x00\x00\x00" * 100),
    ],
    ids=["stream", "connection", "settings"],
)
async def test_a_grant_is_offered_only_to_streams_that_it_helps(grants):
    connection = CountingConnection(EchoServer(), max_streams=100)
    connection.connection_made(PausedTransport())
    connection.data_received(PREFACE + encode_settings({Setting.WINDOW: 0}))
    for number in range(100):
        data = encode_frame(FrameKind.DATA, 0, 2 * number + 1, b"hello" * 30)
        connection.data_received(opening(2 * number + 1) + data)
    connection.asked = 0
    connection.data_received(grants)
    assert connection.asked <= 300
    connection.connection_lost(None)


async def test_a_large_reply_is_not_copied_for_each_of_its_frames():
    size = 16 * 2**20
    server = EchoServer()
    connection = Http2Connection(server, max_streams=1)
    connection.connection_made(PausedTransport())
    connection.data_received(PREFACE + encode_settings({}) + opening(1))
    message = bytes(size)
    tracemalloc.start()
    try:
        server.streams[0].send_data(message)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < size // 2
    connection.connection_lost(None)
