"""How KV of one layer and some tokens crosses: in the stream of a socket, or in slots of shared memory.

In shared memory the header alone goes through the socket, and when the receiver is through with a slot it
sends a byte back with its number. Either way a receiver that is slow makes the sender wait, and nobody else.
"""

from typing import Protocol

from radixway.engine.disaggregation.shared_memory import SLOTS, SharedSegment
from radixway.engine.disaggregation.transfer_channel import TransferChannel
from radixway.engine.disaggregation.transfer_protocol import IN_STREAM, KV, FrameHeader, KVTransferError

PIECE_BYTES = 2**20
"""Most of one piece: small enough for the checksum to find it in the processor's cache."""


class ChunkWriter(Protocol):
    """Where the sender puts pieces."""

    def next_buffer(self) -> memoryview:
        """Where the next piece is to be written: `PIECE_BYTES`. Waits for the receiver if need be."""

    def write_chunk(self, layer: int, first: int, count: int, size: int) -> None:
        """The first `size` bytes of that are KV of tokens [first, first + count) in `layer`."""


class ChunkReader(Protocol):
    """Where the receiver gets pieces."""

    def read_payload(self, header: FrameHeader) -> memoryview:
        """The payload. Raises KVTransferError if it is not what was sent."""

    def release_payload(self, header: FrameHeader) -> None:
        """It has been read."""


class StreamChunkWriter:
    """Through the socket."""

    def __init__(self, channel: TransferChannel) -> None:
        self._channel = channel
        self._buffer = memoryview(b"")

    def next_buffer(self) -> memoryview:
        """See `ChunkWriter`: free again as soon as `send` returns."""
        if not self._buffer:  # those who only connect are given no memory
            self._buffer = memoryview(bytearray(PIECE_BYTES))
        return self._buffer

    def write_chunk(self, layer: int, first: int, count: int, size: int) -> None:
        """See `ChunkWriter`."""
        payload = self._buffer[:size]
        header = FrameHeader(KV, size, IN_STREAM, layer, first, count)
        self._channel.send_bytes(header.pack_header(payload), payload)


class StreamChunkReader:
    """Through the socket."""

    def __init__(self, channel: TransferChannel) -> None:
        self._channel = channel
        self._buffer = memoryview(bytearray(PIECE_BYTES))

    def read_payload(self, header: FrameHeader) -> memoryview:
        """See `ChunkReader`."""
        if header.slot != IN_STREAM or header.size > PIECE_BYTES:
            raise KVTransferError("a piece that was not agreed on")
        payload = self._buffer[: header.size]
        self._channel.read_into(payload)
        header.verify_checksum(payload)
        return payload

    def release_payload(self, header: FrameHeader) -> None:
        """See `ChunkReader`."""


class SharedMemoryChunkWriter:
    """Through shared memory."""

    def __init__(self, channel: TransferChannel, segment: SharedSegment) -> None:
        self._channel = channel
        self._segment = segment
        self._free = list(range(SLOTS))

    def next_buffer(self) -> memoryview:
        """See `ChunkWriter`."""
        if not self._free:
            number = bytearray(1)
            self._channel.read_into(memoryview(number))
            if number[0] >= SLOTS:
                raise KVTransferError("a slot that does not exist was given back")
            self._free.append(number[0])
        return self._segment.slot_view(self._free[-1])

    def write_chunk(self, layer: int, first: int, count: int, size: int) -> None:
        """See `ChunkWriter`."""
        slot = self._free.pop()
        header = FrameHeader(KV, size, slot, layer, first, count)
        self._channel.send_bytes(header.pack_header(self._segment.slot_view(slot)[:size]))


class SharedMemoryChunkReader:
    """Through shared memory."""

    def __init__(self, channel: TransferChannel, segment: SharedSegment) -> None:
        self._channel = channel
        self._segment = segment

    def read_payload(self, header: FrameHeader) -> memoryview:
        """See `ChunkReader`."""
        if header.size > self._segment.slot_bytes:
            raise KVTransferError("a piece larger than its slot")
        payload = self._segment.slot_view(header.slot)[: header.size]
        header.verify_checksum(payload)
        return payload

    def release_payload(self, header: FrameHeader) -> None:
        """See `ChunkReader`."""
        self._channel.send_bytes(bytes([header.slot]))
