"""Packs tokens into keys of the radix tree.

A stride is six bytes, the token's id and its kind, little-endian::

    | id, 4 bytes | variant, 14 bits | inside, 1 bit | chunk, 1 bit |

variant  0, or a number that tells apart tokens of one id with different records: an answer sampled twice.
inside   no text is known to end behind this token: it stands in a run whose tokens cannot be decoded singly.
chunk    no token at all but 32 bytes of text, and `id` their checksum. Such a run's text comes before its
         tokens, in chunks, so that it can be found, and shared up to a chunk, like any other.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from zlib import crc32

STRIDE = 6
CHUNK = 32
"""Bytes of text in a chunk; the last one of a run may have fewer."""
MAX_VARIANTS = 2**14

_INSIDE, _CHUNK = 0x40, 0x80


def to_token_ids(ids: Sequence[int]) -> array[int]:
    """Convert `ids` to unsigned 32-bit numbers. Raises ValueError for what is no token id."""
    if isinstance(ids, array) and ids.typecode == "I":
        return ids
    try:
        return array("I", ids)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"not token ids: {error}") from None


def pack_tokens(ids: array[int]) -> bytes:
    """Pack `ids`, tokens whose text is known one by one, into strides."""
    raw = ids.tobytes()
    key = bytearray(len(ids) * STRIDE)
    for place in range(4):
        key[place::STRIDE] = raw[place::4]
    return bytes(key)


def pack_indivisible(ids: array[int], text: bytes) -> bytes:
    """Strides of tokens of which only the whole text is known: the text in chunks, then the tokens."""
    sums = array("I", [crc32(text[at : at + CHUNK]) for at in range(0, len(text), CHUNK)])
    chunks, tokens = bytearray(pack_tokens(sums)), bytearray(pack_tokens(ids))
    chunks[STRIDE - 1 :: STRIDE] = bytes([_CHUNK]) * len(sums)
    tokens[STRIDE - 1 : -1 : STRIDE] = bytes([_INSIDE]) * (len(ids) - 1)
    return bytes(chunks + tokens)


def unpack_tokens(key: bytes) -> bytes:
    """The token ids of a key without chunks, as unsigned 32-bit numbers."""
    raw = bytearray(len(key) // STRIDE * 4)
    for place in range(4):
        raw[place::4] = key[place::STRIDE]
    return bytes(raw)


def chunk_stride(text: bytes) -> bytes:
    """The stride of the chunk `text`."""
    return crc32(text).to_bytes(4, "little") + bytes([0, _CHUNK])


def is_chunk(key: bytes, at: int) -> bool:
    """Is the stride number `at` a chunk of text?"""
    return key[at * STRIDE + STRIDE - 1] >= _CHUNK


def is_boundary(key: bytes, at: int) -> bool:
    """Does a token end behind the first `at` strides whose text is known?"""
    return key[at * STRIDE - 1] < _INSIDE


def variant_stride(stride: bytes, number: int) -> bytes:
    """Variant `number` of a stride."""
    return stride[:4] + bytes([number & 0xFF, stride[5] | number >> 8])
