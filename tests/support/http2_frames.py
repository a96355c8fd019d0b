"""A client that writes its HTTP/2 frames by hand, and a server of echoes, over a real socket."""

import asyncio
from contextlib import asynccontextmanager

from radixway.core.http2 import Http2Connection, Http2Stream, encode_headers
from radixway.core.http2.frames import (
    END_HEADERS,
    END_STREAM,
    ErrorCode,
    FrameKind,
    encode_frame,
    encode_settings,
)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
REQUEST = encode_headers([(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/x")])
REPLY = encode_headers([(b":status", b"200")])
DONE = encode_headers([(b"done", b"yes")])


class Echo:
    """Replies with what it is sent, and ends when its client does."""

    def __init__(self, stream, server) -> None:
        self._stream = stream
        self._server = server

    def on_data(self, data: bytes) -> None:
        self._stream.send_headers(REPLY)
        self._stream.send_data(data)

    def on_end(self) -> None:
        self._server.ended.append(self._stream.id)
        self._stream.finish(DONE)

    def on_reset(self) -> None:
        self._server.reset.append(self._stream.id)
        self._server.has_reset.set()


class EchoServer:
    """The owner of connections whose streams echo."""

    def __init__(self) -> None:
        self.connections: set[Http2Connection] = set()
        self.ended: list[int] = []
        self.reset: list[int] = []
        self.has_reset = asyncio.Event()
        self.is_gone = asyncio.Event()
        self.heads: list[list[tuple[bytes, bytes]]] = []
        self.streams: list[Http2Stream] = []

    def on_connected(self, connection) -> None:
        self.connections.add(connection)

    def on_disconnected(self, connection) -> None:
        self.connections.discard(connection)
        self.is_gone.set()

    def open_stream(self, stream, headers):
        self.heads.append(headers)
        self.streams.append(stream)
        return Echo(stream, self)


class FrameClient:
    """Writes frames as they are given, and reads those of the server."""

    def __init__(self, reader, writer) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, kind, flags=0, stream_id=0, payload=b"") -> None:
        self._writer.write(encode_frame(kind, flags, stream_id, payload))

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    def abort(self) -> None:
        """Cut the connection."""
        self._writer.transport.abort()

    async def frame(self):
        head = await self._reader.readexactly(9)
        payload = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
        return FrameKind(head[3]), head[4], int.from_bytes(head[5:], "big"), payload

    async def until(self, *kinds):
        """The next frame of one of these kinds."""
        while True:
            frame = await self.frame()
            if frame[0] in kinds:
                return frame

    async def goaway(self) -> ErrorCode:
        """Why the server ends the connection, which it then does."""
        _, _, _, payload = await self.until(FrameKind.GOAWAY)
        assert await self._reader.read() == b""
        return ErrorCode(int.from_bytes(payload[4:8], "big"))

    def open(self, stream_id=1, flags=END_HEADERS, block=REQUEST) -> None:
        self.send(FrameKind.HEADERS, flags, stream_id, block)

    async def reply(self, stream_id=1) -> bytes:
        """The body of a reply, to its trailers."""
        body = b""
        while True:
            kind, flags, of, payload = await self.until(FrameKind.HEADERS, FrameKind.DATA)
            assert of == stream_id
            if kind == FrameKind.DATA:
                body += payload
            elif flags & END_STREAM:
                assert payload == DONE
                return body


@asynccontextmanager
async def frame_client(max_streams=10, preface=PREFACE, settings=None, server=None):
    """A client, connected, and the server, which may be one of your own."""
    server = server or EchoServer()
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(
        lambda: Http2Connection(server, max_streams=max_streams), "127.0.0.1", 0
    )
    reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname()[:2], limit=2**24)
    client = FrameClient(reader, writer)
    client.write(preface)
    client.write(encode_settings(settings or {}))
    try:
        yield client, server
    finally:
        writer.close()
        listening.close()
        for connection in list(server.connections):
            connection.abort()
