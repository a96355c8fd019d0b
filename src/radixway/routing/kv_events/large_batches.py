"""Batches of megabytes, read in slices: where their events lie, and the numbers of their long arrays.

msgspec reads a whole value in one call, 7 ms for a megabyte of tokens. Here the ends of values are found
first, runs of numbers by a regular expression, and long arrays are decoded piece by piece::

    [ts, [event, event, …], rank]
          |
          {"type": "BlockStored", "block_hashes": [512 | 512 | …], "token_ids": [8192 | 8192 | …], …}
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from radixway.core.work_slices import WorkSlices

LARGE_BYTES = 2**17
"""From here on a value is read in pieces; less takes a millisecond."""

_NUMBER = (
    rb"(?s:[\x00-\x7f\xc0\xc2\xc3\xe0-\xff]|\xcd..|\xce.{4}|\xcf.{8}|\xcc.|\xd0.|\xd1..|\xd2.{4}|\xd3.{8}"
    rb"|\xca.{4}|\xcb.{8}|\xc4\x20.{32})"
)
"""A number, nil, a boolean, or a hash of 32 bytes."""
_EMPTY_ARRAY = b"\x90"
_MIN_RUN, _MAX_RUN_BITS = 16, 13
"""Numbers that are passed over at a time: powers of two, from the first to a half of 2 to the second."""
_YIELD_EVERY = 1024
"""Values."""
_FIXED_BYTES = {
    0xC0: 1,
    0xC2: 1,
    0xC3: 1,
    0xCA: 5,
    0xCB: 9,
    0xCC: 2,
    0xCD: 3,
    0xCE: 5,
    0xCF: 9,
    0xD0: 2,
    0xD1: 3,
    0xD2: 5,
    0xD3: 9,
    0xD4: 3,
    0xD5: 4,
    0xD6: 6,
    0xD7: 10,
    0xD8: 18,
}
"""Bytes of a value, by its first byte."""
_LENGTH_BYTES = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
"""Bytes of the length of a text or of bytes, by their first byte."""
_EXTENSION_LENGTH_BYTES = {0xC7: 1, 0xC8: 2, 0xC9: 4}
_LONG_ARRAYS = {
    b"\xacblock_hashes": "block_hashes",
    b"\xa9token_ids": "token_ids",
    1: "block_hashes",
    3: "token_ids",
}
"""An event's long arrays, by their key as it is written, or by their place where the event is an array."""


class NumberArray(NamedTuple):
    """A long array of numbers within a message."""

    data: bytes
    begin: int
    """Where its first value begins."""
    length: int

    def iter_pieces(self, size: int) -> Iterator[list[Any]]:
        """Yield its values, `size` at a time. Raises ValueError if there is something else than numbers."""
        at, left = self.begin, self.length
        while left:
            count = min(size, left)
            run = _numbers(count).match(self.data, at)
            if run is None:
                raise ValueError("something else than numbers is in a long array")
            yield _read_numbers(b"\xdd" + count.to_bytes(4, "big") + run[0])
            at, left = run.end(), left - count


class RawEvent(NamedTuple):
    """An event that is not decoded."""

    raw: bytes
    """MessagePack, in which `long_arrays` are empty."""
    long_arrays: dict[str, NumberArray]


class RawBatch(NamedTuple):
    """A batch whose events are not decoded."""

    events: list[RawEvent]
    rank: Any


_read_numbers = msgspec.msgpack.Decoder(list[Any]).decode
_read_value = msgspec.msgpack.Decoder().decode


