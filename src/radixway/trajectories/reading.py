"""From a position in the tree to the tokens that lead there."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from radixway.radix import Match
from radixway.trajectories.records import Label, Trajectory, cut_spans
from radixway.trajectories.run import Run
from radixway.trajectories.strides import STRIDE, unpack
from radixway.trajectories.walk import Place, Reached


def read(place: Match[bytes, Run]) -> Trajectory:
    """All tokens from the root to `place`, with their records."""
    logprobs = bytearray()
    spans: list[tuple[int, Label]] = []
    experts: list[tuple[int, bytes]] = []
    tokens = 0
    for node, strides in _edges(place):
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


def read_ids(place: Match[bytes, Run]) -> array[int]:
    """The ids alone."""
    keys = [node.key[node.payload.chunks * STRIDE : strides * STRIDE] for node, strides in _edges(place)]
    return array("I", unpack(b"".join(keys)))


def behind_hidden(
    reached: Reached, own: tuple[Reached, set[Place], int] | None = None
) -> tuple[Reached, bool]:
    """Past the tokens that follow and of which no text was shown: a stop token, say.

    Along `own` way, with its nodes and where it ends, if `reached` is on it. Else, where several ways go on
    so, along the one used last; and whether that was so.
    """
    node, strides, tokens, several = reached.node, reached.strides, reached.tokens, False
    nodes, limit = (own[1], own[2]) if own is not None and own[0] is reached else (None, None)
    while True:
        if node.parent is not None and strides < node.end:
            inside = strides - node.start
            moved = node.payload.after_hidden(inside) - inside
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
    return Reached(node, strides, reached.text, tokens), several


def _edges(place: Match[bytes, Run]) -> Iterator[tuple[Place, int]]:
    """The nodes that lead to `place`, and how many strides of each do."""
    start = 0
    for node in place.node.path():
        if start < place.length:
            yield node, min(node.end, place.length) - start
        start = node.end


def step_back(reached: Reached, tokens: int) -> Reached:
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
    return Reached(node, strides, at, tokens)


def breaks_off(reached: Reached) -> bool:
    """Does the position lie within an answer, with more of it known to follow on the same edge?"""
    node, strides = reached.node, reached.strides
    if node.parent is None or strides >= node.end:
        return False
    ((_, label),) = cut_spans(node.payload.spans, strides - node.start, strides - node.start + 1)
    return label.source == "sampled" and not label.hidden
