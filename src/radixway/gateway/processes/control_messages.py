"""Messages between the supervisor and a child, over a socket pair that ends with either of them."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Literal

import msgspec

_LENGTH = struct.Struct("!I")
_MAX_MESSAGE_BYTES = 16 * 2**20


class ProcessMember(msgspec.Struct, frozen=True, array_like=True):
    """A child, as all children know it."""

    slot: int
    """Its number among the processes, from 0; its successor has the same."""
    name: str
    """Its own name, which no successor has."""
    state: Literal["joining", "serving", "leaving"]
    """`leaving`: it finishes its requests, and nothing new is its own."""


class GroupChanged(msgspec.Struct, frozen=True, tag=True):
    """To children: who they are now, and who accepts the connections at each listening socket."""

    members: list[ProcessMember]
    acceptors: list[str | None]
    """By slot, the name of the child that accepts there; None: nobody does at the moment."""


class ListeningEnded(msgspec.Struct, frozen=True, tag=True):
    """To children: nobody is to hold the listening sockets any longer, so that clients are refused."""


class LimitsReply(msgspec.Struct, frozen=True, tag=True):
    """To a child: the reply to a `LimitsRequest`."""

    number: int
    limit: str | None = None
    """The limit that refuses the request; None: it is admitted."""
    wait_s: int = 0
    used: dict[str, float] = {}
    """How much of each limit is used, where that was asked."""


class ProcessJoined(msgspec.Struct, frozen=True, tag=True):
    """To the supervisor: its siblings can reach this child."""


class ProcessReady(msgspec.Struct, frozen=True, tag=True):
    """To the supervisor: this child can replace its predecessor."""


class ProcessFailed(msgspec.Struct, frozen=True, tag=True):
    """To the supervisor: this child cannot start."""

    reason: str


class LimitsRequest(msgspec.Struct, frozen=True, tag=True):
    """To the supervisor: asks that a tenant's request be admitted."""

    number: int
    tenant: str
    tokens: int = 0
    cost: float = 0.0
    only_used: bool = False
    """Admit nothing, and reply what is used."""
    rates: tuple[int | None, int | None, int | None] | None = None
    """Requests and tokens a minute and requests at a time, where the supervisor cannot know them: of keys,
    users and teams made at run time."""


class UsageSettled(msgspec.Struct, frozen=True, tag=True):
    """To the supervisor: an admitted request is over. No answer."""

    tenant: str
    reserved_tokens: int
    reserved_cost: float
    tokens: int
    cost: float


ToChild = GroupChanged | ListeningEnded | LimitsReply
ToSupervisor = ProcessJoined | ProcessReady | ProcessFailed | LimitsRequest | UsageSettled

_encode = msgspec.msgpack.Encoder().encode
decode_for_child = msgspec.msgpack.Decoder(ToChild).decode
decode_for_supervisor = msgspec.msgpack.Decoder(ToSupervisor).decode


def frame_message(payload: bytes) -> bytes:
    """Return `payload` with its length before it."""
    return _LENGTH.pack(len(payload)) + payload


def receive_frame(sock: socket.socket) -> bytes:
    """Receive one frame from the blocking socket `sock`. Raises EOFError."""
    (length,) = _LENGTH.unpack(_receive_bytes(sock, _LENGTH.size))
    return _receive_bytes(sock, length)


def _receive_bytes(sock: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        part = sock.recv(count - len(received))
        if not part:
            raise EOFError
        received += part
    return received


class ControlChannel:
    """One end of the socket pair, in an event loop. Frames are a length of four bytes and msgpack."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open_on(cls, sock: socket.socket) -> ControlChannel:
        """Open the channel on `sock`, which it owns from now on."""
        sock.setblocking(False)
        return cls(*await asyncio.open_unix_connection(sock=sock, limit=2 * _MAX_MESSAGE_BYTES))

    def send_message(self, message: ToChild | ToSupervisor) -> None:
        """Send `message`. Never waits; what cannot reach an ended process is dropped."""
        self.send_frame(_encode(message))

    def send_frame(self, payload: bytes) -> None:
        """Send `payload` as a frame."""
        if not self._writer.is_closing():
            self._writer.write(frame_message(payload))

    async def read_frames(self) -> AsyncIterator[bytes]:
        """Yield the payloads of frames, until the other end is closed."""
        try:
            while True:
                (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
                yield await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return

    async def flush(self) -> None:
        """Wait until what was sent is on its way."""
        with suppress(ConnectionError):
            await self._writer.drain()

    def close(self) -> None:
        """Close this end."""
        self._writer.close()
