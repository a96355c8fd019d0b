"""A gRPC server on HTTP/2 connections of our own, on the gateway's event loop: calls, messages, statuses."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import IntEnum
from typing import Protocol
from urllib.parse import quote

from radixway.core.http2 import Header, Http2Connection, Http2Stream, StreamConnection, encode_headers

_PREFIX_BYTES = 5
"""Before each message: whether it is compressed, and its length."""
_HANDSHAKE_TIMEOUT_S = 20.0
_MAX_PATH_BYTES = 256
"""Of an unknown method's path, in what is said of it: headers of a reply fit into a frame."""
_CONTENT_TYPE = b"application/grpc"
_OPENING: list[Header] = [(b":status", b"200"), (b"content-type", _CONTENT_TYPE)]


class GrpcStatus(IntEnum):
    """How a call ends, as gRPC numbers it."""

    OK = 0
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13


_HEAD = encode_headers(_OPENING)
_WELL = encode_headers([(b"grpc-status", b"0")])
_NOT_GRPC = encode_headers([(b":status", b"415")])


class MessageHandler(Protocol):
    """What a call's servicer hears. It may send from within each of these."""

    def on_message(self, message: bytes) -> None:
        """Take the next message."""

    def on_half_close(self) -> None:
        """The client sends no more."""

    def on_cancel(self) -> None:
        """The client has left; what is sent from now on is dropped."""


class GrpcCall:
    """One call; the handler of its stream."""

    __slots__ = ("_began", "_buffer", "_handler", "_max_message_bytes", "_stream")

    def __init__(self, stream: Http2Stream, max_message_bytes: int) -> None:
        """`max_message_bytes`: of a message that the client sends; beyond it the call ends."""
        self._stream = stream
        self._max_message_bytes = max_message_bytes
        self._handler: MessageHandler | None = None
        self._buffer: bytearray | None = None
        """The beginning of a message whose rest has not come."""
        self._began = False

    def attach_handler(self, handler: MessageHandler) -> None:
        """Have `handler` take the messages of this call."""
        self._handler = handler

    def send_message(self, message: bytes) -> None:
        """Send `message`, unless the call is over."""
        if not self._began:
            self._began = True
            self._stream.send_headers(_HEAD)
        self._stream.send_data(len(message).to_bytes(_PREFIX_BYTES, "big") + message)

    def finish(self, status: GrpcStatus = GrpcStatus.OK, message: str = "") -> None:
        """End the call, after all messages; `message` tells people why."""
        self._handler = None
        if status is GrpcStatus.OK and self._began:
            self._stream.finish(_WELL)
            return
        trailers = [(b"grpc-status", b"%d" % status), (b"grpc-message", quote(message, safe=" ").encode())]
        self._stream.finish(encode_headers(trailers if self._began else [*_OPENING, *trailers]))

    # Called by the connection.

    def on_data(self, data: bytes) -> None:
        if self._buffer is None:
            size = int.from_bytes(data[1:_PREFIX_BYTES], "big")
            if _PREFIX_BYTES + size == len(data) and not data[0] and size <= self._max_message_bytes:
                if self._handler is not None:
                    self._handler.on_message(data[_PREFIX_BYTES:])
                return
            self._buffer = bytearray()
        buffer = self._buffer
        buffer += data
        while len(buffer) >= _PREFIX_BYTES and self._handler is not None:
            size = int.from_bytes(buffer[1:_PREFIX_BYTES], "big")
            if size > self._max_message_bytes:
                message = f"a message of {size} bytes; {self._max_message_bytes} are allowed"
                self._refuse(GrpcStatus.RESOURCE_EXHAUSTED, message)
            elif buffer[0]:
                self._refuse(GrpcStatus.UNIMPLEMENTED, "messages must not be compressed")
            elif len(buffer) < _PREFIX_BYTES + size:
                return
            else:
                whole = bytes(memoryview(buffer)[_PREFIX_BYTES : _PREFIX_BYTES + size])
                del buffer[: _PREFIX_BYTES + size]
                self._handler.on_message(whole)
        if not buffer or self._handler is None:
            self._buffer = None

    def on_end(self) -> None:
        if self._handler is None:
            return
        if self._buffer is not None:
            self._refuse(GrpcStatus.INTERNAL, "the last message is not whole")
        else:
            self._handler.on_half_close()

    def on_reset(self) -> None:
        handler, self._handler = self._handler, None
        if handler is not None:
            handler.on_cancel()

    def _refuse(self, status: GrpcStatus, message: str) -> None:
        """End the call for what its client sent."""
        handler = self._handler
        self.finish(status, message)
        if handler is not None:
            handler.on_cancel()


OpenCall = Callable[[GrpcCall, list[Header]], MessageHandler]
"""Makes the handler of a new call from its metadata, which it must not change."""


class GrpcServer:
    """Serves calls by their path, `/package.Service/Method`."""

    def __init__(
        self, methods: Mapping[bytes, OpenCall], *, max_message_bytes: int, max_streams: int
    ) -> None:
        """`max_streams`: calls at a time on one connection."""
        self._methods = methods
        self._max_message_bytes = max_message_bytes
        self._max_streams = max_streams
        self._connections: set[StreamConnection] = set()
        self._is_idle = asyncio.Event()
        """Set while there is no connection."""
        self._is_idle.set()
        self._server: asyncio.Server | None = None

    async def start(self, listener: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Accept connections from `listener`, under `tls` if given."""
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Http2Connection(self, max_streams=self._max_streams),
            sock=listener,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else _HANDSHAKE_TIMEOUT_S,
        )

    async def drain(self, timeout_s: float) -> None:
        """Take no new calls; those under way get `timeout_s` seconds, then they are cancelled."""
        if self._server is None:
            return
        self._server.close()
        for connection in list(self._connections):
            connection.start_draining()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._is_idle.wait()
        for connection in list(self._connections):
            connection.abort()
        await self._is_idle.wait()

    # Called by connections.

    def on_connected(self, connection: StreamConnection) -> None:
        self._connections.add(connection)
        self._is_idle.clear()

    def on_disconnected(self, connection: StreamConnection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._is_idle.set()

    def open_stream(self, stream: Http2Stream, headers: list[Header]) -> GrpcCall:
        call = GrpcCall(stream, self._max_message_bytes)
        given = dict(headers)
        if not given.get(b"content-type", b"").startswith(_CONTENT_TYPE):
            stream.finish(_NOT_GRPC)
            return call
        path = given.get(b":path", b"")
        method = self._methods.get(path)
        if method is None:
            call.finish(
                GrpcStatus.UNIMPLEMENTED, f"there is no method {path[:_MAX_PATH_BYTES].decode('latin-1')}"
            )
        else:
            call.attach_handler(method(call, headers))
        return call
