"""Encodes a text in pieces whose tokens, one after the other, are the tokens of the whole.

The `tokenizers` library finds special tokens in a text before anything else and encodes what lies between
them each by itself. So a text may be cut in front of any special token that is sure to be found there::

    <|im_start|>system\nBe brief.|<|im_end|>\n|<|im_start|>user\nHello|<|im_end|>\n
                                 ^            ^                      ^

Not sure is one that reaches over spaces before it, that must be a word of its own, that is looked for in
normalized text, or of which a part may belong to another token that begins earlier.

The tokens of a piece are kept in a cache that several tokenizers may share, so that of a text that continues
an earlier one only what is new is tokenized, in whichever thread the caller likes.
"""

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Protocol

import tokenizers
from tokenizers import AddedToken
from xxhash import xxh3_128_digest

from radixway.core.tokenizer.tokenizer import Tokenizer, TokenizerError

_BELONGS_BEFORE = re.compile(r"[\s\w]")
"""Characters at a token's beginning that the token before may merge with."""


class SpecialTokenSplitter:
    """Cuts texts for one tokenizer."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        added = [token for token in backend.get_added_tokens_decoder().values() if token.content]
        raw = [token for token in added if not token.normalized]
        sure = [] if backend.encode_special_tokens else list(_splittable_tokens(raw))
        self._cut = re.compile("|".join(map(re.escape, sure))) if sure else None

    def split_text(self, text: str) -> list[str]:
        """`text` in pieces, each but the first beginning with a special token."""
        starts = [start for start, _ in self.find_special_tokens(text)]
        if not starts:
            return [text]
        bounds = [*starts, len(text)] if starts[0] == 0 else [0, *starts, len(text)]
        return [text[start:end] for start, end in pairwise(bounds)]

    def find_special_tokens(self, text: str) -> list[tuple[int, str]]:
        """Return the places at which `text` may be cut, each with the special token behind it."""
        return [] if self._cut is None else [(m.start(), m[0]) for m in self._cut.finditer(text)]


def _splittable_tokens(raw: list[AddedToken]) -> Iterator[str]:
    """Return the tokens in front of which raw text may be cut."""
    tails = "\0".join(token.content[1:] for token in raw)
    overhangs = {token.content[at:] for token in raw for at in range(1, len(token.content))}
    fussy = [token.content for token in raw if token.lstrip or token.single_word]
    for token in raw:
        text = token.content
        if not token.special or _BELONGS_BEFORE.match(text):
            continue
        inside_another = text in tails or any(text[:end] in overhangs for end in range(1, len(text)))
        if not inside_another and not any(other.startswith(text) for other in fussy):
            yield text


_serials = count(1)


class PieceCache(Protocol):
    """A cache of ids under a digest of their text: a dictionary, or one that evicts entries."""

    def get(self, key: bytes) -> bytes | None: ...

    def __setitem__(self, key: bytes, packed: bytes) -> None: ...


@dataclass(slots=True)
class PartialEncoding:
    """A text of which some pieces are tokenized."""

    parts: list[bytes | str]
    """Ids as little-endian uint32, or a piece that is still text."""
    characters: int
    """Characters to tokenize."""


class PiecewiseEncoder:
    """Encodes for one tokenizer, to the very ids of `Tokenizer.encode`.

    `lookup_pieces` and `assemble_ids` use the cache and belong to one thread. Raises
    TokenizerError for a tokenizer that does more with special tokens than putting some around a text.
    """

    def __init__(self, tokenizer: Tokenizer, cache: PieceCache) -> None:
        self._tokenizer = tokenizer
        self._cache = cache
        self._cuts = SpecialTokenSplitter(tokenizer.backend)
        self._frame = _special_frame(tokenizer)
        self._serial = next(_serials)

    def lookup_pieces(self, text: str, *, add_special_tokens: bool) -> PartialEncoding:
        """Look up what is known of `text`. Raises ValueError for text that is not valid Unicode."""
        first, last = self._frame if add_special_tokens else (b"", b"")
        parts: list[bytes | str] = [first] if first else []
        characters = 0
        for piece in self._cuts.split_text(text):
            packed = self._cache.get(self._piece_key(piece))
            if packed is None:
                characters += len(piece)
            parts.append(piece if packed is None else packed)
        if last:
            parts.append(last)
        return PartialEncoding(parts, characters)

    def encode_missing(self, unfinished: PartialEncoding) -> dict[str, bytes]:
        """Return the ids of the pieces in `unfinished`, which are still text."""
        encode = self._tokenizer.encode
        pieces = dict.fromkeys(part for part in unfinished.parts if isinstance(part, str))
        return {piece: array("I", encode(piece, add_special_tokens=False)).tobytes() for piece in pieces}

    def assemble_ids(self, unfinished: PartialEncoding, encoded: dict[str, bytes]) -> bytes:
        """The ids of the whole text as little-endian uint32; those of `encoded` pieces are remembered."""
        for piece, packed in encoded.items():
            self._cache[self._piece_key(piece)] = packed
        return b"".join([encoded[part] if isinstance(part, str) else part for part in unfinished.parts])

    def _piece_key(self, piece: str) -> bytes:
        return xxh3_128_digest(piece.encode(), self._serial)


def _special_frame(tokenizer: Tokenizer) -> tuple[bytes, bytes]:
    """Return the special tokens before and after every text, as little-endian uint32."""
    bare = tokenizer.encode("a", add_special_tokens=False)
    framed = tokenizer.encode("a", add_special_tokens=True)
    starts = range(len(framed) - len(bare) + 1)
    at = next((start for start in starts if framed[start : start + len(bare)] == bare), None)
    if at is None:
        raise TokenizerError("it does more to a text than putting special tokens around it")
    return array("I", framed[:at]).tobytes(), array("I", framed[at + len(bare) :]).tobytes()
