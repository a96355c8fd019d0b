"""Adapts any tokenizer that a user brings to the interface of the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from radixway.trajectories.insertion import TokenDecoder

if TYPE_CHECKING:
    from radixway.core.tokenizer import Tokenizer, WordEncoder

_MAX_CHARACTERS_BY_WORDS = 4096
"""Longer texts are left to the library, which lets other threads run meanwhile."""


class TokenizerAdapter(TokenDecoder, Protocol):
    """A tokenizer that the store can cut text with, and make tokens of what it does not know."""

    def encode(self, text: str, *, first: bool) -> list[int]:
        """Ids of a text that goes on from other tokens, or, if it is the `first`, begins a sequence."""


def adapt_tokenizer(tokenizer: Any) -> TokenizerAdapter:
    """Make an `TokenizerAdapter` of Radixway's tokenizer, one of `tokenizers` or `transformers`, or a
    look-alike.

    Raises TypeError for what has no `encode` and `decode`.
    """
    from radixway.core.tokenizer import Tokenizer, WordEncoder

    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if type(backend).__module__.partition(".")[0] == "tokenizers":
        tokenizer = Tokenizer(backend)
    if isinstance(tokenizer, Tokenizer):
        return _RadixwayTokenizer(tokenizer, WordEncoder.for_tokenizer(tokenizer))
    if not callable(getattr(tokenizer, "encode", None)) or not callable(getattr(tokenizer, "decode", None)):
        raise TypeError(f"a tokenizer needs encode and decode; {type(tokenizer).__name__} has not both")
    return _DuckTypedTokenizer(tokenizer)


class _RadixwayTokenizer:
    def __init__(self, tokenizer: Tokenizer, words: WordEncoder | None) -> None:
        self._tokenizer = tokenizer
        self._words = words
        self.token_bytes: Mapping[int, bytes] = tokenizer.token_bytes
        self.special_ids: frozenset[int] = tokenizer.special_ids

    def encode(self, text: str, *, first: bool) -> list[int]:
        if self._words is not None and not first and len(text) <= _MAX_CHARACTERS_BY_WORDS:
            return self._words.encode(text)
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=first)
        if first or not self._tokenizer.token_bytes.strips_first_space or text.startswith(" "):
            return ids
        # SentencePiece puts a space before every text that it is given: behind a line break it does not show.
        broken: list[int] = self._tokenizer.encode("\n" + text, add_special_tokens=False)
        pieces = [self.token_bytes[token_id] for token_id in broken]
        while pieces and b"".join(pieces) != text.encode("utf-8", "surrogatepass"):
            del pieces[0]
        return broken[len(broken) - len(pieces) :] if pieces else ids


class _DuckTypedTokenizer:
    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.token_bytes = _DecodedSingly(tokenizer)
        self.special_ids = frozenset(getattr(tokenizer, "all_special_ids", ()))

    def encode(self, text: str, *, first: bool) -> list[int]:
        try:
            ids = self._tokenizer.encode(text, add_special_tokens=first)
        except TypeError:  # it knows no such option
            ids = self._tokenizer.encode(text)
        return list(ids)


class _DecodedSingly(dict[int, bytes]):
    """Decodes tokens one by one; the store notices where that differs from the text."""

    def __init__(self, tokenizer: Any) -> None:
        super().__init__()
        self._tokenizer = tokenizer

    def __missing__(self, token_id: int) -> bytes:
        try:
            text = str(self._tokenizer.decode([token_id]))
        except (KeyError, IndexError, ValueError, OverflowError, TypeError):
            return b""
        piece = self[token_id] = text.encode("utf-8", "surrogatepass")
        return piece
