"""Making edges of stretches of tokens, cut at their tokens or laid whole; what of them is there already."""

from collections.abc import Sequence
from itertools import takewhile

from radixway.core.radix import common_prefix
from radixway.trajectories.alignment import AlignedText, TokenDecoder, align_tokens
from radixway.trajectories.text_match import Place
from radixway.trajectories.token_keys import CHUNK, STRIDE, pack_indivisible, pack_tokens
from radixway.trajectories.token_records import join_spans
from radixway.trajectories.token_run import TokenRun
from radixway.trajectories.token_segment import TokenSegment


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
        most = min(node.size, len(self) - at)
        count = 1 + _shared_strides(node.key, self.key, at, most)
        count = self._common_text(run, count, at)
        tokens = max(count - run.chunks, 0)
        agreed = self.given.first_mismatch(run, tokens, max(at - self.run.chunks, 0))
        count = count if agreed == tokens else min(run.chunks, count) + agreed
        return self._common_up_to_hidden(run, count, at) if self.hidden else count

    def _common_up_to_hidden(self, run: TokenRun, count: int, at: int) -> int:
        """Of `count` strides from `at` on, those before one that ends a text here and goes on with it there.

        One whose text was shown here, and not there, is the same: a text may spell a stop token.
        """
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
    """Cut at its tokens where these can be told, by `ends` or else by `decoder`."""
    aligned = None
    if ends:
        aligned = _align_by_ends(given, ends)
    elif decoder is not None:
        aligned = align_tokens(given.text, given.ids, decoder, first=first)
    return EdgeSegment(given, aligned)


def _align_by_ends(given: TokenSegment, ends: Sequence[int]) -> AlignedText | None:
    """Cut after so many bytes; None if these do not fit the text, or a token is too wide."""
    widths = [end - start for start, end in zip((0, *ends), ends, strict=False)]
    fits = len(ends) == len(given.ids) and ends[-1] == len(given.text)
    if not fits or min(widths) < 0 or max(widths) > 255:
        return None
    return AlignedText(given.text, bytes(widths), [])


def _indivisible_key(given: TokenSegment) -> tuple[bytes, TokenRun]:
    text, labels = given.text, given.label_spans()
    whole, rest = divmod(len(text), CHUNK)
    widths = bytes([CHUNK] * whole + [rest] * (rest > 0))
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


def _shared_strides(edge: bytes, key: bytes, at: int, most: int) -> int:
    """Strides behind the first, `most` with it, that `edge` and `key` from stride `at` have in common."""
    edge, begin = edge[STRIDE : most * STRIDE], (at + 1) * STRIDE
    if key.startswith(edge, begin):
        return most - 1
    if edge[:STRIDE] != key[begin : begin + STRIDE]:
        return 0
    return common_prefix(edge, key, begin, STRIDE) // STRIDE
