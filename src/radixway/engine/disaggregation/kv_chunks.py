"""Chunks of KV (one layer, some tokens) on their way: in the stream of a socket, or in slots of shared
memory.

In shared memory the header alone goes through the socket, and when the receiver is through with a slot it
sends a byte back with its number. Either way a slow receiver blocks only its sender.

The decode engine makes the memory and sends it to the other. It is a memfd and has no name: nothing is left
behind by a process that is killed, and /dev/shm, which is small in containers, is not used. It is sealed
against shrinking, since touching what was cut off kills a process.
"""

import fcntl
import mmap
import os
import socket
import struct
import sys
from typing import Protocol

from radixway.engine.disaggregation.transfer_channel import (
    IN_STREAM,
    KV,
    FrameHeader,
    KVTransferError,
    TransferChannel,
)

SLOTS = 4
"""Pieces that may be on their way at a time: one being filled, one being emptied, and some ease between."""

LOCAL_SOCKET_PREFIX = "radixway-kv-"
"""Prefix of prefill engines' Unix sockets."""

_PEER = struct.Struct("3i")  # SO_PEERCRED: pid, uid, gid


class SharedSegment:
    """`SLOTS` slots of `slot_bytes` each."""

    def __init__(self, descriptor: int, slot_bytes: int) -> None:
        self.slot_bytes = slot_bytes
        self._view = memoryview(mmap.mmap(descriptor, SLOTS * slot_bytes))

    def slot_view(self, index: int) -> memoryview:
        """The memory of slot `index`. Raises KVTransferError if there is no such slot."""
        if index >= SLOTS:
            raise KVTransferError(f"a slot that does not exist: {index}")
        return self._view[index * self.slot_bytes :][: self.slot_bytes]


def is_available() -> bool:
    """True on Linux, which has memfd_create."""
    return sys.platform == "linux" and hasattr(os, "memfd_create")


def send_segment(connection: socket.socket, slot_bytes: int) -> SharedSegment:
    """Make slots of `slot_bytes` and give them to the process at the other end of `connection`."""
    descriptor = os.memfd_create("radixway-kv", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, SLOTS * slot_bytes)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        socket.send_fds(connection, [b"\0"], [descriptor])
        return SharedSegment(descriptor, slot_bytes)
    finally:
        os.close(descriptor)


def receive_segment(connection: socket.socket, slot_bytes: int) -> SharedSegment:
    """Receive a segment with slots of `slot_bytes`. Raises KVTransferError if it is none."""
    data, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
    try:
        if not data or len(descriptors) != 1:
            raise KVTransferError("no shared memory came")
        sealed = fcntl.fcntl(descriptors[0], fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
        if not sealed or os.fstat(descriptors[0]).st_size != SLOTS * slot_bytes:
            raise KVTransferError("shared memory that could shrink, or of another size")
        return SharedSegment(descriptors[0], slot_bytes)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def is_same_user(connection: socket.socket) -> bool:
    """True if a process of this user is at the other end of the Unix socket `connection`."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return bool(_PEER.unpack(peer)[1] == os.getuid())


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
        """Do nothing for `header`: the buffer is the reader's own."""


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
