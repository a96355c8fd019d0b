"""A text tree as Slime's router published it, to set ours beside: what it costs, not how it was written.

Written anew from a description of how that tree behaves (2025-10 to 2026-03, `StringRadixTrie`); nothing of
it is copied. What decides its speed and its size is kept as it was:

- An edge matches only as a whole. Nodes are never split, so two texts share what was inserted earlier as a
  complete text and nothing else; a group's first turns find nothing.
- Children are a list. Each lookup goes through all of them; of those the text begins with, the longest
  wins.
- Tokens, log-probabilities and mask are lists of Python's own numbers, as they came out of `json.loads`.
- Tokens of a known part are skipped by their number and not compared. The first one to write stays.
- One lock, and times and counters of each node on the way, also for lookups.

Left out is what these figures do not need: removal, collection by weight version (it was off when the tree
was measured) and the tokenizer.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import RLock


@dataclass(eq=False)
class PublishedNode:
    """An edge's own text and tokens. Not slotted, as the published one is not."""

    text: str
    token_ids: list[int]
    logp: list[float]
    loss_mask: list[int]
    parent: PublishedNode | None
    weight_version: int | None = None
    children: list[PublishedNode] = field(default_factory=list)
    last_access_time: float = field(default_factory=time.time)
    access_count: int = 0
    ref_count: int = 0


@dataclass
class PublishedMatch:
    """What a lookup found; lists are per token."""

    matched_prefix: str
    token_ids: list[int]
    logp: list[float]
    loss_mask: list[int]
    remaining_string: str
    last_node: PublishedNode


class PublishedTrie:
    """Text → tokens, log-probabilities and loss mask; edges match whole."""

    def __init__(self) -> None:
        self.root = PublishedNode("", [], [], [], None)
        self.tokens = 0
        self.hits = 0
        self.misses = 0
        self._lock = RLock()

    def find_longest_prefix(self, text: str) -> PublishedMatch:
        """The edges that `text` begins with, one after the other."""
        with self._lock:
            token_ids: list[int] = []
            logp: list[float] = []
            loss_mask: list[int] = []
            node, rest = self.root, text
            while rest and (child := _longest_child(node, rest)) is not None:
                child.last_access_time = time.time()
                child.access_count += 1
                self.hits += 1
                token_ids.extend(child.token_ids)
                logp.extend(child.logp)
                loss_mask.extend(child.loss_mask)
                node, rest = child, rest[len(child.text) :]
            if node is self.root:
                self.misses += 1
            matched = text[: len(text) - len(rest)]
            return PublishedMatch(matched, token_ids, logp, loss_mask, rest, node)

    def insert(
        self,
        text: str,
        token_ids: Sequence[int],
        logp: Sequence[float],
        loss_mask: Sequence[int],
        weight_version: int,
    ) -> bool:
        """Store what is new: the text behind the edges it begins with, and as many tokens."""
        with self._lock:
            node, rest, skipped = self.root, text, 0
            while rest and (child := _longest_child(node, rest)) is not None:
                child.last_access_time = time.time()
                child.weight_version = weight_version
                skipped += len(child.token_ids)
                node, rest = child, rest[len(child.text) :]
            if rest:
                new = PublishedNode(
                    rest,
                    list(token_ids[skipped:]),
                    list(logp[skipped:]),
                    list(loss_mask[skipped:]),
                    node,
                    weight_version,
                )
                node.children.append(new)
                self.tokens += len(new.token_ids)
            return True


def _longest_child(node: PublishedNode, rest: str) -> PublishedNode | None:
    longest, length = None, 0
    for child in node.children:
        if rest.startswith(child.text) and len(child.text) > length:
            longest, length = child, len(child.text)
    return longest
