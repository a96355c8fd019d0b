"""Process to process of one gateway, over Unix sockets: each listens at a path, the others connect to it.

ZeroMQ would do, but cost a tenth of what a request takes (docs/decisions/0018).
"""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from pathlib import Path
from typing import cast

from radixway.cluster.load_sync.transport import OnMessage
from radixway.core.config import ConfigError
from radixway.core.net.task_cancellation import cancel_tasks

_LENGTH = struct.Struct("!I")
_MAX_UNSENT_BYTES = 2**20
"""Bytes that a slow peer may have before it; the next full message replaces what is then dropped."""
_RECONNECT_S = 0.5
"""Pause before a lost connection is made again. A process that has ended is soon no peer any more."""
_MAX_MESSAGE_BYTES = 4 * 2**20
"""A peer that sends a longer message is disconnected."""


class UnixTransport:
    """A listener whose clients are sent every message, and a connection to every peer.

    A frame is a message with its length before it.
    """

    name = "unix"
    problem = None
    """Who is connected is the supervisor's to know; `/health` lists processes that sent messages."""

    def __init__(self, path: Path) -> None:
        """`path`: where to listen; in a directory that only this user may enter."""
        self._path = path
        self._receive: OnMessage
        self._server: asyncio.Server | None = None
        self._subscribers: set[asyncio.Transport] = set()
        self._connecting: dict[str, asyncio.Task[None]] = {}
        """By a peer's path, the task that holds the connection to it."""

    async def start_receiving(self, hear: OnMessage) -> None:
        self._receive = hear
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_unix_server(
                lambda: _SubscriberProtocol(self._subscribers), str(self._path)
            )
        except OSError as error:
            raise ConfigError(f"load sync: cannot listen at {self._path}: {error.strerror}") from None

    def connect_peer(self, peer: str) -> None:
        """Receive what the process that listens at the path `peer` sends."""
        if self._server is not None and self._server.is_serving():  # else this process is stopping
            task = asyncio.get_running_loop().create_task(self._hold_connection(peer), name=f"load of {peer}")
            self._connecting[peer] = task

    def disconnect_peer(self, peer: str) -> None:
        """Receive nothing more from the process at `peer`."""
        task = self._connecting.pop(peer, None)
        if task is not None:
            task.cancel()

    def broadcast(self, message: bytes) -> None:
        frame = _LENGTH.pack(len(message)) + message
        for subscriber in self._subscribers:
            if subscriber.get_write_buffer_size() < _MAX_UNSENT_BYTES:
                subscriber.write(frame)

    async def close_transport(self) -> None:
        await cancel_tasks(list(self._connecting.values()))
        self._connecting.clear()
        if self._server is not None:
            self._server.close()
        for subscriber in self._subscribers:
            subscriber.close()  # what is unsent is sent first

    async def _hold_connection(self, peer: str) -> None:
        """Receive from `peer`, over another connection where one is lost, until `disconnect_peer`."""
        loop = asyncio.get_running_loop()
        while True:
            with suppress(OSError):
                transport, protocol = await loop.create_unix_connection(
                    lambda: _MessageProtocol(self._receive), peer
                )
                try:
                    await protocol.closed
                finally:
                    transport.close()
            await asyncio.sleep(_RECONNECT_S)


class _SubscriberProtocol(asyncio.Protocol):
    """A peer that is sent what this process broadcasts."""

    def __init__(self, subscribers: set[asyncio.Transport]) -> None:
        self._subscribers = subscribers
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._subscribers.add(self._transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._subscribers.discard(self._transport)


class _MessageProtocol(asyncio.Protocol):
    """Reads the messages of a peer."""

    def __init__(self, receive: OnMessage) -> None:
        self._receive = receive
        self._unread = b""
        self._transport: asyncio.BaseTransport
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        unread = self._unread + data if self._unread else data
        at, end = 0, len(unread)
        while end - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(unread, at)
            if length > _MAX_MESSAGE_BYTES:
                self._transport.close()
                return
            start = at + _LENGTH.size
            if end - start < length:
                break
            self._receive(unread[start : start + length])
            at = start + length
        self._unread = unread[at:]

    def connection_lost(self, error: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
