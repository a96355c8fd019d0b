"""A stream of HTTP/2, one request and the reply to it, with its windows; and whom it deals with."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from radixway.core.http2.frames import END_HEADERS, END_STREAM, ErrorCode, FrameKind, encode_frame
from radixway.core.http2.hpack import Header
from radixway.core.http2.peer_limits import MAX_WAITING_MESSAGES


class StreamHandler(Protocol):
    """What a stream's owner hears. It may send from within each; an exception ends the stream alone."""

    def on_data(self, data: bytes) -> None:
        """Take the next piece of the request's body."""

    def on_end(self) -> None:
        """The peer has sent all of its request."""

    def on_reset(self) -> None:
        """The peer has left, or the connection is gone; what is sent from now on is dropped."""


class StreamConnection(Protocol):
    """What a stream and the server of a connection need of it."""

    def take_window(self, stream: Http2Stream, size: int) -> bool:
        """Take `size` bytes of all windows for one frame of `stream`; return whether they had them."""

    def take_part(self, stream: Http2Stream, size: int) -> int:
        """Take as much of `size` bytes as there is room for in one frame of `stream`, and return it."""

    def wait_for_window(self, stream: Http2Stream) -> None:
        """Have `stream` go on once windows have room again."""

    def forget_stream(self, stream: Http2Stream) -> None:
        """Forget `stream`, whose reply is whole."""

    def fail_stream(self, stream: Http2Stream, code: ErrorCode) -> None:
        """End `stream` alone, with `code`; its handler is told."""

    def write(self, frames: bytes) -> None:
        """Send `frames` with all others of this turn of the loop."""

    def start_draining(self) -> None:
        """Take no new streams, and close after the last one."""

    def abort(self) -> None:
        """Close at once."""


class ConnectionOwner(Protocol):
    """The server of a connection."""

    def on_connected(self, connection: StreamConnection) -> None:
        """`connection` is there."""

    def on_disconnected(self, connection: StreamConnection) -> None:
        """`connection` is gone."""

    def open_stream(self, stream: Http2Stream, headers: list[Header]) -> StreamHandler:
        """Return the handler of a new `stream`, by the `headers` of its request; they stay as they are."""


class Http2Stream:
    """One request of a connection, and the reply to it."""

    __slots__ = (
        "_connection",
        "_pending",
        "_trailers",
        "handler",
        "has_ended",
        "id",
        "is_open",
        "is_unanswered",
        "opened_at_s",
        "ungranted",
        "window",
    )

    def __init__(self, connection: StreamConnection, stream_id: int, window: int, opened_at_s: float) -> None:
        self._connection = connection
        self.id = stream_id
        self.opened_at_s = opened_at_s
        self.is_unanswered = True
        """Nothing was sent since the peer last sent something."""
        self.is_open = True
        """What is sent reaches the peer."""
        self.window = window
        """Bytes that the peer takes of this stream."""
        self.ungranted = 0
        """Received bytes that the peer was not granted again."""
        self.has_ended = False
        """The peer has sent all."""
        self.handler: StreamHandler | None = None
        self._pending: deque[memoryview] = deque()
        """Data that waits for a window."""
        self._trailers: bytes | None = None

    def send_headers(self, block: bytes) -> None:
        """Send the head of the reply, encoded; it fits into a frame."""
        if self.is_open:
            self._connection.write(encode_frame(FrameKind.HEADERS, END_HEADERS, self.id, block))

    def send_data(self, data: bytes) -> None:
        """Send `data`, as soon as windows have room for it."""
        if not data or not self.is_open:
            return
        self.is_unanswered = False
        if not self._pending and self._connection.take_window(self, len(data)):
            self._connection.write(encode_frame(FrameKind.DATA, 0, self.id, data))
        elif len(self._pending) >= MAX_WAITING_MESSAGES:
            self._connection.fail_stream(self, ErrorCode.ENHANCE_YOUR_CALM)
        else:
            self._pending.append(memoryview(data))  # parts of it are no copies
            self.send_pending()

    def finish(self, block: bytes) -> None:
        """End the reply with trailers, after all data; what is still to come of the request is dropped."""
        if self.is_open:
            self.is_open = False
            self._trailers = block
            self.send_pending()

    def send_pending(self) -> None:
        """Send what the windows take; the rest waits for them."""
        pending, connection = self._pending, self._connection
        while pending:
            data = pending.popleft()
            part = connection.take_part(self, len(data))
            if part < len(data):
                pending.appendleft(data[part:])
            if not part:
                connection.wait_for_window(self)
                return
            connection.write(encode_frame(FrameKind.DATA, 0, self.id, data[:part]))
        if self._trailers is not None:
            connection.write(
                encode_frame(FrameKind.HEADERS, END_HEADERS | END_STREAM, self.id, self._trailers)
            )
            if not self.has_ended:
                connection.write(encode_frame(FrameKind.RST_STREAM, 0, self.id, bytes(4)))
            connection.forget_stream(self)
