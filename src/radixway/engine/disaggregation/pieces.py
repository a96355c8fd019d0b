"""How KV of one layer and some tokens crosses: in the stream of a socket, or in slots of shared memory.

In shared memory the header alone goes through the socket, and when the receiver is through with a slot it
sends a byte back with its number. Either way a receiver that is slow makes the sender wait, and nobody else.
"""

from typing import Protocol

from radixway.engine.disaggregation.channel import Channel
from radixway.engine.disaggregation.shared_memory import SLOTS, Segment
from radixway.engine.disaggregation.wire import IN_STREAM, KV, Header, TransferFailed

PIECE_BYTES = 2**20
"""Most of one piece: small enough for the checksum to find it in the processor's cache."""


class Outlet(Protocol):
    """Where the sender puts pieces."""

    def room(self) -> memoryview:
        """Where the next piece is to be written: `PIECE_BYTES`. Waits for the receiver if need be."""

    def send(self, layer: int, first: int, count: int, size: int) -> None:
        """The first `size` bytes of that are KV of tokens [first, first + count) in `layer`."""


class Inlet(Protocol):
    """Where the receiver gets pieces."""

    def take(self, header: Header) -> memoryview:
        """The payload. Raises TransferFailed if it is not what was sent."""

    def give_back(self, header: Header) -> None:
        """It has been read."""


class StreamOutlet:
    """Through the socket."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._buffer = memoryview(b"")

    def room(self) -> memoryview:
        """See `Outlet`: free again as soon as `send` returns."""
        if not self._buffer:  # those who only connect are given no memory
            self._buffer = memoryview(bytearray(PIECE_BYTES))
        return self._buffer

    def send(self, layer: int, first: int, count: int, size: int) -> None:
        """See `Outlet`."""
        payload = self._buffer[:size]
        header = Header(KV, size, IN_STREAM, layer, first, count)
        self._channel.send(header.pack(payload), payload)


class StreamInlet:
    """Through the socket."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._buffer = memoryview(bytearray(PIECE_BYTES))

    def take(self, header: Header) -> memoryview:
        """See `Inlet`."""
        if header.slot != IN_STREAM or header.size > PIECE_BYTES:
            raise TransferFailed("a piece that was not agreed on")
        payload = self._buffer[: header.size]
        self._channel.fill(payload)
        header.verify(payload)
        return payload

    def give_back(self, header: Header) -> None:
        """See `Inlet`."""


class SegmentOutlet:
    """Through shared memory."""

    def __init__(self, channel: Channel, segment: Segment) -> None:
        self._channel = channel
        self._segment = segment
        self._free = list(range(SLOTS))

    def room(self) -> memoryview:
        """See `Outlet`."""
        if not self._free:
            number = bytearray(1)
            self._channel.fill(memoryview(number))
            if number[0] >= SLOTS:
                raise TransferFailed("a slot that does not exist was given back")
            self._free.append(number[0])
        return self._segment.slot(self._free[-1])

    def send(self, layer: int, first: int, count: int, size: int) -> None:
        """See `Outlet`."""
        slot = self._free.pop()
        header = Header(KV, size, slot, layer, first, count)
        self._channel.send(header.pack(self._segment.slot(slot)[:size]))


class SegmentInlet:
    """Through shared memory."""

    def __init__(self, channel: Channel, segment: Segment) -> None:
        self._channel = channel
        self._segment = segment

    def take(self, header: Header) -> memoryview:
        """See `Inlet`."""
        if header.size > self._segment.slot_bytes:
            raise TransferFailed("a piece larger than its slot")
        payload = self._segment.slot(header.slot)[: header.size]
        header.verify(payload)
        return payload

    def give_back(self, header: Header) -> None:
        """See `Inlet`."""
        self._channel.send(bytes([header.slot]))
