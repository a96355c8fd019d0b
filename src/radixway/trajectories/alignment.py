"""Which bytes of a text each token stands for."""

from bisect import bisect_right
from codecs import getincrementaldecoder
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

_incremental = getincrementaldecoder("utf-8")


class TokenDecoder(Protocol):
    """The part of a tokenizer that the store needs; `radixway.core.tokenizer.Tokenizer` has it."""

    @property
    def token_bytes(self) -> Mapping[int, bytes]:
        """The bytes that a token adds to a text already begun."""

    @property
    def special_ids(self) -> frozenset[int]:
        """Tokens that workers leave out of texts."""


@dataclass(slots=True)
class AlignedText:
    """A text cut at its tokens."""

    text: bytes
    """What all tokens stand for; longer than the text that was given by what is hidden."""
    widths: bytes
    hidden: list[int]
    """Places of the tokens that the given text leaves out."""


def align_tokens(
    text: bytes, ids: Sequence[int], decoder: TokenDecoder, *, first: bool
) -> AlignedText | None:
    """Cut `text` where its tokens end; None if `ids` do not spell it.

    A text may lack special tokens, anywhere, and what follows the beginning of a stop string, at its end.
    `first`: the text begins a sequence, where some tokenizers drop a space.
    """
    pieces = list(map(decoder.token_bytes.__getitem__, ids))
    if first and pieces and pieces[0].startswith(b" ") and not text.startswith(b" "):
        pieces[0] = pieces[0][1:]
    spelt = b"".join(pieces)
    if spelt == text:
        return _aligned_text(pieces, [])
    if spelt.startswith(text):
        return _align_truncated(text, pieces)
    special_ids = decoder.special_ids
    return _align_with_gaps(text, ids, [*pieces], special_ids) or _align_with_replacements(
        text, ids, pieces, special_ids
    )


def _aligned_text(pieces: list[bytes], hidden: list[int]) -> AlignedText | None:
    try:
        return AlignedText(b"".join(pieces), bytes(map(len, pieces)), hidden)
    except ValueError:  # a token has more bytes than a byte can say
        return None


def _align_truncated(text: bytes, pieces: list[bytes]) -> AlignedText | None:
    """Where the text ends before the tokens do: within the token at `place`, or behind all before it."""
    ends = [0, *accumulate(map(len, pieces))]
    place = bisect_right(ends, len(text)) - 1
    hidden = list(range(place, len(pieces)))
    if ends[place] < len(text):
        pieces[place] = text[ends[place] :]
        del hidden[0]
    return _aligned_text(pieces, hidden)


def _align_with_gaps(
    text: bytes, ids: Sequence[int], pieces: list[bytes], special_ids: frozenset[int]
) -> AlignedText | None:
    at, hidden = 0, []
    for place, piece in enumerate(pieces):
        if text.startswith(piece, at):
            at += len(piece)
        elif ids[place] in special_ids:
            hidden.append(place)
        elif piece.startswith(text[at:]):  # the text ends within or before this token
            pieces[place] = text[at:] or piece
            hidden += range(place + (at < len(text)), len(pieces))
            at = len(text)
            break
        else:
            return None
    return _aligned_text(pieces, hidden) if at == len(text) else None


def _align_with_replacements(
    text: bytes, ids: Sequence[int], pieces: list[bytes], special_ids: frozenset[int]
) -> AlignedText | None:
    """Where bytes that are no characters are shown as U+FFFD; special tokens may be left out all the same.

    None where one is left out between the two halves of a character.
    """
    decoder = _incremental("replace")
    at, hidden, cut = 0, [], []
    for place, piece in enumerate(pieces):
        before = decoder.getstate()
        shown = decoder.decode(piece).encode()
        if text.startswith(shown, at):
            at += len(shown)
            cut.append(shown)
        elif ids[place] in special_ids:
            decoder.setstate(before)
            broken = decoder.decode(b"", final=True).encode()
            if not text.startswith(broken, at):
                return None
            if broken:
                at += len(broken)
                cut[-1] += broken
            hidden.append(place)
            cut.append(piece)
        else:
            return None
    broken = decoder.decode(b"", final=True).encode()
    if not cut or text[at:] != broken:
        return None
    cut[-1] += broken
    return _aligned_text(cut, hidden)
