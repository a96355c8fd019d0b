"""A head is bounded while it is parsed, not after."""

import httptools
import pytest

from radixway.core.http import HeadLimit
from radixway.core.http.head_limit import HeadTooLargeError

PIECE = b"x" * 100


class Reader:
    """A parser's callbacks with a limit of 1,000 bytes and eight headers."""

    def __init__(self):
        self.limit = HeadLimit(1000, 8)
        self.parser = httptools.HttpRequestParser(self)
        self.headers = []
        self.body_bytes = 0
        self.messages = 0

    def feed(self, data):
        self.limit.feed_parser(self.parser, data)

    def on_message_begin(self):
        self.limit.begin_message()

    def on_header(self, name, value):
        self.limit.add_header(name, value)
        self.headers.append((name, value))

    def on_headers_complete(self):
        self.limit.mark_progress()

    def on_body(self, body):
        self.limit.mark_progress()
        self.body_bytes += len(body)

    def on_message_complete(self):
        self.limit.mark_progress()
        self.messages += 1


def feed_until_refused(reader, piece, most=100):
    """How many pieces it took."""
    for count in range(1, most + 1):
        try:
            reader.feed(piece)
        except httptools.HttpParserError:
            return count
    raise AssertionError(f"{most} pieces were taken")


def test_a_value_without_an_end_is_refused_once_it_is_over_the_limit():
    reader = Reader()
    reader.feed(b"GET / HTTP/1.1\r\nhost: a\r\nlong: ")
    assert feed_until_refused(reader, PIECE) == 10
    assert "1000 bytes" in str(reader.limit.error)
    assert len(reader.headers) == 1


def test_a_url_without_an_end_is_refused():
    reader = Reader()
    reader.feed(b"GET /")
    assert feed_until_refused(reader, PIECE) == 10


def test_empty_lines_before_a_request_are_bounded():
    assert feed_until_refused(Reader(), b"\r\n" * 50) == 11


def test_many_headers_are_refused_within_one_piece():
    reader = Reader()
    with pytest.raises(httptools.HttpParserError):
        reader.feed(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20 + b"\r\n")
    assert "8 headers" in str(reader.limit.error)
    assert len(reader.headers) == 8


def test_large_headers_are_refused_within_one_piece():
    reader = Reader()
    with pytest.raises(httptools.HttpParserError):
        reader.feed(b"GET / HTTP/1.1\r\n" + b"a: %b\r\n" % (b"x" * 600) * 2 + b"\r\n")
    assert len(reader.headers) == 1


def test_a_body_of_any_size_is_no_head():
    reader = Reader()
    reader.feed(b"POST / HTTP/1.1\r\ncontent-length: 100000\r\n\r\n")
    for _ in range(1000):
        reader.feed(PIECE)
    assert (reader.body_bytes, reader.messages) == (100_000, 1)


def test_many_requests_on_a_connection_are_counted_each_for_itself():
    reader = Reader()
    for _ in range(100):
        reader.feed(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 7 + b"\r\n")
    assert reader.messages == 100


CHUNKED = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"


def test_trailers_are_bounded():
    reader = Reader()
    reader.feed(CHUNKED + b"1\r\nx\r\n0\r\n")
    with pytest.raises(httptools.HttpParserError):
        reader.feed(b"a: b\r\n" * 20)
    reader = Reader()
    reader.feed(CHUNKED + b"1\r\nx\r\n0\r\ntrailer: ")
    assert feed_until_refused(reader, PIECE) <= 11


def test_a_chunks_extension_is_bounded():
    reader = Reader()
    reader.feed(CHUNKED + b"1;extension=")
    with pytest.raises(HeadTooLargeError):
        for _ in range(11):
            reader.feed(PIECE)


class LateReader(Reader):
    """Judges a head when it is whole."""

    def on_message_begin(self):
        super().on_message_begin()
        self.headers = []

    def on_header(self, name, value):
        self.headers.append((name, value))

    def on_headers_complete(self):
        self.limit.end_head(b"/", self.headers)


@pytest.mark.parametrize("second", [b"a: b\r\n" * 20, b"a: %b\r\n" % (b"x" * 1200)])
def test_each_of_two_heads_in_one_piece_is_bounded_when_it_is_whole(second):
    reader = LateReader()
    first = b"GET / HTTP/1.1\r\na: b\r\n\r\n"
    reader.feed(first * 200)
    assert reader.messages == 200
    with pytest.raises(httptools.HttpParserError):
        reader.feed(first + b"GET / HTTP/1.1\r\n%b\r\n" % second)
    assert (reader.messages, reader.limit.error is None) == (201, False)
