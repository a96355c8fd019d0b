"""Names of blocks: chained, in Dynamo's bytes, apart for every adapter and salt."""

import struct

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from radixway.routing.block_hash import hash_text_blocks, hash_token_blocks, namespace_seed, pack_tokens

TOKENS = st.lists(st.integers(0, 2**32 - 1), max_size=70)


@given(TOKENS, st.integers(1, 20))
def test_names_are_chained_as_dynamo_chains_them(tokens, block_size):
    expected = []
    for start in range(0, len(tokens) // block_size * block_size, block_size):
        block = struct.pack(f"<{block_size}I", *tokens[start : start + block_size])
        local = xxhash.xxh3_64(block, seed=1337).intdigest()
        chained = struct.pack("<QQ", expected[-1], local) if expected else b""
        expected.append(xxhash.xxh3_64(chained, seed=1337).intdigest() if expected else local)
    assert hash_token_blocks(pack_tokens(tokens), block_size) == expected


DYNAMO = [  # adapter, namespace, `compute_block_hash_for_seq(range(40), 16, …)` of ai-dynamo-runtime 1.6.1
    (None, None, [15310707395893867146, 15292316782987903195]),
    ("a", None, [13515555613885636154, 1984712202812830800]),
    ("adapter-one", None, [10772723544285644753, 1302365241550302366]),
    (None, "s", [10918622510783919058, 9541202052620651482]),
    ("a", "s", [10359633570180259448, 4254834310034089626]),
]


@pytest.mark.parametrize(("lora", "salt", "locals_"), DYNAMO)
def test_blocks_are_hashed_as_dynamos_runtime_hashes_them(lora, salt, locals_):
    seed = namespace_seed(lora, salt)
    first, second = pack_tokens(range(16)), pack_tokens(range(16, 32))
    assert hash_token_blocks(first, 16, seed) + hash_token_blocks(second, 16, seed) == locals_
    chained = xxhash.xxh3_64_intdigest(struct.pack("<QQ", *locals_), 1337)
    assert hash_token_blocks(first + second, 16, seed) == [locals_[0], chained]


@given(TOKENS, st.integers(1, 9), st.integers(0, 8))
def test_a_chain_can_be_continued_from_any_of_its_names(tokens, block_size, at):
    packed = pack_tokens(tokens)
    names = hash_token_blocks(packed, block_size)
    at = min(at, len(names))
    rest = hash_token_blocks(packed[at * block_size * 4 :], block_size, parent=names[at - 1] if at else None)
    assert names[:at] + rest == names


@given(st.binary(max_size=600), st.binary(max_size=600), st.integers(1, 40))
def test_texts_share_names_exactly_as_far_as_they_share_blocks(one, other, size):
    common = next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    first, second = hash_text_blocks(one, size), hash_text_blocks(other, size)
    shared = sum(a == b for a, b in zip(first, second, strict=False))
    assert shared == common // size
    assert len(first) == len(one) // size


def test_adapters_and_salts_keep_names_apart():
    seeds = [
        namespace_seed(*names) for names in [(None, None), ("a", None), (None, "a"), ("a", "a"), ("b", None)]
    ]
    assert len(set(seeds)) == len(seeds)
    assert namespace_seed() == namespace_seed("", "") == 1337


@pytest.mark.parametrize("wrong", [[-1], [2**32], ["a"], [1.5]])
def test_what_is_no_token_id_is_refused(wrong):
    with pytest.raises((OverflowError, TypeError)):
        pack_tokens(wrong)
