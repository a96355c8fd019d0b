"""From the bytes of a batch to its events, whichever engine and version wrote them.

A batch is a MessagePack array `[seconds, events, rank?]`. An event is a map with its name under `type` (vLLM
0.24 and later, SGLang since September 2026) or an array with its name first. What is not known is passed
over: keys, slots at the end, whole events. An event that cannot be read does not take its batch with it.

An event of many blocks becomes several, of which each is the parent of the next.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any, TypeAlias

import msgspec

from radixway.core.work_slices import WorkSlices, split_items
from radixway.routing.block_index import StorageTier
from radixway.routing.kv_events.large_batches import (
    LARGE_BYTES,
    RawBatch,
    RawEvent,
    read_large_batch,
)

_LOW_64_BITS = 2**64 - 1
_MAX_BLOCKS = 512
"""Blocks of one event: a millisecond or two until they are in the index."""

_TIERS = {
    None: StorageTier.DEVICE,
    "GPU": StorageTier.DEVICE,
    "DEVICE": StorageTier.DEVICE,
    "CPU": StorageTier.HOST,
    "CPU_PINNED": StorageTier.HOST,
    "CPU_TIER1": StorageTier.HOST,
    "CPU_TIER2": StorageTier.DISK,
    "DISK": StorageTier.DISK,
    "NVME": StorageTier.DISK,
    "STORAGE": StorageTier.DISK,
}
"""Media of one worker; shared ones (`EXTERNAL`, `REMOTE` …) say nothing of it."""

_MAIN_ATTENTION = (None, "full_attention", "mla_attention", "sink_full_attention")
"""KV cache groups with prefix blocks; others hold windows or states."""

NumberOrBytes: TypeAlias = int | bytes


@dataclass(slots=True)
class BlocksStored:
    """Consecutive blocks that the engine holds now.

    `tokens` are those of all of them, packed (4 bytes each); empty where the engine reports blocks again
    because they are now in another tier too.
    """

    hashes: list[int]
    """The engine's own names, 64 bits."""
    parent: int | None
    """The block before the first one; None where a sequence begins."""
    tokens: bytes
    block_size: int
    tier: StorageTier
    group: int | None = None
    lora: str | None = None
    salt: str | None = None
    """Salt at a sequence's beginning; later blocks inherit it along their parents."""
    marks: dict[int, bytes] = field(default_factory=dict)
    """By block, whatever else its hash was made from: images, for instance."""
    is_continued: bool = False
    """It continues the event before it."""


@dataclass(slots=True)
class BlocksRemoved:
    """A copy of each of these blocks is gone from a tier."""

    hashes: list[int]
    tier: StorageTier
    group: int | None = None
    is_continued: bool = False
    """It continues the event before it."""


@dataclass(slots=True)
class BlocksCleared:
    """The engine holds nothing any more."""


KvCacheEvent: TypeAlias = BlocksStored | BlocksRemoved | BlocksCleared


@dataclass(slots=True)
class KvEventBatch:
    """A decoded batch."""

    rank: int | None
    """The data-parallel rank that it comes from, if it tells."""
    events: list[KvCacheEvent] = field(default_factory=list)
    ignored: int = 0
    """Events that speak of other things than a worker's own prefixes."""
    unreadable: int = 0


class UnreadableBatchError(ValueError):
    """The bytes are no batch of events."""


class _Stored(msgspec.Struct, tag="BlockStored"):
    block_hashes: list[NumberOrBytes]
    parent_block_hash: NumberOrBytes | None
    token_ids: list[int]
    block_size: int
    lora_id: Any = None
    medium: Any = None
    lora_name: Any = None
    extra_keys: Any = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: Any = None
    locality: Any = None
    cache_salt: Any = None


class _StoredArray(_Stored, tag="BlockStored", array_like=True):
    """vLLM's order. SGLang's ends with `medium`, or with a map of what it has beyond it."""


class _Removed(msgspec.Struct, tag="BlockRemoved"):
    block_hashes: list[NumberOrBytes]
    medium: Any = None
    group_idx: int | None = None
    locality: Any = None


class _RemovedArray(_Removed, tag="BlockRemoved", array_like=True):
    pass


class _Cleared(msgspec.Struct, tag="AllBlocksCleared"):
    pass


class _ClearedArray(_Cleared, tag="AllBlocksCleared", array_like=True):
    pass


