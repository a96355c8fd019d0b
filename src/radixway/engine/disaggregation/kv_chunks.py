"""Chunks of KV (one layer, some tokens) on their way: in the stream of a socket, or in slots of shared
memory.

In shared memory the header alone goes through the socket, and when the receiver is through with a slot it
sends a byte back with its number. Either way a receiver that is slow makes the sender wait, and nobody else.
"""

from typing import Protocol

from radixway.engine.disaggregation.shared_memory import SLOTS, SharedSegment
from radixway.engine.disaggregation.transfer_channel import TransferChannel
from radixway.engine.disaggregation.transfer_protocol import IN_STREAM, KV, FrameHeader, KVTransferError

MAX_CHUNK_BYTES = 2**20
"""Most of one piece: small enough for the checksum to find it in the processor's cache."""


class ChunkWriter(Protocol):
    """The sender's end of a transfer."""

    def next_buffer(self) -> memoryview:
        """Return the buffer for the next chunk, `MAX_CHUNK_BYTES` long. Waits for the receiver if need be."""

    def write_chunk(self, layer: int, first: int, count: int, size: int) -> None:
        """Send the first `size` bytes of that buffer: KV of tokens [first, first + count) in `layer`."""


class ChunkReader(Protocol):
    """The receiver's end of a transfer."""

    def read_payload(self, header: FrameHeader) -> memoryview:
        """The payload that `header` announces. Raises KVTransferError if it is not what was sent."""

    def release_payload(self, header: FrameHeader) -> None:
        """Give back the buffer of the payload of `header`, which has been read."""


class StreamChunkWriter:
    """Through the socket."""

    def __init__(self, channel: TransferChannel) -> None:
        self._channel = channel
        self._buffer = memoryview(b"")

    def next_buffer(self) -> memoryview:
        """The one buffer: free again as soon as `write_chunk` returns."""
        if not self._buffer:  # those who only connect are given no memory
            self._buffer = memoryview(bytearray(MAX_CHUNK_BYTES))
        return self._buffer

    def write_chunk(self, layer: int, first: int, count: int, size: int) -> None:
        """Send the chunk's header and its `size` bytes."""
        payload = self._buffer[:size]
        header = FrameHeader(KV, size, IN_STREAM, layer, first, count)
        self._channel.send_bytes(header.pack_header(payload), payload)


class StreamChunkReader:
    """Through the socket."""

    def __init__(self, channel: TransferChannel) -> None:
        self._channel = channel
        self._buffer = memoryview(bytearray(MAX_CHUNK_BYTES))

    def read_payload(self, header: FrameHeader) -> memoryview:
        """Read the payload of `header` from the socket, verified."""
        if header.slot != IN_STREAM or header.size > MAX_CHUNK_BYTES:
            raise KVTransferError("a piece that was not agreed on")
        payload = self._buffer[: header.size]
        self._channel.read_into(payload)
        header.verify_checksum(payload)
        return payload

    def release_payload(self, header: FrameHeader) -> None:
        """Nothing to do for `header`: the buffer is the reader's own."""


class SharedMemoryChunkWriter:
    """Through shared memory."""

    def __init__(self, channel: TransferChannel, segment: SharedSegment) -> None:
        self._channel = channel
        self._segment = segment
        self._free = list(range(SLOTS))

    def next_buffer(self) -> memoryview:
        """A free slot; waits for the receiver to give one back if there is none."""
        if not self._free:
            number = bytearray(1)
            self._channel.read_into(memoryview(number))
            if number[0] >= SLOTS:
                raise KVTransferError("a slot that does not exist was given back")
            self._free.append(number[0])
        return self._segment.slot_view(self._free[-1])

    def write_chunk(self, layer: int, first: int, count: int, size: int) -> None:
        """Send the header of the slot's first `size` bytes."""
        slot = self._free.pop()
        header = FrameHeader(KV, size, slot, layer, first, count)
        self._channel.send_bytes(header.pack_header(self._segment.slot_view(slot)[:size]))


class SharedMemoryChunkReader:
    """Through shared memory."""

    def __init__(self, channel: TransferChannel, segment: SharedSegment) -> None:
        self._channel = channel
        self._segment = segment

    def read_payload(self, header: FrameHeader) -> memoryview:
        """The slot that `header` names, verified."""
        if header.size > self._segment.slot_bytes:
            raise KVTransferError("a piece larger than its slot")
        payload = self._segment.slot_view(header.slot)[: header.size]
        header.verify_checksum(payload)
        return payload

    def release_payload(self, header: FrameHeader) -> None:
        """Give the slot of `header` back to the sender."""
        self._channel.send_bytes(bytes([header.slot]))
