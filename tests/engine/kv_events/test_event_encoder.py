"""The bytes, as vLLM's subscribers expect them."""

import msgspec
import pytest

from radixway.engine.kv_events import AllBlocksCleared, BlockRemoved, BlockStored, KVCacheEvent
from radixway.engine.kv_events.event_recorder import encode_batch

BIG = 2**64 - 1
EVENTS: list[KVCacheEvent] = [
    BlockStored([7, BIG], None, [1, 2, 3, 4], 2, None, "GPU", None, [("salt",), None]),
    BlockStored([8], BIG, [5, 6], 2, None, "GPU", None),
    BlockRemoved([7], "GPU"),
    AllBlocksCleared(),
]


def test_maps_leave_out_only_what_has_a_default() -> None:
    at_s, events, rank = msgspec.msgpack.decode(encode_batch(1.5, EVENTS, "map"))
    assert (at_s, rank) == (1.5, 0)
    stored = {
        "type": "BlockStored",
        "block_hashes": [7, BIG],
        "parent_block_hash": None,
        "token_ids": [1, 2, 3, 4],
        "block_size": 2,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
    }
    assert events == [
        stored | {"extra_keys": [["salt"], None]},
        stored | {"block_hashes": [8], "parent_block_hash": BIG, "token_ids": [5, 6]},
        {"type": "BlockRemoved", "block_hashes": [7], "medium": "GPU"},
        {"type": "AllBlocksCleared"},
    ]


def test_arrays_have_every_field_in_its_place() -> None:
    at_s, events, rank = msgspec.msgpack.decode(encode_batch(1.5, EVENTS, "array"))
    assert (at_s, rank) == (1.5, 0)
    nothing = [None] * 3
    assert events == [
        ["BlockStored", [7, BIG], None, [1, 2, 3, 4], 2, None, "GPU", None, [["salt"], None], *nothing],
        ["BlockStored", [8], BIG, [5, 6], 2, None, "GPU", None, None, *nothing],
        ["BlockRemoved", [7], "GPU", None],
        ["AllBlocksCleared"],
    ]


class Stored(msgspec.Struct, tag="BlockStored", array_like=True, omit_defaults=True):
    """As the first vLLM that had events declares it: it ends at `lora_id`."""

    block_hashes: list[int]
    parent_block_hash: int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None


class Removed(msgspec.Struct, tag="BlockRemoved", array_like=True, omit_defaults=True):
    block_hashes: list[int]


class Cleared(msgspec.Struct, tag="AllBlocksCleared", array_like=True, omit_defaults=True):
    pass


class Batch(msgspec.Struct, array_like=True, omit_defaults=True):
    ts: float
    events: list[Stored | Removed | Cleared]


@pytest.mark.parametrize("count", range(len(EVENTS) + 1))
def test_a_typed_decoder_of_the_oldest_format_reads_arrays(count: int) -> None:
    batch = msgspec.msgpack.decode(encode_batch(1.5, EVENTS[:count], "array"), type=Batch)
    assert [type(event).__name__ for event in batch.events] == ["Stored", "Stored", "Removed", "Cleared"][
        :count
    ]