class _Batch(msgspec.Struct, array_like=True):
    ts: float
    events: list[msgspec.Raw]
    rank: Any = None


_read_batch = msgspec.msgpack.Decoder(_Batch).decode
_read_map = msgspec.msgpack.Decoder(_Stored | _Removed | _Cleared).decode
_read_array = msgspec.msgpack.Decoder(_StoredArray | _RemovedArray | _ClearedArray).decode
_canonical = msgspec.msgpack.Encoder(order="sorted").encode


def decode_batch(payload: bytes, large_bytes: int = LARGE_BYTES) -> WorkSlices[KvEventBatch]:
    """Decode a batch. `large_bytes`: from here on its arrays are read in pieces.

    Raises UnreadableBatchError if the payload as a whole is no batch.
    """
    try:
        if len(payload) < large_bytes:
            raw = _split_batch(payload)
        else:
            raw = yield from read_large_batch(payload, large_bytes // 2)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError, IndexError) as error:
        raise UnreadableBatchError(str(error)) from None
    batch = KvEventBatch(raw.rank if isinstance(raw.rank, int) else None)
    for one in raw.events:
        yield
        try:
            event = _decode_event(one.raw)
            if event is None:
                batch.ignored += 1
            elif one.long_arrays:
                pieces: list[KvCacheEvent] = []
                for piece in _join_long_arrays(event, one):
                    pieces.append(piece)
                    yield
                batch.events += pieces
            else:
                batch.events += _split_event(event)
        except (msgspec.DecodeError, RecursionError, ValueError, OverflowError, TypeError, KeyError):
            batch.unreadable += 1
    return batch


def _split_batch(payload: bytes) -> RawBatch:
    raw = _read_batch(payload)
    return RawBatch([RawEvent(bytes(one), {}) for one in raw.events], raw.rank)


def may_contain_clear(payload: bytes) -> bool:
    """Return True if `payload` may hold a `BlocksCleared`, without decoding it."""
    return b"AllBlocksCleared" in payload


def _decode_event(raw: bytes) -> KvCacheEvent | None:
    """Decode an event; None for one that does not concern the worker's own prefixes."""
    is_map = raw[0] & 0xF0 == 0x80 or raw[0] in (0xDE, 0xDF)
    fields = _read_map(raw) if is_map else _read_array(raw)
    if isinstance(fields, _Cleared):
        return BlocksCleared()
    extras: Mapping[str, Any] = {}
    if isinstance(fields, _Stored):  # in SGLang's arrays a map stands in the slot after the last one it fills
        extras = next((slot for slot in (fields.medium, fields.lora_name) if isinstance(slot, dict)), extras)
    medium = None if isinstance(fields.medium, dict) else fields.medium
    tier = _TIERS.get(medium if medium is None else str(medium).upper())
    if tier is None or fields.locality not in (None, "LOCAL"):
        return None
    hashes = [_low_64_bits(name) for name in fields.block_hashes]
    if isinstance(fields, _Removed):
        return BlocksRemoved(hashes, tier, fields.group_idx)
    if fields.kv_cache_spec_kind not in _MAIN_ATTENTION:
        return None
    return _to_stored_event(fields, extras, hashes, tier)


def _split_event(event: KvCacheEvent) -> Sequence[KvCacheEvent]:
    """Return `event`, or the events of fewer blocks that say the same."""
    if isinstance(event, BlocksCleared) or len(event.hashes) <= _MAX_BLOCKS:
        return (event,)
    hashes = split_items(event.hashes, _MAX_BLOCKS)
    if isinstance(event, BlocksRemoved):
        return [*_continue_removed(event, hashes)]
    width = _MAX_BLOCKS * len(event.tokens) // len(event.hashes)
    tokens = (event.tokens[at : at + width] for at in range(0, len(event.tokens), width)) if width else None
    return [*_continue_stored(event, hashes, tokens or repeat(b""))]


def _join_long_arrays(event: KvCacheEvent, raw: RawEvent) -> Iterator[KvCacheEvent]:
    """Yield `event` with the long arrays of `raw`, a piece at a time. Raises ValueError."""
    if isinstance(event, BlocksCleared):
        raise ValueError("it has no arrays")
    long_hashes, tokens = raw.long_arrays["block_hashes"], raw.long_arrays.get("token_ids")
    hashes = (list(map(_low_64_bits, piece)) for piece in long_hashes.iter_pieces(_MAX_BLOCKS))
    if isinstance(event, BlocksRemoved):
        yield from _continue_removed(event, hashes)
    elif tokens is None or not tokens.length:
        yield from _continue_stored(event, hashes, repeat(b""))
    elif tokens.length != long_hashes.length * event.block_size:
        raise ValueError("its tokens do not fill its blocks")
    else:
        pieces = tokens.iter_pieces(_MAX_BLOCKS * event.block_size)
        yield from _continue_stored(event, hashes, (array("I", piece).tobytes() for piece in pieces))


def _continue_stored(
    event: BlocksStored, hashes: Iterator[list[int]], tokens: Iterator[bytes]
) -> Iterator[BlocksStored]:
    parent, done = event.parent, 0
    for some, packed in zip(hashes, tokens, strict=False):
        marks = {at - done: mark for at, mark in event.marks.items() if done <= at < done + len(some)}
        yield replace(event, hashes=some, parent=parent, tokens=packed, marks=marks, is_continued=done > 0)
        parent, done = some[-1], done + len(some)


def _continue_removed(event: BlocksRemoved, hashes: Iterator[list[int]]) -> Iterator[BlocksRemoved]:
    for number, some in enumerate(hashes):
        yield replace(event, hashes=some, is_continued=number > 0)


def _to_stored_event(
    fields: _Stored, extras: Mapping[str, Any], hashes: list[int], tier: StorageTier
) -> BlocksStored:
    if fields.token_ids and len(fields.token_ids) != len(hashes) * fields.block_size:
        raise ValueError("its tokens do not fill its blocks")
    event = BlocksStored(
        hashes=hashes,
        parent=None if fields.parent_block_hash is None else _low_64_bits(fields.parent_block_hash),
        tokens=array("I", fields.token_ids).tobytes(),
        block_size=fields.block_size,
        tier=tier,
        group=fields.group_idx,
        lora=_lora_name(fields, extras),
        salt=_nonempty_text(fields.cache_salt) or _nonempty_text(extras.get("cache_salt")),
    )
    if fields.extra_keys:
        _read_extra_keys(event, fields.extra_keys)
    return event


def _read_extra_keys(event: BlocksStored, extra_keys: list[list[Any] | None]) -> None:
    """Return, by block, what its hash covers besides tokens and parent: adapter, salt, and so on."""
    for at, keys in enumerate(extra_keys):
        others = [key for key in keys or () if key != event.lora]
        if at == 0 and event.parent is None:
            texts = [key for key in others if isinstance(key, str)]
            event.salt = event.salt or "\0".join(texts) or None
            others = [key for key in others if not isinstance(key, str)]
        if others:
            event.marks[at] = _canonical(others)


def _lora_name(fields: _Stored, extras: Mapping[str, Any]) -> str | None:
    """Return the adapter's name; old engines report a number, which no request uses."""
    name = _nonempty_text(fields.lora_name) or _nonempty_text(extras.get("lora_name"))
    return name or (f"adapter {fields.lora_id}" if fields.lora_id else None)


def _nonempty_text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _low_64_bits(name: NumberOrBytes) -> int:
    """Return the low 64 bits of a signed, unsigned or 32-byte hash, as vLLM shortens its own."""
    if isinstance(name, bytes):
        return int.from_bytes(name[-8:], "big")
    return name & _LOW_64_BITS


@dataclass(slots=True)
class KvEventCounts:
    """Counts of all workers since the start; they only grow."""

    batches: int = 0
    stored: int = 0
    removed: int = 0
    cleared: int = 0
    ignored: int = 0
    """Events about other things than a worker's own prefixes."""
    unreadable: int = 0
    orphaned: int = 0
    """Events whose parent block was unknown."""
    gaps: int = 0
    restarts: int = 0
    """Publishers that turned out to be another process than before."""
    replays: int = 0
    replays_failed: int = 0
    degradations: int = 0

    def events(self) -> list[tuple[str, int]]:
        """Events by kind."""
        names = ("stored", "removed", "cleared", "ignored", "unreadable", "orphaned")
        return [(name, getattr(self, name)) for name in names]

    def incidents(self) -> list[tuple[str, int]]:
        """Return gaps, replays and their results by kind."""
        names = ("gaps", "restarts", "replays", "replays_failed", "degradations")
        return [(name, getattr(self, name)) for name in names]
