"""The protocol between two engines: frames of a fixed header and a payload, under one checksum.

    decode engine                                  prefill engine
      connect ───────────────────────────────────►
              ◄─────────────────────────────────── Greeting: where to connect on this machine instead
      Ask: room, tokens [first, stop) ───────────►
              ◄─────────────────────────────────── KV of one layer, some tokens: as it is computed
              ◄─────────────────────────────────── Done, or Failed and why

A payload of KV is the layer's keys and values as the store keeps them, [2, kv_heads, tokens, D], and their
scales, [2, kv_heads, tokens, 1], if it keeps any.

`TransferChannel` is a connection: whole frames within a time limit, or KVTransferError.
"""

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TypeAlias

import msgspec
import xxhash

from radixway.engine.errors import EngineError

Buffer: TypeAlias = bytes | bytearray | memoryview

PROTOCOL = 1
MAGIC = b"RWK1"
MESSAGE, KV = 1, 2
IN_STREAM = 255
"""In place of a slot: the payload follows the header."""
MAX_MESSAGE_BYTES = 4096

_HEAD = struct.Struct("<4sBBHIII")  # magic, kind, slot, layer, first, count, size
_CHECK = struct.Struct("<Q")
HEADER_BYTES = _HEAD.size + _CHECK.size


class KVTransferError(EngineError):
    """KV was not transferred, or not the right one; the message says why, in few words."""


class TransferGreeting(msgspec.Struct, tag="Greeting", frozen=True):
    """The prefill engine's first message."""

    protocol: int
    local: str
    """A Unix socket (abstract name) for engines on the same machine; empty: there is none."""


class TransferRequest(msgspec.Struct, tag="Ask", frozen=True):
    """The decode engine's request: the KV of tokens [first, stop) of the request in `room`."""

    room: int
    identity: str
    first: int
    stop: int
    tokens: str
    """The digest of tokens [0, stop)."""


class TransferDone(msgspec.Struct, tag="Done", frozen=True):
    """All requested KV has been sent."""


class TransferFailure(msgspec.Struct, tag="Failed", frozen=True):
    """No more KV will be sent."""

    reason: str


TransferMessage: TypeAlias = TransferGreeting | TransferRequest | TransferDone | TransferFailure

encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(TransferMessage)


@dataclass(slots=True, frozen=True)
class FrameHeader:
    """The description of a frame's payload, and the checksum over both."""

    kind: int
    size: int
    slot: int = IN_STREAM
    layer: int = 0
    first: int = 0
    count: int = 0
    check: int = 0

    def pack_header(self, payload: Buffer) -> bytes:
        """The header of this payload, as it is sent."""
        head = self._pack_fields()
        return head + _CHECK.pack(_frame_checksum(head, payload))

    @classmethod
    def unpack_header(cls, data: bytes) -> "FrameHeader":
        """Read a header from `data`. Raises KVTransferError if it is not one of this protocol."""
        magic, kind, slot, layer, first, count, size = _HEAD.unpack_from(data)
        if magic != MAGIC or kind not in (MESSAGE, KV) or (kind == MESSAGE and size > MAX_MESSAGE_BYTES):
            raise KVTransferError("a frame that is none")
        (check,) = _CHECK.unpack_from(data, _HEAD.size)
        return cls(kind, size, slot, layer, first, count, check)

    def verify_checksum(self, payload: Buffer) -> None:
        """Raises KVTransferError if header or payload is not what was sent."""
        if _frame_checksum(self._pack_fields(), payload) != self.check:
            raise KVTransferError("a frame whose checksum is wrong")

    def _pack_fields(self) -> bytes:
        return _HEAD.pack(MAGIC, self.kind, self.slot, self.layer, self.first, self.count, self.size)


def decode_message(payload: Buffer) -> TransferMessage:
    """Decode a message's `payload`. Raises KVTransferError if it is none."""
    try:
        message: TransferMessage = _decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise KVTransferError("a message that cannot be read") from None
    return message


def _frame_checksum(head: bytes, payload: Buffer) -> int:
    digest = xxhash.xxh3_64(head)
    digest.update(payload)
    return digest.intdigest()


_MAX_REASON_CHARACTERS = 200


class TransferChannel:
    """A connected socket, closed at the end of a `with`. `shut_socket` may be called from any thread."""

    def __init__(self, connection: socket.socket, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        """Timeout of one frame."""
        self._socket = connection

    def __enter__(self) -> "TransferChannel":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def shut_socket(self) -> None:
        """Shut the socket down, so that a thread that waits on it gets an error."""
        with suppress(OSError):  # it may be over already
            self._socket.shutdown(socket.SHUT_RDWR)

    def send_message(self, message: TransferMessage) -> None:
        """Send a message."""
        payload = encode(message)
        self.send_bytes(FrameHeader(MESSAGE, len(payload)).pack_header(payload), payload)

    def send_bytes(self, *parts: Buffer) -> None:
        """Send all of this."""
        with _as_transfer_error():
            deadline = time.monotonic() + self.timeout_s
            views = [memoryview(part).cast("B") for part in parts]
            while views:
                self._socket.settimeout(_seconds_until(deadline))
                sent = self._socket.sendmsg(views)
                while views and sent >= len(views[0]):
                    sent -= len(views.pop(0))
                if views:
                    views[0] = views[0][sent:]

    def read_header(self) -> FrameHeader:
        """The next frame's, whose payload must be read next if it is in the stream."""
        data = bytearray(HEADER_BYTES)
        self.read_into(memoryview(data))
        return FrameHeader.unpack_header(bytes(data))

    def read_message(self) -> TransferMessage:
        """The next frame, which has to be a message."""
        header = self.read_header()
        if header.kind == KV:
            raise KVTransferError("KV where a message was due")
        return self.decode_message(header)

    def decode_message(self, header: FrameHeader) -> TransferMessage:
        """Read the message of `header`. Raises KVTransferError, also for a `TransferFailure`."""
        payload = bytearray(header.size)
        self.read_into(memoryview(payload))
        header.verify_checksum(payload)
        message = decode_message(payload)
        if isinstance(message, TransferFailure):
            raise KVTransferError(_to_one_line(message.reason))
        return message

    def read_into(self, view: memoryview) -> None:
        """Read as many bytes as `view` has."""
        with _as_transfer_error():
            deadline = time.monotonic() + self.timeout_s
            while view:
                self._socket.settimeout(_seconds_until(deadline))
                count = self._socket.recv_into(view)
                if not count:
                    raise KVTransferError("the other side left")
                view = view[count:]

    def wait_until_closed(self) -> None:
        """Wait until the other side closes, which would otherwise miss what it has not read yet."""
        with _as_transfer_error():
            deadline = time.monotonic() + self.timeout_s
            self._socket.settimeout(_seconds_until(deadline))
            while self._socket.recv(1024):
                self._socket.settimeout(_seconds_until(deadline))


def _to_one_line(reason: str) -> str:
    """Cut a peer's words to one line for logs and counters."""
    return "".join(each if each.isprintable() else " " for each in reason[:_MAX_REASON_CHARACTERS])


def _seconds_until(deadline: float) -> float:
    """Raises TimeoutError if `deadline` has passed."""
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


@contextmanager
def _as_transfer_error() -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        raise KVTransferError("the other side is too slow") from None
    except OSError as error:
        raise KVTransferError(error.strerror or "the connection broke") from None
