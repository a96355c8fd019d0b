"""Calls of gRPC's own client: messages of any size, statuses, health that is watched, reflection."""

import asyncio
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("grpc")

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from radixway.api.ext_proc.grpc_server import GrpcServer, GrpcStatus
from radixway.api.ext_proc.grpc_services import HEALTH, REFLECTION, HealthService, reflection_methods
from radixway.core.http import bind_tcp
from radixway.core.http2 import Http2Connection, encode_headers
from radixway.core.http2.frames import (
    END_HEADERS,
    LEAST_FRAME_BYTES,
    FrameKind,
    encode_frame,
    encode_settings,
)
from radixway.core.http2.peer_limits import MAX_RAPID_RESETS

HEAD = [(b":method", b"POST"), (b":scheme", b"http")]
MAX_BYTES = 2 * 2**20
ALL_BYTES = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class Transport:
    """What a connection writes."""

    sent = b""

    def write(self, data: bytes) -> None:
        self.sent += data

    def abort(self) -> None:
        raise AssertionError


class Echo:
    """Says each message again; `refuse` ends the call with a status, `raise` makes it fail."""

    def __init__(self, call, cancelled) -> None:
        self._call = call
        self._cancelled = cancelled

    def on_message(self, message: bytes) -> None:
        if message == b"raise":
            raise ValueError("asked to")
        if message == b"refuse":
            self._call.finish(GrpcStatus.NOT_FOUND, "not that: ü")
        else:
            self._call.send_message(message)

    def on_half_close(self) -> None:
        self._call.finish()

    def on_cancel(self) -> None:
        self._cancelled.set()


@asynccontextmanager
async def serving(max_message_bytes=MAX_BYTES):
    cancelled = asyncio.Event()
    health = HealthService(["an.Echo"])
    methods = {
        b"/an.Echo/Say": lambda call, metadata: Echo(call, cancelled),
        **health.methods(),
        **reflection_methods([HEALTH, REFLECTION]),
    }
    server = GrpcServer(methods, max_message_bytes=max_message_bytes, max_streams=100)
    listener = bind_tcp("127.0.0.1", 0)
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    await server.start(listener)
    try:
        async with grpc.aio.insecure_channel(address, options=ALL_BYTES) as channel:
            yield channel, server, health, cancelled
    finally:
        await server.drain(0)


async def test_messages_of_any_size_come_back_in_order():
    async with serving() as (channel, *_):
        call = channel.stream_stream("/an.Echo/Say")()
        sizes = [0, 1, 16_379, 16_384, 65_536, 1_000_000, MAX_BYTES, 3]
        for size in sizes:
            await call.write(b"x" * size)
        await call.done_writing()
        assert [len(await call.read()) for _ in sizes] == sizes
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK


async def test_many_calls_share_a_connection_and_keep_apart():
    async with serving() as (channel, server, *_):
        say = channel.stream_stream("/an.Echo/Say")

        async def one(number: int) -> None:
            call = say()
            for turn in range(5):
                message = f"{number} {turn} ".encode() * 3000
                await call.write(message)
                assert await call.read() == message
            await call.done_writing()
            assert await call.code() is grpc.StatusCode.OK

        await asyncio.gather(*(one(number) for number in range(60)))
        assert len(server._connections) == 1


@pytest.mark.parametrize(
    ("send", "code", "words"),
    [
        (b"refuse", grpc.StatusCode.NOT_FOUND, "not that: ü"),
        (b"x" * (MAX_BYTES + 1), grpc.StatusCode.RESOURCE_EXHAUSTED, f"{MAX_BYTES} are allowed"),
    ],
)
async def test_a_call_that_is_refused_says_why(send, code, words):
    async with serving() as (channel, *_):
        call = channel.stream_stream("/an.Echo/Say")()
        await call.write(send)
        assert await call.code() is code and words in await call.details()


