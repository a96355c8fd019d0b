"""One connection between two engines: whole frames within a time limit, or TransferFailed."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType

from radixway.engine.disaggregation.wire import (
    HEADER_BYTES,
    KV,
    MESSAGE,
    Buffer,
    Failed,
    Header,
    Message,
    TransferFailed,
    decode,
    encode,
)

_LONGEST_REASON = 200


class Channel:
    """A connected socket, closed at the end of a `with`. `cut` may be called from any thread."""

    def __init__(self, connection: socket.socket, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        """For one frame, from its first byte waited for to its last."""
        self._socket = connection

    def __enter__(self) -> "Channel":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def cut(self) -> None:
        """Have whoever waits in here meet the end of the connection."""
        with suppress(OSError):  # it may be over already
            self._socket.shutdown(socket.SHUT_RDWR)

    def say(self, message: Message) -> None:
        """Send a message."""
        payload = encode(message)
        self.send(Header(MESSAGE, len(payload)).pack(payload), payload)

    def send(self, *parts: Buffer) -> None:
        """Send all of this."""
        with _in_words():
            left_s = _Left(time.monotonic() + self.timeout_s)
            views = [memoryview(part).cast("B") for part in parts]
            while views:
                self._socket.settimeout(left_s())
                sent = self._socket.sendmsg(views)
                while views and sent >= len(views[0]):
                    sent -= len(views.pop(0))
                if views:
                    views[0] = views[0][sent:]

    def header(self) -> Header:
        """The next frame's, whose payload must be read next if it is in the stream."""
        data = bytearray(HEADER_BYTES)
        self.fill(memoryview(data))
        return Header.unpack(bytes(data))

    def hear(self) -> Message:
        """The next frame, which has to be a message."""
        header = self.header()
        if header.kind == KV:
            raise TransferFailed("KV where a message was due")
        return self.message(header)

    def message(self, header: Header) -> Message:
        """The message of a header that has been read. Raises TransferFailed for `Failed`, as it says."""
        payload = bytearray(header.size)
        self.fill(memoryview(payload))
        header.verify(payload)
        message = decode(payload)
        if isinstance(message, Failed):
            raise TransferFailed(_one_line(message.reason))
        return message

    def fill(self, view: memoryview) -> None:
        """Read as many bytes as `view` has."""
        with _in_words():
            left_s = _Left(time.monotonic() + self.timeout_s)
            while view:
                self._socket.settimeout(left_s())
                count = self._socket.recv_into(view)
                if not count:
                    raise TransferFailed("the other side left")
                view = view[count:]

    def until_closed(self) -> None:
        """Wait for the other side to be through, for it would miss what it has not read yet."""
        with _in_words():
            left_s = _Left(time.monotonic() + self.timeout_s)
            self._socket.settimeout(left_s())
            while self._socket.recv(1024):
                self._socket.settimeout(left_s())


def _one_line(reason: str) -> str:
    """For the log and the counts: what others say is cut and has nothing in it that ends a line."""
    return "".join(each if each.isprintable() else " " for each in reason[:_LONGEST_REASON])


class _Left:
    """Seconds until a deadline; raises TimeoutError when it has passed."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline

    def __call__(self) -> float:
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        return left_s


@contextmanager
def _in_words() -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        raise TransferFailed("the other side is too slow") from None
    except OSError as error:
        raise TransferFailed(error.strerror or "the connection broke") from None
