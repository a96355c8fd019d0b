"""Tokens as keys of the tree."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.trajectories.token_run import (
    CHUNK,
    MAX_VARIANTS,
    STRIDE,
    chunk_stride,
    is_boundary,
    is_chunk,
    pack_indivisible,
    pack_tokens,
    to_token_ids,
    unpack_tokens,
    variant_stride,
)

ids = st.lists(st.integers(0, 2**32 - 1), max_size=20)


@given(ids)
def test_ids_come_back_from_their_strides(numbers):
    key = pack_tokens(to_token_ids(numbers))
    assert len(key) == STRIDE * len(numbers)
    assert array("I", unpack_tokens(key)).tolist() == numbers
    assert all(is_boundary(key, at) and not is_chunk(key, at - 1) for at in range(1, len(numbers) + 1))


@given(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 255, 256, MAX_VARIANTS - 1]), st.booleans())
def test_variants_are_other_strides_of_the_same_token(number, which, divisible):
    stride = pack_tokens(array("I", [number]))
    if not divisible:
        stride = pack_indivisible(array("I", [number, number]), b"text")[STRIDE : 2 * STRIDE]
    other = variant_stride(stride, which)
    assert unpack_tokens(other) == unpack_tokens(stride)
    assert (other == stride) == (which == 0)
    assert is_boundary(other, 1) == is_boundary(stride, 1) and not is_chunk(other, 0)


@given(ids.filter(bool), st.binary(min_size=1, max_size=3 * CHUNK + 1))
def test_an_indivisible_run_has_its_text_before_its_tokens(numbers, text):
    key = pack_indivisible(array("I", numbers), text)
    chunks = -(-len(text) // CHUNK)
    pieces = [text[at : at + CHUNK] for at in range(0, len(text), CHUNK)]
    assert key[: chunks * STRIDE] == b"".join(map(chunk_stride, pieces))
    assert [is_chunk(key, at) for at in range(len(key) // STRIDE)] == [True] * chunks + [False] * len(numbers)
    assert array("I", unpack_tokens(key[chunks * STRIDE :])).tolist() == numbers
    boundaries = [is_boundary(key, at) for at in range(1, len(key) // STRIDE + 1)]
    assert boundaries == [False] * (chunks + len(numbers) - 1) + [True], "no text ends before the last token"


@pytest.mark.parametrize("numbers", [[-1], [2**32], ["1"], [1.0], [None]])
def test_what_is_no_token_id_is_refused(numbers):
    with pytest.raises(ValueError, match="not token ids"):
        to_token_ids(numbers)