async def test_a_message_in_one_frame_is_not_larger_than_allowed():
    async with serving(max_message_bytes=50) as (channel, *_):
        call = channel.stream_stream("/an.Echo/Say")()
        for size in (50, 51):
            await call.write(b"x" * size)
        assert await call.read() == b"x" * 50
        assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "51 bytes; 50 are allowed" in await call.details()


async def test_a_servicer_that_raises_ends_its_call_alone():
    async with serving() as (channel, _, _, cancelled):
        say = channel.stream_stream("/an.Echo/Say")
        stays, fails = say(), say()
        await stays.write(b"one")
        assert await stays.read() == b"one"
        await fails.write(b"raise")
        assert await fails.code() is grpc.StatusCode.INTERNAL and cancelled.is_set()
        await stays.write(b"two")
        assert await stays.read() == b"two"
        await stays.done_writing()
        assert await stays.code() is grpc.StatusCode.OK


async def test_many_short_calls_of_which_a_third_is_cancelled_meet_no_limit():
    count = 2 * MAX_RAPID_RESETS
    async with serving() as (channel, server, *_):
        say = channel.stream_stream("/an.Echo/Say")
        connections = set()

        async def one(number: int) -> None:
            call = say()
            await call.write(b"hello")
            assert await call.read() == b"hello"
            connections.update(server._connections)
            if number % 3:
                await call.done_writing()
                assert await call.code() is grpc.StatusCode.OK
            else:
                call.cancel()

        for first in range(0, count, 50):
            await asyncio.gather(*(one(number) for number in range(first, first + 50)))
        assert len(connections) == 1


async def test_messages_must_not_be_compressed():
    async with serving() as (channel, *_):
        call = channel.stream_stream("/an.Echo/Say")(compression=grpc.Compression.Gzip)
        await call.write(b"x" * 1000)
        assert await call.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_method_that_is_not_there_is_unimplemented():
    async with serving() as (channel, *_):
        call = channel.unary_unary("/an.Echo/Sing")(b"la")
        assert await call.code() is grpc.StatusCode.UNIMPLEMENTED
        assert "/an.Echo/Sing" in await call.details()


async def test_a_client_that_cancels_is_told_to_the_servicer():
    async with serving() as (channel, _, _, cancelled):
        call = channel.stream_stream("/an.Echo/Say")()
        await call.write(b"hello")
        assert await call.read() == b"hello"
        call.cancel()
        await cancelled.wait()


async def test_a_server_that_drains_lets_calls_end_and_cancels_those_that_do_not():
    async with serving() as (channel, server, _, cancelled):
        say = channel.stream_stream("/an.Echo/Say")
        ends, stays = say(), say()
        for call in (ends, stays):
            await call.write(b"hello")
            assert await call.read() == b"hello"
        draining = asyncio.create_task(server.drain(0.2))
        await ends.write(b"again")
        assert await ends.read() == b"again"
        await ends.done_writing()
        assert await ends.code() is grpc.StatusCode.OK
        await draining
        assert await stays.code() is grpc.StatusCode.UNAVAILABLE and cancelled.is_set()


async def test_health_is_told_to_those_who_ask_and_to_those_who_watch():
    response = health_pb2.HealthCheckResponse
    async with serving() as (channel, _, health, _):
        stub = health_pb2_grpc.HealthStub(channel)
        listed = await stub.List(health_pb2.HealthListRequest())
        assert {name: one.status for name, one in listed.statuses.items()} == {
            "": response.SERVING,
            "an.Echo": response.SERVING,
        }
        call = stub.Check(health_pb2.HealthCheckRequest(service="another"))
        assert await call.code() is grpc.StatusCode.NOT_FOUND
        watches = [stub.Watch(health_pb2.HealthCheckRequest(service=name)) for name in ("an.Echo", "another")]
        said = [(await watch.read()).status for watch in watches]
        assert said == [response.SERVING, response.SERVICE_UNKNOWN]
        health.stop_serving()
        assert (await watches[0].read()).status == response.NOT_SERVING
        assert await watches[0].code() is grpc.StatusCode.OK
        assert (await stub.Check(health_pb2.HealthCheckRequest())).status == response.NOT_SERVING


