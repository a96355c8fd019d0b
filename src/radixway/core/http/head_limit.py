"""Bounds on the heads of HTTP messages while they are parsed, for servers and clients alike."""

from collections.abc import Sequence

import httptools

_AROUND_HEADER = 4
"""Bytes of a header line beside name and value: colon, space, line end."""


class HeadTooLargeError(httptools.HttpParserError):
    """A head has more bytes or more headers than allowed; the message says which."""


class HeadLimit:
    """Bounds the heads of the messages that come over one connection, trailers and chunk extensions too.

    httptools keeps a header's value until it is complete, so that counting in `on_header` alone would come
    too late for a value without an end. Its owner gives the parser its bytes through `feed`, and calls
    the rest from the parser's callbacks:

        on_message_begin      begin_message()
        on_url                add_bytes(len(url))
        on_header             add_header(name, value)
        on_headers_complete   mark_progress()
        on_body               mark_progress(), or `unfinished_bytes = 0`: a call less for each chunk
        on_message_complete   mark_progress()

    A server that keeps headers in a list may leave out `add_bytes` and `add_header`, and call `end_head` in
    `on_headers_complete`: a call for each header is a tenth of what a small request costs it.

    What is kept of a head is thus at most `max_bytes`, and what one piece read from the socket brings.
    """

    __slots__ = ("_bytes", "_count", "_max_bytes", "_max_count", "_piece_bytes", "error", "unfinished_bytes")

    def __init__(self, max_bytes: int, max_count: int) -> None:
        self._max_bytes = max_bytes
        self._max_count = max_count
        self._bytes = 0
        self._count = 0
        self.unfinished_bytes = 0
        """Bytes fed since the parser has last got on."""
        self._piece_bytes = 0
        self.error: HeadTooLargeError | None = None
        """The raised error: httptools replaces what a callback raises."""

    def feed_parser(
        self, parser: httptools.HttpRequestParser | httptools.HttpResponseParser, data: bytes
    ) -> None:
        """Give `parser` the next piece. Raises what it raises; HeadTooLargeError."""
        self._piece_bytes = size = len(data)
        self.unfinished_bytes += size
        parser.feed_data(data)
        if self.unfinished_bytes > self._max_bytes:
            self._raise_too_large(f"a head has more than the {self._max_bytes} bytes allowed")

    def begin_message(self) -> None:
        """A message begins, with nothing of its head known."""
        self._bytes = self._count = 0

    def add_header(self, name: bytes, value: bytes) -> None:
        """Count the bytes of `name` and `value`, of a header or trailer. Raises HeadTooLargeError."""
        self._count += 1
        if self._count > self._max_count:
            self._raise_too_large(f"a head has more than the {self._max_count} headers allowed")
        self.add_bytes(len(name) + len(value) + _AROUND_HEADER)

    def add_bytes(self, size: int) -> None:
        """Count `size` bytes of a head. Raises HeadTooLargeError."""
        self._bytes += size
        if self._bytes > self._max_bytes:
            self._raise_too_large(f"a head has more than the {self._max_bytes} bytes allowed")

    def end_head(self, line: bytes, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """A head has come, with `line` and these `headers`. Raises HeadTooLargeError."""
        if max(self.unfinished_bytes, self._piece_bytes) > self._max_bytes:  # else it cannot be too large
            self.add_bytes(len(line))
            for name, value in headers:
                self.add_header(name, value)
        elif len(headers) > self._max_count:
            self._raise_too_large(f"a head has more than the {self._max_count} headers allowed")
        self.unfinished_bytes = 0

    def mark_progress(self) -> None:
        """The parser has got through a head, or something of a body: what it was fed is not kept there."""
        self.unfinished_bytes = 0

    def _raise_too_large(self, reason: str) -> None:
        self.error = HeadTooLargeError(reason)
        raise self.error
