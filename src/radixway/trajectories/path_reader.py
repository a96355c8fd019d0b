"""From a position in the tree to the tokens that lead there."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from radixway.core.radix import PrefixMatch
from radixway.trajectories.text_match import Place, TextPosition
from radixway.trajectories.token_keys import STRIDE, unpack_tokens
from radixway.trajectories.token_records import TokenLabel, Trajectory, cut_spans
from radixway.trajectories.token_run import TokenRun


def read_trajectory(place: PrefixMatch[bytes, TokenRun]) -> Trajectory:
    """All tokens from the root to `place`, with their records."""
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
    """The nodes that lead to `place`, and how many strides of each do."""
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


def is_mid_answer(reached: TextPosition) -> bool:
    """True if `reached` lies within an answer, with more of it known to follow on the same edge."""
    node, strides = reached.node, reached.strides
    if node.parent is None or strides >= node.end:
        return False
    ((_, label),) = cut_spans(node.payload.spans, strides - node.start, strides - node.start + 1)
    return label.source == "sampled" and not label.hidden