async def test_a_watch_that_ends_by_a_malformed_message_is_forgotten():
    async with serving() as (channel, _, health, _):
        call = channel.stream_stream(f"/{HEALTH}/Watch")()
        await call.write(b"")
        await call.read()
        await call.write(b"\xff")
        assert await call.code() is grpc.StatusCode.INTERNAL
        assert not health._watches


async def test_reflection_describes_its_services():
    async with serving() as (channel, *_):
        call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo()
        await call.write(reflection_pb2.ServerReflectionRequest(file_containing_symbol=HEALTH))
        assert (await call.read()).file_descriptor_response.file_descriptor_proto
        await call.write(reflection_pb2.ServerReflectionRequest(file_containing_symbol="no.Such"))
        assert (await call.read()).HasField("error_response")
        await call.done_writing()
        assert await call.code() is grpc.StatusCode.OK


async def test_what_is_no_grpc_is_refused():
    server = GrpcServer({}, max_message_bytes=MAX_BYTES, max_streams=1)
    connection = Http2Connection(server, max_streams=1)
    transport = Transport()
    connection.connection_made(transport)
    request = encode_headers([*HEAD, (b":path", b"/"), (b"content-type", b"text/html")])
    connection.data_received(
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        + encode_settings({})
        + encode_frame(FrameKind.HEADERS, END_HEADERS, 1, request)
    )
    await asyncio.sleep(0)  # the end of the turn of the loop
    assert encode_headers([(b":status", b"415")]) in transport.sent
    connection.connection_lost(None)


async def test_an_unknown_method_of_a_long_name_is_told_in_one_small_frame():
    server = GrpcServer({}, max_message_bytes=MAX_BYTES, max_streams=1)
    connection = Http2Connection(server, max_streams=1)
    transport = Transport()
    connection.connection_made(transport)
    request = encode_headers([*HEAD, (b":path", b"/\xff" * 20_000), (b"content-type", b"application/grpc")])
    connection.data_received(
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        + encode_settings({})
        + encode_frame(FrameKind.HEADERS, END_HEADERS, 1, request)
    )
    await asyncio.sleep(0)  # the end of the turn of the loop
    assert b"grpc-status\x0212" in transport.sent and len(transport.sent) < LEAST_FRAME_BYTES
    connection.connection_lost(None)


async def test_the_beginning_of_a_message_is_no_message():
    cancelled = asyncio.Event()
    said: list[bytes] = []

    class Silent(Echo):
        def on_message(self, message: bytes) -> None:
            said.append(message)

    server = GrpcServer({b"/s": lambda call, _: Silent(call, cancelled)}, max_message_bytes=9, max_streams=1)
    connection = Http2Connection(server, max_streams=1)
    transport = Transport()
    connection.connection_made(transport)
    request = encode_headers([*HEAD, (b":path", b"/s"), (b"content-type", b"application/grpc+proto")])
    message = b"\x00\x00\x00\x00\x05hello"
    stream = message + message + message[:7]
    frames = b"".join(encode_frame(FrameKind.DATA, 0, 1, stream[at : at + 1]) for at in range(len(stream)))
    connection.data_received(
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        + encode_settings({})
        + encode_frame(FrameKind.HEADERS, END_HEADERS, 1, request)
        + frames
    )
    assert said == [b"hello", b"hello"]
    connection.data_received(encode_frame(FrameKind.DATA, 1, 1, b""))
    await asyncio.sleep(0)  # the end of the turn of the loop
    assert cancelled.is_set() and b"grpc-status\x0213" in transport.sent
    connection.connection_lost(None)
