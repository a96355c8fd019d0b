"""Making edges of stretches of tokens: cut where each token's text ends, or laid whole.

Also what of them is in the tree already.
"""

from codecs import getincrementaldecoder
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Protocol

from radixway.core.radix import common_prefix
from radixway.trajectories.text_match import Place
from radixway.trajectories.token_records import join_spans
from radixway.trajectories.token_run import CHUNK, STRIDE, TokenRun, pack_indivisible, pack_tokens
from radixway.trajectories.token_segment import TokenSegment

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
    """Text of all tokens; longer than the given text by hidden tokens."""
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
    if spelt.startswith(text):
        return _align_truncated(text, pieces, spelt)
    special_ids = decoder.special_ids
    aligned = _align_with_gaps(text, ids, [*pieces], special_ids)
    return aligned or _align_with_replacements(text, ids, pieces, special_ids)


def _aligned_text(pieces: list[bytes], hidden: list[int]) -> AlignedText | None:
    widths = _piece_widths(pieces)
    return None if widths is None else AlignedText(b"".join(pieces), widths, hidden)


def _piece_widths(pieces: list[bytes]) -> bytes | None:
    try:
        return bytes(map(len, pieces))
    except ValueError:  # a token has more bytes than a byte can say
        return None


def _align_truncated(text: bytes, pieces: list[bytes], spelt: bytes) -> AlignedText | None:
    """Align a text that `spelt`, the text of all `pieces`, begins with: it ends within the token at `place`,
    or behind all before it."""
    place, end = len(pieces), len(spelt)
    while end > len(text):
        place -= 1
        end -= len(pieces[place])
    hidden = list(range(place, len(pieces)))
    if end < len(text):
        spelt = text + spelt[end + len(pieces[place]) :]
        pieces[place] = text[end:]
        del hidden[0]
    widths = _piece_widths(pieces)
    return None if widths is None else AlignedText(spelt, widths, hidden)


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
    """Align a text with U+FFFD for invalid bytes; special tokens may be left out, too.

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


class EdgeSegment:
    """Tokens ready to be laid: a key, what its edge carries, and the records to compare."""

    __slots__ = ("given", "hidden", "key", "run")

    def __init__(self, given: TokenSegment, aligned: AlignedText | None) -> None:
        self.given = given
        self.hidden: list[int] = [] if aligned is None else aligned.hidden
        if aligned is None:
            self.key, self.run = _indivisible_key(given)
        else:
            self.key = pack_tokens(given.ids)
            labels = given.label_spans(aligned.hidden)
            self.run = TokenRun.from_tokens(
                aligned.text, aligned.widths, given.logprobs, labels, experts=given.experts
            )

    def __len__(self) -> int:
        """Strides."""
        return len(self.run.widths)

    def stride_at(self, at: int) -> bytes:
        """The one number `at`."""
        return self.key[at * STRIDE : (at + 1) * STRIDE]

    def common_strides(self, node: Place, at: int) -> int:
        """Count the strides from `at` on that the edge of `node` has too: same tokens, same text, same
        records.

        That the first token is the same is known.
        """
        run = node.payload
        limit = min(node.size, len(self) - at)
        count = 1 + _shared_strides(node.key, self.key, at, limit)
        count = self._common_text(run, count, at)
        tokens = max(count - run.chunks, 0)
        agreed = self.given.first_mismatch(run, tokens, max(at - self.run.chunks, 0))
        count = count if agreed == tokens else min(run.chunks, count) + agreed
        return self._common_up_to_hidden(run, count, at) if self.hidden else count

    def _common_up_to_hidden(self, run: TokenRun, count: int, at: int) -> int:
        """Return, of `count` strides from `at` on, those before one that ends a text here and continues it
        there."""
        for place in self.hidden:
            if at <= place < at + count and run.skip_hidden(place - at) == place - at:
                return place - at
        return count

    def _common_text(self, run: TokenRun, count: int, at: int) -> int:
        mine, theirs = self.run.widths[at : at + count], run.widths[:count]
        if mine != theirs:
            count = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(mine, theirs, strict=True)))
        begin, size = sum(self.run.widths[:at]), sum(theirs[:count])
        while count and self.run.text[begin : begin + size] != run.text[:size]:
            count -= 1
            size -= theirs[count]
        return count


def make_edge_segment(
    given: TokenSegment, ends: Sequence[int], decoder: TokenDecoder | None, *, first: bool
) -> EdgeSegment:
    """Cut at token ends where these are known, by `ends` or else by `decoder`."""
    aligned = None
    if ends:
        aligned = _align_by_ends(given, ends)
    elif decoder is not None:
        aligned = align_tokens(given.text, given.ids, decoder, first=first)
    return EdgeSegment(given, aligned)


def _align_by_ends(given: TokenSegment, ends: Sequence[int]) -> AlignedText | None:
    """Cut at byte offsets; None if they do not fit the text, or a token is too wide."""
    widths = [end - start for start, end in zip((0, *ends), ends, strict=False)]
    fits = len(ends) == len(given.ids) and ends[-1] == len(given.text)
    if not fits or min(widths) < 0 or max(widths) > 255:
        return None
    return AlignedText(given.text, bytes(widths), [])


def _indivisible_key(given: TokenSegment) -> tuple[bytes, TokenRun]:
    text, labels = given.text, given.label_spans()
    full, rest = divmod(len(text), CHUNK)
    widths = bytes([CHUNK] * full + [rest] * (rest > 0))
    chunks = len(widths)
    run = TokenRun.from_tokens(
        text,
        widths + bytes(len(given.ids)),
        bytes(4 * chunks) + given.logprobs,
        join_spans(((chunks, labels[0][1]),) if chunks else (), labels),
        chunks,
        tuple((chunks + end, raw) for end, raw in given.experts),
    )
    return pack_indivisible(given.ids, text), run


def _shared_strides(edge: bytes, key: bytes, at: int, limit: int) -> int:
    """Count the strides after the first, up to `limit`, that `edge` and `key` at stride `at` share."""
    edge, begin = edge[STRIDE : limit * STRIDE], (at + 1) * STRIDE
    if key.startswith(edge, begin):
        return limit - 1
    if edge[:STRIDE] != key[begin : begin + STRIDE]:
        return 0
    return common_prefix(edge, key, begin, STRIDE) // STRIDE
