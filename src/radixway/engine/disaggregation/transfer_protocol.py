"""The protocol between two engines: frames of a fixed header and a payload, under one checksum.

    decode engine                                  prefill engine
      connect ───────────────────────────────────►
              ◄─────────────────────────────────── Greeting: where to connect on this machine instead
      Ask: room, tokens [first, stop) ───────────►
              ◄─────────────────────────────────── KV of one layer, some tokens: as it is computed
              ◄─────────────────────────────────── Done, or Failed and why

A payload of KV is the layer's keys and values as the store keeps them, [2, kv_heads, tokens, D], and their
scales, [2, kv_heads, tokens, 1], if it keeps any.
"""

import struct
from dataclasses import dataclass
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
    """All that was asked for has been sent."""


class TransferFailure(msgspec.Struct, tag="Failed", frozen=True):
    """No more will be sent."""

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
