"""The events and their bytes on the wire: MessagePack, as vLLM's own subscribers decode it."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

EventsFormat = Literal["map", "array"]
"""`map`: an event is a map with its name under `type` (vLLM 0.24 and later). `array`: positional, the name
first (vLLM up to 0.23). The batch around them is positional in both: [seconds, events, rank]."""

DEVICE = "GPU"
"""The tier of the KV pool, whatever the device is: the one medium that every consumer knows."""

HOST, DISK = "CPU_PINNED", "DISK"
"""The tiers below it, under the names that vLLM and SGLang use."""


class BlockStored(msgspec.Struct, tag=True, omit_defaults=True, frozen=True):
    """Consecutive pages entered the cache.

    `token_ids` are those of all of them, so `len(token_ids) == len(block_hashes) * block_size`. The order of
    the fields is that of the array form; those without a default are always there in the map form.
    """

    block_hashes: list[int]
    """Unsigned 64-bit numbers."""
    parent_block_hash: int | None
    """The page before the first one; None where a sequence begins."""
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None
    lora_name: str | None
    extra_keys: list[tuple[str, ...] | None] | None = None
    """For each page what beside the tokens its hash was made from: the salt, at the first page of a sequence.
    The pages after it inherit it along `parent_block_hash`."""
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None


class BlockRemoved(msgspec.Struct, tag=True, omit_defaults=True, frozen=True):
    """Pages left the cache."""

    block_hashes: list[int]
    medium: str | None
    group_idx: int | None = None


class AllBlocksCleared(msgspec.Struct, tag=True, frozen=True):
    """Nothing is cached any more."""


KVCacheEvent: TypeAlias = BlockStored | BlockRemoved | AllBlocksCleared

_RANK = 0  # of the data-parallel replica: this engine is its only one
_encode = msgspec.msgpack.Encoder().encode


def encode_batch(at_s: float, events: Sequence[KVCacheEvent], form: EventsFormat) -> bytes:
    """Encode one message's payload: `events` at `at_s` seconds since the epoch, in the layout `form`."""
    shown: Sequence[Any] = events
    if form == "array":
        shown = [(type(event).__name__, *msgspec.structs.astuple(event)) for event in events]
    return _encode((at_s, shown, _RANK))