def read_large_batch(data: bytes, long_bytes: int = LARGE_BYTES // 2) -> WorkSlices[RawBatch]:
    """Find the events of the batch `data`, and their arrays of `long_bytes` and more.

    Raises ValueError, IndexError: it is no batch.
    """
    slots, at = _read_header(data, 0)
    if slots < 2 or not _is_array(data[0]):
        raise ValueError("it is no array of a time and events")
    at = yield from _skip_values(data, at, 1)
    if not _is_array(data[at]):
        raise ValueError("its events are no array")
    count, at = _read_header(data, at)
    events: list[RawEvent] = []
    for _ in range(count):
        event, at = yield from _read_event(data, at, long_bytes)
        events.append(event)
        yield
    end = yield from _skip_values(data, at, slots - 2)
    if end != len(data):
        raise ValueError("it does not end where it should")
    rank = None
    if slots > 2:
        end = yield from _skip_values(data, at, 1)
        rank = _read_value(data[at:end])
    return RawBatch(events, rank)


def _read_event(data: bytes, begin: int, long_bytes: int) -> WorkSlices[tuple[RawEvent, int]]:
    """Return the event that begins there, and its end. If one of its arrays is long, both count as such."""
    if not (_is_map(data[begin]) or _is_array(data[begin])):
        at = yield from _skip_values(data, begin, 1)
        return RawEvent(data[begin:at], {}), at
    arrays: dict[str, tuple[int, int]] = {}
    """Where each begins and ends."""
    slots, at = _read_header(data, begin)
    for place in range(slots):
        key: bytes | int = place
        if _is_map(data[begin]):
            key_at = at
            at = yield from _skip_values(data, at, 1)
            key = data[key_at:at]
        value_at = at
        at = yield from _skip_values(data, at, 1)
        if key in _LONG_ARRAYS and _is_array(data[value_at]):
            arrays[_LONG_ARRAYS[key]] = value_at, at
    if all(end - start < long_bytes for start, end in arrays.values()):
        return RawEvent(data[begin:at], {}), at
    parts: list[bytes] = []
    long_arrays: dict[str, NumberArray] = {}
    for name, (start, end) in arrays.items():
        count, first = _read_header(data, start)
        long_arrays[name] = NumberArray(data, first, count)
        parts += (data[begin:start], _EMPTY_ARRAY)
        begin = end
    return RawEvent(b"".join((*parts, data[begin:at])), long_arrays), at


def _skip_values(data: bytes, at: int, count: int) -> WorkSlices[int]:
    """Return where `count` values end of which the first begins at `at`."""
    left = next_run = count
    """Where this many are left, a run is tried: a failed try is not repeated for each of its values."""
    passed = 0
    while left > 0:
        if _MIN_RUN <= left <= next_run:
            length = 1 << min(left.bit_length(), _MAX_RUN_BITS) - 1
            if (run := _numbers(length).match(data, at)) is not None:
                at = run.end()
                left = next_run = left - length
                if length >= _YIELD_EVERY:
                    yield
                continue
            next_run = left - length
        kind = data[at]
        left -= 1
        if kind in _FIXED_BYTES:
            at += _FIXED_BYTES[kind]
        elif kind < 0x80 or kind >= 0xE0:
            at += 1
        elif 0xA0 <= kind <= 0xBF:
            at += 1 + (kind & 31)
        elif (size := _LENGTH_BYTES.get(kind) or _EXTENSION_LENGTH_BYTES.get(kind)) is not None:
            is_extension = kind in _EXTENSION_LENGTH_BYTES
            at += 1 + size + is_extension + int.from_bytes(data[at + 1 : at + 1 + size], "big")
        else:
            slots, begin = _read_header(data, at)
            left += 2 * slots if _is_map(kind) else slots
            at, next_run = begin, left
        passed += 1
        if not passed % _YIELD_EVERY:
            yield
    if at > len(data):
        raise IndexError("it ends within a value")
    return at


def _is_map(kind: int) -> bool:
    return 0x80 <= kind <= 0x8F or kind in (0xDE, 0xDF)


def _is_array(kind: int) -> bool:
    return 0x90 <= kind <= 0x9F or kind in (0xDC, 0xDD)


def _read_header(data: bytes, at: int) -> tuple[int, int]:
    """Return the slots of the map or array at `at`, and where they begin. Raises ValueError."""
    kind = data[at]
    if 0x80 <= kind <= 0x9F:
        return kind & 15, at + 1
    if 0xDC <= kind <= 0xDF:
        begin = at + (5 if kind & 1 else 3)
        return int.from_bytes(data[at + 1 : begin], "big"), begin
    raise ValueError(f"neither a map nor an array begins with {kind:#x}")


@lru_cache(maxsize=64)
def _numbers(count: int) -> re.Pattern[bytes]:
    """A pattern of `count` numbers."""
    return re.compile(_NUMBER + b"{%d}" % count)
