"""Header blocks, by the examples of RFC 7541 and by what encoders may do to a decoder."""

import random

import pytest

from radixway.core.http2 import HpackError, encode_headers
from radixway.core.http2.hpack import STATIC_TABLE, HeaderDecoder, _decode_short, decode_huffman

FIRST = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"www.example.com")]


@pytest.mark.parametrize(
    ("coded", "text"),
    [
        ("f1e3c2e5f23a6ba0ab90f4ff", b"www.example.com"),
        ("a8eb10649cbf", b"no-cache"),
        ("25a849e95ba97d7f", b"custom-key"),
        ("25a849e95bb8e8b4bf", b"custom-value"),
        ("aec3771a4b", b"private"),
        ("d07abe941054d444a8200595040b8166e082a62d1bff", b"Mon, 21 Oct 2013 20:13:21 GMT"),
        ("9d29ad171863c78f0b97c8e9ae82ae43d3", b"https://www.example.com"),
        ("", b""),
    ],
)
def test_texts_of_the_rfc_are_read(coded, text):
    assert decode_huffman(bytes.fromhex(coded)) == text


@pytest.mark.parametrize(
    "coded", ["f1e3c2e5f23a6ba0ab90f4fe", "ff", "ffffffff", "f1e3c2e5f23a6ba0ab90f4ffff"]
)
def test_padding_that_is_none_is_refused(coded):
    with pytest.raises(HpackError):
        decode_huffman(bytes.fromhex(coded))


def test_the_requests_of_the_rfc_are_read_with_their_table():
    """Appendix C.4: three requests of one connection, each of which uses the entries of those before."""
    decoder = HeaderDecoder()
    assert decoder.decode_block(bytes.fromhex("828684418cf1e3c2e5f23a6ba0ab90f4ff")) == FIRST
    second = decoder.decode_block(bytes.fromhex("828684be5886a8eb10649cbf"))
    assert second == [*FIRST, (b"cache-control", b"no-cache")]
    third = decoder.decode_block(bytes.fromhex("828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf"))
    assert third[-1] == (b"custom-key", b"custom-value") and third[2] == (b":path", b"/index.html")


def test_a_block_that_comes_again_means_what_the_table_says_by_then():
    decoder = HeaderDecoder()
    decoder.decode_block(b"\x40\x01a\x01b")
    newest = b"\xbe"
    assert decoder.decode_block(newest) == decoder.decode_block(newest) == [(b"a", b"b")]
    decoder.decode_block(b"\x40\x01c\x01d")
    assert decoder.decode_block(newest) == [(b"c", b"d")]
    decoder.decode_block(b"\x20" + b"\x3f\xe1\x1f")  # no table, then one of the same size again
    with pytest.raises(HpackError, match="no entry 62"):
        decoder.decode_block(newest)


def test_the_table_keeps_the_newest_entries_that_fit():
    decoder = HeaderDecoder(max_table_bytes=3 * 34)
    for name in (b"a", b"b", b"c", b"d"):
        decoder.decode_block(b"\x40\x01" + name + b"\x011")
    assert decoder.decode_block(b"\xbe\xbf\xc0") == [(b"d", b"1"), (b"c", b"1"), (b"b", b"1")]
    with pytest.raises(HpackError, match="no entry 65"):
        decoder.decode_block(b"\xc1")
    decoder.decode_block(b"\x40\x01e\x7f\x00" + b"x" * 127)  # larger than the table: it empties it
    with pytest.raises(HpackError, match="no entry 62"):
        decoder.decode_block(b"\xbe")


@pytest.mark.parametrize(
    "block",
    [
        b"\x80",  # entry 0
        b"\xff\xff\xff\xff\xff\xff\x01",  # a number beyond all bounds
        b"\x40\x05abc",  # a name without its end
        b"\x40\x01a",  # no value
        b"\x82\x20",  # a table's size after a header
        b"\x3f\xe1\x7f",  # a table larger than allowed
        b"\x7f",
    ],
)
def test_blocks_that_cannot_be_are_refused(block):
    with pytest.raises(HpackError):
        HeaderDecoder().decode_block(block)


def test_a_small_block_cannot_stand_for_large_headers():
    decoder = HeaderDecoder(max_list_bytes=10_000)
    decoder.decode_block(encode_headers([]) + b"\x40\x01a\x7f\x81\x07" + b"x" * 1024)
    with pytest.raises(HpackError, match="more than 10000"):
        decoder.decode_block(b"\xbe" * 10)


def test_what_is_encoded_is_decoded_whatever_its_size():
    headers = [(b"name" * size, b"v" * size) for size in (1, 31, 32, 126, 127, 128, 255, 300)]
    assert HeaderDecoder().decode_block(encode_headers(headers)) == headers


def test_bytes_at_random_are_headers_or_an_error():
    rng = random.Random(7)
    for _ in range(3000):
        decoder = HeaderDecoder()
        try:
            for _ in range(3):
                decoder.decode_block(rng.randbytes(rng.randrange(40)))
        except HpackError:
            pass
    assert len(STATIC_TABLE) == 61


def test_long_blocks_and_texts_are_not_remembered():
    decoder = HeaderDecoder()
    decode_huffman(b"\x07")
    known = _decode_short.cache_info().currsize
    for size in (2_000, 3_000):
        assert decoder.decode_block(encode_headers([(b"x", bytes(size))])) == [(b"x", bytes(size))]
        assert decode_huffman(bytes(size)) == b"0" * (size * 8 // 5)
    assert not decoder._decoded and _decode_short.cache_info().currsize == known > 0
