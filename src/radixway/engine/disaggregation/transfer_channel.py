"""One connection between two engines: whole frames within a time limit, or KVTransferError."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType

from radixway.engine.disaggregation.transfer_protocol import (
    HEADER_BYTES,
    KV,
    MESSAGE,
    Buffer,
    FrameHeader,
    KVTransferError,
    TransferFailure,
    TransferMessage,
    decode_message,
    encode,
)

_MAX_REASON_CHARACTERS = 200


class TransferChannel:
    """A connected socket, closed at the end of a `with`. `shut_socket` may be called from any thread."""

    def __init__(self, connection: socket.socket, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        """For one frame, from its first byte waited for to its last."""
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
            left_s = _TimeLeft(time.monotonic() + self.timeout_s)
            views = [memoryview(part).cast("B") for part in parts]
            while views:
                self._socket.settimeout(left_s())
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
            left_s = _TimeLeft(time.monotonic() + self.timeout_s)
            while view:
                self._socket.settimeout(left_s())
                count = self._socket.recv_into(view)
                if not count:
                    raise KVTransferError("the other side left")
                view = view[count:]

    def wait_until_closed(self) -> None:
        """Wait until the other side closes, which would otherwise miss what it has not read yet."""
        with _as_transfer_error():
            left_s = _TimeLeft(time.monotonic() + self.timeout_s)
            self._socket.settimeout(left_s())
            while self._socket.recv(1024):
                self._socket.settimeout(left_s())


def _to_one_line(reason: str) -> str:
    """For the log and the counts: what others say is cut and has nothing in it that ends a line."""
    return "".join(each if each.isprintable() else " " for each in reason[:_MAX_REASON_CHARACTERS])


class _TimeLeft:
    """Seconds until a deadline; raises TimeoutError when it has passed."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline

    def __call__(self) -> float:
        left_s = self._deadline - time.monotonic()
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
