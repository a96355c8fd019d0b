"""Where a body ends: requests that two servers could read differently are refused, on every path."""

from __future__ import annotations

import pytest

from support.raw_cases import (
    BODY,
    CHUNKED,
    COLD,
    HEAD,
    HOT,
    LENGTH,
    REFUSED,
    REST,
    SERVED,
    SERVED_LAST,
    Cases,
    check_case,
)

SMUGGLED = b"POST <path> HTTP/1.1\r\nhost: smuggled\r\n" + REST


def encoded(value: bytes) -> bytes:
    """A body in chunks under this `Transfer-Encoding`."""
    return HEAD + b"transfer-encoding: " + value + b"\r\n\r\n<chunks>"


def measured(value: bytes) -> bytes:
    """A body under this `Content-Length`."""
    return HEAD + b"content-length: " + value + b"\r\n\r\n<body>"


def two_encodings(first: bytes, second: bytes) -> bytes:
    return encoded(first + b"\r\ntransfer-encoding: " + second)


OLD = b"<line> HTTP/1.0\r\nhost: a\r\n"
ENCODINGS = {
    "unknown": b"xchunked",
    "unknown, longer": b"chunkedx",
    "identity": b"identity",
    "gzip": b"gzip",
    "empty": b"",
    "chunked before identity": b"chunked, identity",
    "chunked after identity": b"identity, chunked",
    "chunked after gzip": b"gzip, chunked",
    "chunked after gzip and a tab": b"gzip ,\tchunked",
    "chunked twice": b"chunked, chunked",
    "parameter": b"chunked;q=1",
    "quoted": b'"chunked"',
    "vertical tab": b"\x0bchunked",
    "NUL in front": b"\0chunked",
    "NUL behind": b"chunked\0",
    "comma behind": b"chunked,",
    "non-ASCII": b"chunke\xc4\x91",
    "space within": b"chun ked",
    "bare CR in front": b"\rchunked",
    "bare CR behind": b"chunked\r",
    "tab behind": b"chunked\t",
}
"""Values of `Transfer-Encoding` that tell nobody where the body ends."""
CHUNKED_LAST = {
    "chunked": b"chunked",
    "capitals": b"CHUNKED",
    "two spaces in front": b" chunked",
    "tab in front": b"\tchunked",
    "space behind": b"chunked ",
    "comma in front": b",chunked",
}
"""Values under which the body is in chunks."""
LENGTHS = {
    "list of two equal": b"<length>, <length>",
    "list": b"<length>, 5",
    "plus": b"+<length>",
    "minus": b"-1",
    "hexadecimal": b"0x<size>",
    "fraction": b"<length>.0",
    "exponent": b"1e1",
    "underscore": b"6_6",
    "letters": b"x",
    "empty": b"",
    "semicolon": b"<length>;",
    "NUL": b"<length>\0",
    "space within": b"6 6",
    "other digits": "６６".encode(),
    "2^64": b"%d" % 2**64,
    "2^64 + length": b"%d" % (2**64 + len(BODY)),
    "many digits": b"9" * 400,
    "bare CR": b"<length>\r",
}
CASES: Cases = {
    "length": (SERVED, HEAD + REST),
    "length with zeros": (SERVED, measured(b"000<length>")),
    "length with spaces": (SERVED, measured(b"  <length>  ")),
    "length with tabs": (SERVED, measured(b"\t<length>\t")),
    "length of HTTP/1.0": (SERVED_LAST, OLD + REST),
    "chunks of HTTP/1.0": (SERVED_LAST, OLD + CHUNKED + b"\r\n<chunks>"),
    "encoding with an underscore": (SERVED, HEAD + b"transfer_encoding: chunked\r\n" + REST),
    "two requests": (SERVED_LAST, HEAD + b"connection: close\r\n" + REST + SMUGGLED),
    "length and chunks": (REFUSED, HEAD + LENGTH + CHUNKED + b"\r\n<chunks>"),
    "chunks and length": (REFUSED, HEAD + CHUNKED + LENGTH + b"\r\n<chunks>"),
    "chunks and a length that ends in them": (
        REFUSED,
        HEAD + CHUNKED + b"content-length: 4\r\n\r\n<chunks>" + SMUGGLED,
    ),
    "a length of 0 and chunks": (REFUSED, HEAD + b"content-length: 0\r\n" + CHUNKED + b"\r\n<chunks>"),
    "two equal lengths": (REFUSED, HEAD + LENGTH + REST),
    "two lengths, the small one first": (REFUSED, HEAD + b"content-length: 1\r\n" + REST),
    "two lengths, the large one first": (REFUSED, HEAD + LENGTH + b"content-length: 1\r\n\r\n<body>"),
    "chunked and identity": (REFUSED, two_encodings(b"chunked", b"identity")),
    "identity and chunked": (REFUSED, two_encodings(b"identity", b"chunked")),
    "chunked and chunked": (REFUSED, two_encodings(b"chunked", b"chunked")),
    "chunked and gzip": (REFUSED, two_encodings(b"chunked", b"gzip")),
    "gzip and chunked": (REFUSED, two_encodings(b"gzip", b"chunked")),
    **{
        f"encoding, {name} before the colon": (
            REFUSED,
            HEAD + LENGTH + b"transfer-encoding" + sign + b": chunked\r\n\r\n<chunks>",
        )
        for name, sign in {"space": b" ", "tab": b"\t", "vertical tab": b"\x0b", "NUL": b"\0"}.items()
    },
    **{
        f"length, {name} before the colon": (
            REFUSED,
            HEAD + b"content-length" + sign + b": <length>\r\n\r\n<body>",
        )
        for name, sign in {"space": b" ", "tab": b"\t"}.items()
    },
    "encoding, folded": (REFUSED, encoded(b"\r\n chunked")),
    "encoding in a folded line": (REFUSED, HEAD + b"x: y\r\n transfer-encoding: chunked\r\n" + REST),
    "encoding behind a bare LF": (REFUSED, HEAD + b"x: y\ntransfer-encoding: chunked\r\n" + REST),
    "encoding behind a bare CR": (REFUSED, HEAD + b"x: y\rtransfer-encoding: chunked\r\n" + REST),
    "length, folded": (REFUSED, measured(b"\r\n <length>")),
    "length, folded digits": (REFUSED, measured(b"6\r\n 6")),
    **{f"encoding {name}": (REFUSED, encoded(value)) for name, value in ENCODINGS.items()},
    **{
        f"length, encoding {name}": (
            REFUSED,
            HEAD + LENGTH + b"transfer-encoding: " + value + b"\r\n\r\n<body>",
        )
        for name, value in (ENCODINGS | CHUNKED_LAST).items()
    },
    **{f"chunks, {name}": (SERVED, encoded(value)) for name, value in CHUNKED_LAST.items()},
    **{f"length {name}": (REFUSED, measured(value)) for name, value in LENGTHS.items()},
}


@pytest.mark.parametrize("path", [HOT, COLD])
@pytest.mark.parametrize("name", CASES)
def test_where_a_body_ends_is_clear_or_the_request_refused(servers, name, path):
    check_case(servers, path, CASES[name])
