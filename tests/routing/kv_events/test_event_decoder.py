"""Every form in which engines write their events."""

import struct
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.routing.block_index import StorageTier
from radixway.routing.kv_events.event_decoder import (
    BlocksCleared,
    BlocksRemoved,
    BlocksStored,
    UnreadableBatchError,
    decode_batch,
)
from support.kv_publishers import CLEARED, batch, encode, removed, sglang_array, stored, vllm_array

TOKENS = list(range(8))


def one(event, **more):
    """The only event of a batch."""
    decoded = decode_batch(batch(event, **more))
    assert (decoded.ignored, decoded.unreadable) == (0, 0)
    (found,) = decoded.events
    return found


@pytest.mark.parametrize("form", [dict, vllm_array, sglang_array])
def test_maps_and_arrays_of_both_engines_say_the_same(form):
    found = one(form(stored([11, 12], TOKENS, 7)))
    assert found == BlocksStored(
        [11, 12], 7, struct.pack("<8I", *TOKENS), block_size=4, tier=StorageTier.DEVICE, group=None
    )
    assert one(form(removed([11], "CPU"))) == BlocksRemoved([11], StorageTier.HOST)
    assert one(form(CLEARED)) == BlocksCleared()


@pytest.mark.parametrize("rank", [None, 0, 3])
def test_the_rank_may_be_missing(rank):
    assert decode_batch(batch(CLEARED, rank=rank)).rank == rank


def test_hashes_are_64_bits_whether_signed_unsigned_or_32_bytes():
    low = 0xFEDC_BA98_7654_3210
    signed = low - 2**64
    digest = b"\x01" * 24 + low.to_bytes(8, "big")
    for name in (low, signed, digest):
        assert one(stored([name], [1, 2], name)).hashes == [low]
        assert one(stored([name], [1, 2], name)).parent == low
        assert one(vllm_array(removed([name]))).hashes == [low]


def test_unknown_keys_and_slots_at_the_end_are_passed_over():
    assert one(stored([1], [1, 2], session_id="s", lookahead_token_ids=[9], tomorrow={"a": 1})).hashes == [1]
    assert one([*vllm_array(stored([1], [1, 2], locality="LOCAL")), "kvcr", "session", 4]).hashes == [1]
    assert one(["AllBlocksCleared", 1, 2]) == BlocksCleared()
    decoded = decode_batch(encode([1.5, [CLEARED], 0, "trace", {}]))
    assert decoded.events == [BlocksCleared()]


@pytest.mark.parametrize(
    "bad",
    [
        {"type": "BlockInvented"},
        {"type": "BlockRemoved"},
        ["BlockStored", [1]],
        stored([1, 2], [1, 2, 3]),
        stored([1], [-1, 2]),
        stored([1], [2**32, 2]),
        stored(["text"], [1, 2]),
        stored([1], [[1, 2], [2, 3]]),
        7,
        None,
        [],
        {},
    ],
)
def test_a_bad_event_does_not_take_its_batch_with_it(bad):
    decoded = decode_batch(batch(stored([1], [1, 2]), bad, removed([1])))
    assert decoded.unreadable == 1
    assert [type(event) for event in decoded.events] == [BlocksStored, BlocksRemoved]


@pytest.mark.parametrize("bad", [b"", b"\xc1", encode({}), encode([1]), encode(["x", []]), encode([1.0, 5])])
def test_what_is_no_batch_is_refused(bad):
    with pytest.raises(UnreadableBatchError):
        decode_batch(bad)


@given(st.binary(max_size=60))
def test_bytes_are_a_batch_or_refused(payload):
    with suppress(UnreadableBatchError):
        decode_batch(payload)


@given(st.recursive(st.none() | st.integers() | st.text() | st.binary(), st.lists, max_leaves=20))
def test_any_event_is_read_or_counted(event):
    try:
        payload = batch(event)
    except (OverflowError, msgspec.ValidationError):
        return  # an integer that MessagePack has not
    decoded = decode_batch(payload)
    assert len(decoded.events) + decoded.ignored + decoded.unreadable == 1


@pytest.mark.parametrize(
    ("medium", "tier"),
    [
        (None, StorageTier.DEVICE),
        ("GPU", StorageTier.DEVICE),
        ("CPU", StorageTier.HOST),
        ("CPU_PINNED", StorageTier.HOST),
        ("DISK", StorageTier.DISK),
        ("STORAGE", StorageTier.DISK),
    ],
)
def test_media_are_tiers(medium, tier):
    assert one(stored([1], [1], medium=medium)).tier is tier
    assert one(vllm_array(removed([1], medium))).tier is tier


@pytest.mark.parametrize(
    "other",
    [
        {"medium": "EXTERNAL"},
        {"medium": "MOON"},
        {"locality": "REMOTE"},
        {"kv_cache_spec_kind": "sliding_window"},
        {"kv_cache_spec_kind": "mamba"},
    ],
)
def test_what_is_not_the_workers_own_prefix_is_ignored(other):
    for form in (dict, vllm_array):
        decoded = decode_batch(batch(form(stored([1], [1], **other))))
        assert (decoded.events, decoded.ignored) == ([], 1)


@pytest.mark.parametrize("kind", ["full_attention", "mla_attention", "sink_full_attention"])
def test_the_main_attention_groups_number_is_kept(kind):
    for form in (dict, vllm_array):
        assert one(form(stored([1], [1], group_idx=2, kv_cache_spec_kind=kind))).group == 2
        assert one(form(removed([1], group_idx=2))).group == 2


def test_vllm_tells_adapter_salt_and_images_in_the_keys_of_its_blocks():
    keys = [["ada", ["image", 3], "salt"], ["ada", ["image", 3]], ["ada"]]
    event = stored([1, 2, 3], list(range(12)), lora_id=1, lora_name="ada", extra_keys=keys)
    for form in (dict, vllm_array):
        found = one(form(event))
        assert (found.lora, found.salt) == ("ada", "salt")
        assert found.marks.keys() == {0, 1} and found.marks[0] == found.marks[1]


def test_sglang_tells_the_salt_beside_the_event():
    assert one(sglang_array(stored([1], [1], cache_salt="s"))).salt == "s"
    assert one(stored([1], [1], cache_salt="s")).salt == "s"
    without_medium = ["BlockStored", [1], None, [1], 1, None, {"cache_salt": "s"}]
    assert (one(without_medium).salt, one(without_medium).tier) == ("s", StorageTier.DEVICE)


def test_an_adapter_of_which_only_a_number_is_told_is_an_adapter_still():
    assert one(stored([1], [1], lora_id=3)).lora not in (None, one(stored([1], [1], lora_id=4)).lora)
