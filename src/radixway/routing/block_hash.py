"""Names for prefixes: a prompt is cut into fixed blocks, and each block is named by all that leads to it.

Token blocks are hashed as NVIDIA Dynamo does (`lib/kv-router/src/protocols.rs`), so that its components and
ours agree on a block's name::

    local[i]  = XXH3-64(tokens of block i as little-endian uint32, seed)
    name[0]   = local[0]
    name[i]   = XXH3-64(little-endian uint64 name[i - 1] · little-endian uint64 local[i], 1337)

The seed is 1337, and where a LoRA adapter or a cache salt keeps prefixes apart::

    seed      = 1337 + XXH3-64(adapter's name, 0) + XXH3-64(salt, 1)  modulo 2**64
"""

from array import array
from collections.abc import Sequence
from struct import Struct

from xxhash import xxh3_64_intdigest

_SEED = 1337
_pair = Struct("<QQ").pack
_TOKEN_BYTES = 4


def namespace_seed(lora: str | None = None, cache_salt: str | None = None) -> int:
    """The seed under which the blocks of this adapter and this salt are named."""
    seed = _SEED
    if lora:
        seed += xxh3_64_intdigest(lora.encode(), 0)
    if cache_salt:
        seed += xxh3_64_intdigest(cache_salt.encode(), 1)
    return seed % 2**64


def pack_tokens(tokens: Sequence[int]) -> bytes:
    """Token ids as little-endian uint32. Raises OverflowError or TypeError if one of them is no such id."""
    packed = tokens if isinstance(tokens, array) and tokens.typecode == "I" else array("I", tokens)
    return packed.tobytes()


def hash_token_blocks(
    packed: bytes, block_size: int, seed: int = _SEED, *, parent: int | None = None
) -> list[int]:
    """The names of the whole blocks of `packed` token ids (4 bytes each); the rest at the end has none.

    `parent` is the name of the block before the first one.
    """
    width = block_size * _TOKEN_BYTES
    names: list[int] = []
    add = names.append
    digest = xxh3_64_intdigest
    for at in range(0, len(packed) - width + 1, width):
        local = digest(packed[at : at + width], seed)
        parent = local if parent is None else digest(_pair(parent, local), _SEED)
        add(parent)
    return names


def hash_text_blocks(text: bytes, block_bytes: int, seed: int = _SEED) -> list[int]:
    """The names of the whole blocks of a text, for prompts without a tokenizer."""
    names: list[int] = []
    add = names.append
    digest = xxh3_64_intdigest
    for at in range(0, len(text) - block_bytes + 1, block_bytes):
        seed = digest(text[at : at + block_bytes], seed)  # one call a block; a running digest takes two
        add(seed)
    return names
