"""An edge of the tree: its key, and its payload of text, widths and records.

A key is tokens packed into strides. A stride is six bytes, the token's id and its kind, little-endian::

    | id, 4 bytes | variant, 14 bits | inside, 1 bit | chunk, 1 bit |

variant  0, or a number that tells apart tokens of one id with different records: an answer sampled twice.
inside   no text is known to end behind this token: it stands in a run whose tokens cannot be decoded singly.
chunk    no token at all but 32 bytes of text, and `id` their checksum. Such a run's text comes before its
         tokens, in chunks, so that it can be found, and shared up to a chunk, like any other.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from operator import lt
from typing import Self
from zlib import crc32

from radixway.trajectories.token_records import Spans, TokenLabel, Version, cut_spans

STRIDE = 6
CHUNK = 32
"""Bytes of text in a chunk; the last one of a run may have fewer."""
MAX_VARIANTS = 2**14

_INSIDE, _CHUNK = 0x40, 0x80
_SEARCHED_AT_ONCE = 32
"""Tokens unpacked for a search: most end after a few."""


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


def last_token_in(key: bytes, begin: int, end: int, wanted: frozenset[int]) -> int:
    """Return the stride after the last token of [begin, end) that is one of `wanted`; 0 without one."""
    while begin < end:
        low = max(begin, end - _SEARCHED_AT_ONCE)
        ids = array("I", unpack_tokens(key[low * STRIDE : end * STRIDE]))
        for at in range(end, low, -1):
            if ids[at - low - 1] in wanted:
                return at
        end = low
    return 0


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


_PER_STRIDE = 6 + 1 + 4
"""Bytes of key, width and log-probability."""
_PER_SPAN = 4 + 8
"""Bytes of each further label: its end and a reference."""
_SLACK = 6
"""Growing edges leave one byte in this many idle, measured on the resident set."""
PER_NODE = 850
"""Overhead in bytes of a node, its run and their containers; measured."""


SEVERAL = object()
"""More sessions than one."""


@dataclass(slots=True)
class TokenRun:
    """Per stride, in order: `widths` one byte each, `logprobs` four (float32).

    key        | The | ▁cat | ▁sa | t |        strides
    widths       3     4      3     1
    text       "The▁cat▁sat"                   bytes, UTF-8
    spans      prompt ──────┤ sampled v7 ─┤
    """

    text: bytes
    """Text of the tokens, hidden ones included."""
    widths: bytes
    """Bytes of the text that each stride stands for."""
    logprobs: bytes
    ends: bytes
    """End of each label in strides, four bytes each: tuples would take ten times the memory."""
    labels: tuple[TokenLabel, ...]
    chunks: int = 0
    """Strides, all at the beginning, that are chunks of text and no tokens."""
    experts: tuple[tuple[int, bytes], ...] = ()
    """Routed experts, each with the stride after the last that they are for."""
    used: Version | None = None
    """The latest weights with which the run was used. Says what may be collected, not who sampled it."""
    clock: int = 0
    """Last use, in uses of the store."""
    whose: Hashable = None
    """The session that has a record up to its end, or `SEVERAL`: it is not lengthened by another."""

    @classmethod
    def from_tokens(
        cls,
        text: bytes,
        widths: bytes,
        logprobs: bytes,
        spans: Spans,
        chunks: int = 0,
        experts: tuple[tuple[int, bytes], ...] = (),
    ) -> Self:
        """A run that has not been used yet."""
        labels = tuple(label for _, label in spans)
        return cls(text, widths, logprobs, _pack_spans(spans), labels, chunks, experts)

    @property
    def spans(self) -> Spans:
        """Labels, each with the stride that it goes up to."""
        return tuple(zip(self._ends, self.labels, strict=True))

    @property
    def _ends(self) -> memoryview:
        return memoryview(self.ends).cast("I")

    def label_at(self, stride: int) -> TokenLabel:
        """The label of one stride."""
        return self.labels[bisect_right(self._ends, stride)]

    def label_start(self, stride: int) -> int:
        """The first stride that has its label together with `stride`."""
        at = bisect_right(self._ends, stride)
        return self._ends[at - 1] if at else 0

    def find_hidden(self, strides: int) -> int:
        """The first hidden stride that is not one of the first `strides`; the end if there is none."""
        ends = self._ends
        for at in range(bisect_right(ends, strides), len(ends)):
            if self.labels[at].hidden:
                return max(strides, ends[at - 1] if at else 0)
        return len(self.widths)

    def skip_hidden(self, strides: int) -> int:
        """The stride past the hidden tokens that follow the first `strides`."""
        ends = self._ends
        at = bisect_right(ends, strides)
        while at < len(ends) and self.labels[at].hidden:
            strides = ends[at]
            at += 1
        return strides

    @property
    def tokens(self) -> int:
        """The number of tokens."""
        return len(self.widths) - self.chunks

    @property
    def nbytes(self) -> int:
        """The memory it takes, as the store counts it; a node's own part not included."""
        size = len(self.widths) * _PER_STRIDE + len(self.text) + (len(self.labels) - 1) * _PER_SPAN
        size += sum(len(raw) for _, raw in self.experts)
        return size + size // _SLACK

    def mark_end(self, session: Hashable) -> None:
        """Note that `session` has a record up to its end."""
        self.whose = session if self.whose in (None, session) else SEVERAL

    def can_join(self, more: Self, longest: int, session: Hashable) -> bool:
        """May `more` of `session` be joined to it, for an edge of `longest` strides at most?"""
        if self.whose is not None and self.whose != session:
            return False
        return not self.chunks and not more.chunks and len(self.widths) + len(more.widths) <= longest

    def check(self, strides: int) -> None:
        """Assert that it describes so many strides."""
        assert len(self.widths) == strides, "an edge has another number of widths than strides"
        assert len(self.logprobs) == 4 * strides, "an edge has another number of log-probabilities"
        assert sum(self.widths) == len(self.text), "the widths of an edge are not those of its text"
        assert len(self.ends) == 4 * len(self.labels), "an edge has another number of labels than of ends"
        ends = self._ends
        assert ends[-1] == strides, "the labels of an edge do not cover it"
        assert all(map(lt, (0, *ends), ends)), "a label of an edge is for nothing"

    def split(self, at: int) -> tuple[Self, Self]:
        """Cut after `at` strides."""
        byte = sum(self.widths[:at])
        size = len(self.widths)
        upper = self.from_tokens(
            self.text[:byte],
            self.widths[:at],
            self.logprobs[: 4 * at],
            cut_spans(self.spans, 0, at),
            min(self.chunks, at),
            tuple((end, raw) for end, raw in self.experts if end <= at),
        )
        lower = self.from_tokens(
            self.text[byte:],
            self.widths[at:],
            self.logprobs[4 * at :],
            cut_spans(self.spans, at, size),
            max(self.chunks - at, 0),
            tuple((end - at, raw) for end, raw in self.experts if end > at),
        )
        for part in (upper, lower):
            part.used, part.clock = self.used, self.clock
        lower.whose = self.whose
        return upper, lower

    def join(self, more: Self) -> Self:
        """Continued by `more`, which has no chunks."""
        size = len(self.widths)
        num_labels = len(self.labels) - (self.labels[-1] == more.labels[0])
        return type(self)(
            self.text + more.text,
            self.widths + more.widths,
            self.logprobs + more.logprobs,
            self.ends[: 4 * num_labels] + array("I", [size + end for end in more._ends]).tobytes(),
            self.labels[:num_labels] + more.labels,
            self.chunks,
            self.experts + tuple((size + end, raw) for end, raw in more.experts),
            more.used,
            more.clock,
            self.whose,
        )


def _pack_spans(spans: Spans) -> bytes:
    return array("I", [end for end, _ in spans]).tobytes()
