"""Every form in which engines write their events."""

import struct
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.core.work_slices import run_at_once
from radixway.routing.block_index import StorageTier
from radixway.routing.kv_events.event_decoder import (
    BlocksCleared,
    BlocksRemoved,
    BlocksStored,
    UnreadableBatchError,
    decode_batch,
)
from support.kv_publishers import CLEARED, batch, decode, encode, removed, sglang_array, stored, vllm_array

TOKENS = list(range(8))


def one(event, **more):
    """The only event of a batch."""
    decoded = decode(batch(event, **more))
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
    assert decode(batch(CLEARED, rank=rank)).rank == rank


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
    decoded = decode(encode([1.5, [CLEARED], 0, "trace", {}]))
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
    decoded = decode(batch(stored([1], [1, 2]), bad, removed([1])))
    assert decoded.unreadable == 1
    assert [type(event) for event in decoded.events] == [BlocksStored, BlocksRemoved]


@pytest.mark.parametrize("bad", [b"", b"\xc1", encode({}), encode([1]), encode(["x", []]), encode([1.0, 5])])
def test_what_is_no_batch_is_refused(bad):
    with pytest.raises(UnreadableBatchError):
        decode(bad)


@given(st.binary(max_size=60))
def test_bytes_are_a_batch_or_refused(payload):
    with suppress(UnreadableBatchError):
        decode(payload)


@given(st.recursive(st.none() | st.integers() | st.text() | st.binary(), st.lists, max_leaves=20))
def test_any_event_is_read_or_counted(event):
    try:
        payload = batch(event)
    except (OverflowError, msgspec.ValidationError):
        return  # an integer that MessagePack has not
    decoded = decode(payload)
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
        decoded = decode(batch(form(stored([1], [1], **other))))
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


def joined(events):
    """What events say, with those that continue one another put together."""
    found = []
    for event in events:
        if isinstance(event, BlocksCleared):
            found.append("cleared")
        elif event.is_continued:
            assert isinstance(event, BlocksRemoved) or event.parent == found[-1][1][-1]
            found[-1][1].extend(event.hashes)
            found[-1][2] += b"" if isinstance(event, BlocksRemoved) else event.tokens
        else:
            tokens = None if isinstance(event, BlocksRemoved) else event.tokens
            found.append([type(event), [*event.hashes], tokens or b"", event.tier, event.group])
    return found


a_hash = st.integers(-(2**63), 2**64 - 1) | st.binary(min_size=32, max_size=32)
some_hashes = st.lists(a_hash, min_size=1, max_size=4)
a_medium = st.sampled_from(["GPU", "CPU", None, "nowhere"])
a_stored_event = st.builds(
    lambda hashes, token, medium, keys: stored(
        hashes, [token] * 2 * len(hashes), medium=medium, extra_keys=[keys] * len(hashes)
    ),
    some_hashes,
    st.integers(0, 2**32 - 1),
    a_medium,
    st.none() | st.lists(st.text() | st.tuples(st.text(), st.integers(0, 9)), max_size=2),
)
a_removed_event = st.builds(removed, some_hashes, a_medium)
odd_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text() | st.binary() | st.integers(-(2**63), 2**64 - 1),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
an_event = a_stored_event | a_removed_event | st.just(CLEARED) | odd_values


@given(
    st.lists(an_event, max_size=5),
    st.sampled_from([dict, vllm_array, sglang_array]),
    st.none() | st.integers(0, 3),
)
def test_a_batch_read_in_pieces_says_the_same(events, form, rank):
    known = [
        isinstance(event, dict) and event.get("type") in ("BlockStored", "BlockRemoved") for event in events
    ]
    payload = batch(
        *(form(event) if is_known else event for event, is_known in zip(events, known, strict=True)),
        rank=rank,
    )
    whole, in_pieces = decode(payload), run_at_once(decode_batch(payload, large_bytes=0))
    assert joined(in_pieces.events) == joined(whole.events)
    assert (in_pieces.rank, in_pieces.ignored, in_pieces.unreadable) == (
        whole.rank,
        whole.ignored,
        whole.unreadable,
    )


@given(st.binary(max_size=60) | odd_values.map(encode))
def test_bytes_read_in_pieces_are_a_batch_or_refused(payload):
    with suppress(UnreadableBatchError):
        run_at_once(decode_batch(payload, large_bytes=0))


@pytest.mark.parametrize("form", [dict, vllm_array, sglang_array])
def test_long_arrays_are_read_in_slices(form):
    """With every width of numbers; salts and marks stay at their blocks."""
    hashes = [2**exponent + at for at in range(300) for exponent in range(0, 64, 8)]
    tokens = [2 ** (at % 32) for at in range(len(hashes) * 8)]
    payload = batch(form(stored(hashes, tokens)), form(removed(hashes)), form(stored([1], [5])))
    slices = 0
    reading = decode_batch(payload, large_bytes=4096)
    try:
        while True:
            next(reading)
            slices += 1
    except StopIteration as done:
        found = done.value
    assert joined(found.events) == joined(decode(payload).events)
    assert all(len(event.hashes) <= 512 for event in found.events) and slices > 2 * len(hashes) / 512


def test_marks_and_salts_stay_at_their_blocks():
    keys = [["salt"], *[None] * 700, [["image", 3]], *[None] * 300]
    event = stored(list(range(1, 1 + len(keys))), [7] * len(keys), extra_keys=keys)
    for large_bytes in (2**20, 0):
        first, second = run_at_once(decode_batch(batch(event), large_bytes=large_bytes)).events
        assert first.salt == "salt" and not first.marks and second.parent == 512
        assert list(second.marks) == [701 - 512]


@pytest.mark.parametrize(
    "wrong", ["tokens", "text among tokens", "fraction among tokens", "text among hashes"]
)
def test_a_long_event_that_cannot_be_read_does_not_take_its_batch_with_it(wrong):
    hashes, tokens = list(range(1000)), list(range(4000))
    if wrong == "tokens":
        tokens.pop()
    elif wrong == "text among hashes":
        hashes[700] = "text"
    else:
        tokens[3000] = "text" if wrong == "text among tokens" else 0.5
    bad = stored([1], [1, 2, 3, 4]) | {"block_hashes": hashes, "token_ids": tokens}
    found = run_at_once(decode_batch(batch(bad, removed([1])), large_bytes=2048))
    assert found.unreadable == 1 and [type(event) for event in found.events] == [BlocksRemoved]


def test_an_event_may_have_long_hashes_and_few_tokens():
    event = stored([bytes([at % 250]) * 32 for at in range(1000)], [9] * 1000)
    found = run_at_once(decode_batch(batch(event), large_bytes=2**15))
    assert joined(found.events) == joined(decode(batch(event)).events) and len(found.events) == 2
