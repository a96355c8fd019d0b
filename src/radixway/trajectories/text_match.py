"""Finding the tokens of a text: a walk down a tree of tokens that looks at their text.

Edges are compared as a whole, with one memcmp. Only where several edges go on from a node does the walk ask
which tokens the text may begin with there; several may do so (`in`, `int`, `international`), so the walk
follows all of them and tells of every end that it reaches.

From a position in the tree `read_trajectory` leads back to the tokens.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, chain
from typing import TypeAlias

import msgspec

from radixway.core.radix import PrefixMatch, RadixNode, common_prefix
from radixway.trajectories.token_records import TokenLabel, Trajectory, cut_spans
from radixway.trajectories.token_run import (
    STRIDE,
    TokenRun,
    chunk_stride,
    is_boundary,
    is_chunk,
    unpack_tokens,
)

Place: TypeAlias = RadixNode[bytes, TokenRun]

_FEW = 4
"""Children that are tried one by one instead of looked up."""
_SHARED_KEY_BYTES = 256 * STRIDE
_SHARED_KEYS = 64
"""Keys of that size whose JSON is kept: 12 bytes per token."""


@dataclass(slots=True)
class TextPosition:
    """A position in the tree to which a text leads."""

    node: Place
    strides: int
    """Strides from the root: the end of `node`, or within its edge."""
    text: int
    """Bytes of the text up to here; tokens that the text leaves out have none."""
    tokens: int


Fits = Callable[[Place, int], bool]
"""May the walk go on through this node, with so many tokens before it?"""


class StrideIndex:
    """Finds strides by the text that they begin with; learnt from inserted edges."""

    def __init__(self) -> None:
        self._strides: dict[bytes, tuple[bytes, ...]] = {}
        """Mostly one stride per piece: a set would take four times the memory."""
        self._lengths: dict[int, tuple[int, ...]] = {}
        """Lengths of pieces by first byte."""
        self._hidden: set[bytes] = set()
        """Strides of tokens that texts may leave out."""
        self._chunks: set[int] = set()
        """Chunk lengths at the beginning of edges."""

    def add_edge(self, node: Place) -> None:
        """Note how the edge of `node` begins."""
        stride, run = node.key[:STRIDE], node.payload
        if is_chunk(stride, 0):
            self._chunks.add(run.widths[0])
            return
        if run.labels[0].hidden:
            self._hidden.add(stride)
        piece = run.text[: run.widths[0]]
        known = self._strides.get(piece, ())
        if stride not in known:
            self._strides[piece] = (*known, stride)
        if piece:
            lengths = self._lengths.get(piece[0], ())
            if len(piece) not in lengths:
                self._lengths[piece[0]] = (*lengths, len(piece))

    def matching_children(self, node: Place, text: bytes, at: int) -> list[Place]:
        """Return the children whose edges may begin as `text` goes on at byte `at`."""
        children = node.children
        if len(children) <= _FEW:
            return list(children.values())
        found: list[Place] = []
        for length in self._lengths.get(text[at], ()) if at < len(text) else ():
            strides = self._strides.get(text[at : at + length])
            if strides is None:
                continue
            if len(strides) > 1:
                found += _children_by_stride(node, strides)
            elif (child := children.get(strides[0])) is not None:  # nearly always
                found.append(child)
        if hollow := self._strides.get(b""):
            found += _children_by_stride(node, hollow)
        if self._hidden:
            found += [child for child in _children_by_stride(node, self._hidden) if child not in found]
        if self._chunks:
            begins = (chunk_stride(text[at : at + length]) for length in self._chunks)
            found += [children[stride] for stride in begins if stride in children]
        return found


def _children_by_stride(node: Place, strides: Collection[bytes]) -> list[Place]:
    children = node.children
    if len(strides) <= len(children):
        return [children[stride] for stride in strides if stride in children]
    return [child for stride, child in children.items() if stride in strides]


def walk_text(
    start: TextPosition, text: bytes, pieces: StrideIndex, fits: Fits | None = None
) -> list[TextPosition]:
    """Return every position where an edge ends, or parts from `text`; `start` included, parents before
    children.

    A position is behind a whole token and never within a character. With `fits` only ends of whole edges."""
    found: list[TextPosition] = []
    stack = [start]
    while stack:
        here = stack.pop()
        node, begin = here.node, here.text
        if (ending := here if _is_token_end(here, text) else _last_boundary(here, text)) is not None:
            found.append(ending)
        for child in pieces.matching_children(node, text, begin) if node.children else ():
            if fits is not None and not fits(child, here.tokens):
                continue
            run = child.payload
            size = strides = len(run.widths)
            at = begin + len(run.text)
            if not text.startswith(run.text, begin):
                strides, at = _follow_edge(child, text, begin)
                if not strides:
                    continue
            tokens = here.tokens + strides - min(run.chunks, strides)
            reached = TextPosition(child, here.strides + strides, at, tokens)
            if strides == size:
                stack.append(reached)
            elif fits is None:
                found.append(reached)
    return found


def is_ancestor(upper: TextPosition, lower: TextPosition) -> bool:
    """Is `upper` a position on the way to `lower`?"""
    node: Place | None = lower.node
    while node is not None and node is not upper.node:
        node = node.parent
    return node is not None and upper.strides <= lower.strides


def longest_matches(places: Iterable[TextPosition], text: bytes) -> list[TextPosition]:
    """Those to which most of `text` leads; several where it was recorded in several ways."""
    best: list[TextPosition] = []
    for reached in places:
        if not best or reached.text > best[0].text:
            best = [reached]
        elif reached.text == best[0].text:
            above = [other for other in best if is_ancestor(other, reached)]
            if not above:
                best.append(reached)
            elif reached.text < len(text):  # behind tokens that the text leaves out
                best = [reached if other is above[0] else other for other in best]
    return best


def _follow_edge(node: Place, text: bytes, at: int) -> tuple[int, int]:
    """How many strides of the edge `text` leads along from byte `at`, and to which byte.

    edge    ▁sat | <|im_end|> | \n | <|im_start|> …        <|im_end|> is hidden
    text    ▁sat              | \n | <|im_start|> …        goes on behind it
    """
    run = node.payload
    widths = run.widths
    if not run.labels[0].hidden and not text.startswith(run.text[: widths[0]], at):
        return 0, at
    done = begun = 0
    while True:
        if (shown := _shown_up_to_hidden(node, done, begun, text, at)) is not None:
            done, size = shown
            at += size
        else:
            same = _common_bytes(run.text, begun, text, at)
            if begun + same == len(run.text):  # maybe within a character, which goes on below
                return len(widths), at + same
            # Only tokens that may end within so many bytes: most of a long edge is not needed.
            ends = list(accumulate(widths[: begun + same + 1 + widths.count(0)]))
            done = _last_token_end(node, ends, done, begun + same, text, at - begun)
            at += (ends[done - 1] if done else 0) - begun
        after = run.skip_hidden(done)
        if after == done or at >= len(text):
            return done, at
        done = after
        if done == len(widths):
            return done, at
        begun = sum(widths[:done])


def _shown_up_to_hidden(node: Place, done: int, begun: int, text: bytes, at: int) -> tuple[int, int] | None:
    """The strides before the next hidden token, and their bytes from `begun` on, if `text` shows just these.

    So do nearly all texts that go on from an answer. None leaves it to a search for the last common token.
    """
    run = node.payload
    widths, hidden = run.widths, run.find_hidden(done)
    if hidden in (done, len(widths)) or not widths[hidden - 1] or not widths[hidden]:
        return None
    end = len(run.text) - sum(widths[hidden:])
    behind = at + end - begun
    if not text.startswith(run.text[begun:end], at) or not is_boundary(node.key, hidden):
        return None
    if text.startswith(run.text[end : end + widths[hidden]], behind) or within_character(text, behind):
        return None
    return hidden, end - begun


def _common_bytes(edge: bytes, begin: int, text: bytes, at: int) -> int:
    if edge[begin : begin + 1] != text[at : at + 1] or begin >= len(edge):
        return 0
    same: int = common_prefix(edge[begin:], text, at, 1)
    return same


def _last_token_end(node: Place, ends: list[int], done: int, limit: int, text: bytes, base: int) -> int:
    """The strides, `done` at least, after which a token ends and of whose text no more than `limit` is used.

    `base`: where in `text` the edge would begin.
    """
    last = bisect_right(ends, limit)
    if last <= done:
        return done
    first = max(bisect_left(ends, ends[last - 1]), done) + 1
    chunks: int = node.payload.chunks
    for strides in chain(range(first, last + 1), range(first - 1, max(done, chunks), -1)):
        if is_boundary(node.key, strides) and not within_character(text, base + ends[strides - 1]):
            return strides
    return done


def _is_token_end(here: TextPosition, text: bytes) -> bool:
    key = here.node.key
    return not key or (is_boundary(key, len(key) // STRIDE) and not within_character(text, here.text))


def _last_boundary(here: TextPosition, text: bytes) -> TextPosition | None:
    run = here.node.payload
    strides, at = len(run.widths), here.text
    while strides > run.chunks + 1:
        strides -= 1
        at -= run.widths[strides]
        if is_boundary(here.node.key, strides) and not within_character(text, at):
            tokens = here.tokens - run.tokens + strides - min(run.chunks, strides)
            return TextPosition(here.node, here.node.start + strides, at, tokens)
    return None


def within_character(text: bytes, at: int) -> bool:
    """Does a character go on at this byte?"""
    return at < len(text) and 0x80 <= text[at] < 0xC0


def read_trajectory(place: PrefixMatch[bytes, TokenRun]) -> Trajectory:
    """Return all tokens from the root to `place`, with their records."""
    logprobs = bytearray()
    spans: list[tuple[int, TokenLabel]] = []
    experts: list[tuple[int, bytes]] = []
    tokens = 0
    for node, strides in _path_edges(place):
        run = node.payload
        chunks = run.chunks
        logprobs += run.logprobs[4 * chunks : 4 * strides]
        labelled = run.spans if strides == len(run.widths) else cut_spans(run.spans, 0, strides)
        more = [(tokens + end - chunks, label) for end, label in labelled if end > chunks]
        if spans and more and spans[-1][1] == more[0][1]:
            spans.pop()
        spans += more
        experts += [(tokens + end - chunks, raw) for end, raw in run.experts if end <= strides]
        tokens += max(strides - chunks, 0)
    return Trajectory(read_ids(place), array("f", bytes(logprobs)), tuple(spans), experts=experts)


def read_ids(place: PrefixMatch[bytes, TokenRun]) -> array[int]:
    """The token ids that lead to `place`."""
    keys = [node.key[node.payload.chunks * STRIDE : strides * STRIDE] for node, strides in _path_edges(place)]
    return array("I", unpack_tokens(b"".join(keys)))


def encode_ids(end: Place) -> bytes:
    """Return the token ids that lead to the end of `end` as JSON, without the brackets."""
    encoded: list[bytes] = []
    own: list[bytes] = []
    for node in end.path_from_root():
        key = node.key[node.payload.chunks * STRIDE :]
        if node.children and len(key) >= _SHARED_KEY_BYTES:
            encoded += [_encode_key(b"".join(own)), _encode_shared_key(key)]
            own = []
        else:
            own.append(key)
    encoded.append(_encode_key(b"".join(own)))
    return b",".join(filter(None, encoded))


def _encode_key(key: bytes) -> bytes:
    return msgspec.json.encode(array("I", unpack_tokens(key)).tolist())[1:-1]


_encode_shared_key = lru_cache(_SHARED_KEYS)(_encode_key)
"""System prompts are on the way to all their conversations, which have one object for a key."""


def forget_encoded_ids() -> None:
    """Forget the kept JSON: what is removed on request must not stay in it."""
    _encode_shared_key.cache_clear()


def skip_hidden(
    reached: TextPosition, own: tuple[TextPosition, set[Place], int] | None = None
) -> tuple[TextPosition, bool]:
    """Past the tokens that follow and of which no text was shown: a stop token, say.

    Along `own` way, with its nodes and where it ends, if `reached` is on it. Else, where several ways go on
    so, along the one used last; and whether that was so.
    """
    node, strides, tokens, several = reached.node, reached.strides, reached.tokens, False
    nodes, limit = (own[1], own[2]) if own is not None and own[0] is reached else (None, None)
    while True:
        if node.parent is not None and strides < node.end:
            inside = strides - node.start
            moved = node.payload.skip_hidden(inside) - inside
            moved = moved if limit is None else min(moved, limit - strides)
            strides, tokens = strides + moved, tokens + moved
            if strides < node.end:
                break
        hidden = [child for child in node.children.values() if child.payload.labels[0].hidden]
        if nodes is not None:
            hidden = [child for child in hidden if child in nodes and strides != limit]
        if not hidden:
            break
        several |= len(hidden) > 1
        node = max(hidden, key=lambda child: child.payload.clock)
    return TextPosition(node, strides, reached.text, tokens), several


def _path_edges(place: PrefixMatch[bytes, TokenRun]) -> Iterator[tuple[Place, int]]:
    """Yield the nodes that lead to `place` with their stride counts."""
    start = 0
    for node in place.node.path_from_root():
        if start < place.length:
            yield node, min(node.end, place.length) - start
        start = node.end


def truncate_position(reached: TextPosition, tokens: int) -> TextPosition:
    """The position on the same path with only so many tokens before it.

    All tokens in between must be shown in the text and known one by one; else it is `reached` itself.
    """
    node, strides, at = reached.node, reached.strides, reached.text
    surplus = reached.tokens - tokens
    while surplus and node.parent is not None:
        run, inside = node.payload, strides - node.start
        first = inside - min(surplus, inside)
        dropped = cut_spans(run.spans, first, inside)
        if run.chunks or any(label.hidden for _, label in dropped):
            return reached
        at -= sum(run.widths[first:inside])
        surplus -= inside - first
        strides = node.start + first
        if not first:
            node = node.parent
    return TextPosition(node, strides, at, tokens)


def is_answered(reached: TextPosition) -> bool:
    """True if the last token before `reached` was sampled."""
    node, strides = reached.node, reached.strides - reached.node.start
    return node.parent is not None and strides > 0 and node.payload.label_at(strides - 1).source == "sampled"


def is_mid_answer(reached: TextPosition) -> bool:
    """True if `reached` lies within an answer, with more of it known to follow on the same edge."""
    node, strides = reached.node, reached.strides
    if node.parent is None or strides >= node.end:
        return False
    label = node.payload.label_at(strides - node.start)
    return label.source == "sampled" and not label.hidden
