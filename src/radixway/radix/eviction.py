"""Which leaf goes first: orders as one-line keys, and the queue that keeps leaves in such an order."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any, Generic

from radixway.radix.node import K, Node, P

Order = Callable[[Node[Any, Any]], Any]
"""Maps a node to its place in the order of eviction, smallest first. Never falls while the node lives."""


def lru(node: Node[Any, Any]) -> int:
    """Least recently used first."""
    return node.last_used


def lfu(node: Node[Any, Any]) -> tuple[int, int]:
    """Least frequently used first, among equals the least recently used."""
    return node.hits, node.last_used


def slru(node: Node[Any, Any]) -> tuple[bool, int]:
    """Segmented LRU: what was used at most once goes before what was used again."""
    return node.hits > 1, node.last_used


def priority(node: Node[Any, Any]) -> tuple[int, int]:
    """Lowest priority first, among equals the least recently used."""
    return node.priority, node.last_used


class EvictionQueue(Generic[K, P]):
    """Every leaf that may go, in order; kept while the tree changes, so that an eviction never scans it.

    A lazy heap: a node has at most one entry, under the place it had when it was queued. Since places only
    rise, the smallest entry whose place is still true is the smallest of all; one that has risen is put back,
    one that is no longer an unpinned leaf is dropped.
    """

    def __init__(self, order: Order) -> None:
        self._order = order
        self._heap: list[tuple[Any, int, Node[K, P]]] = []
        self._serial = 0  # breaks ties, so that nodes themselves are never compared

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, node: Node[K, P]) -> None:
        """Queue a leaf that became evictable. Does nothing if it is queued already."""
        if not node.queued:
            node.queued = True
            self._serial += 1
            heappush(self._heap, (self._order(node), self._serial, node))

    def pop(self) -> Node[K, P] | None:
        """Take out the leaf that goes first, or None when nothing may go."""
        heap = self._heap
        while heap:
            place, _, node = heappop(heap)
            node.queued = False
            if not is_evictable(node):
                continue
            if place == self._order(node):
                return node
            self.push(node)
        return None

    def forget_departed(self, live: int) -> None:
        """Drop entries of nodes that left the tree otherwise, once they outnumber the `live` nodes."""
        if len(self._heap) > 2 * live:
            self._heap = [entry for entry in self._heap if entry[2].attached]
            heapify(self._heap)

    def check(self, leaves: set[Node[K, P]]) -> None:
        """Assert that exactly the queued nodes have an entry each, every one of `leaves` among them."""
        nodes = [node for _, _, node in self._heap]
        assert len(set(nodes)) == len(nodes), "a node is queued twice"
        assert all(node.queued for node in nodes), "an entry's node does not know that it is queued"
        assert leaves <= set(nodes), "an evictable leaf is not queued"
        for i, entry in enumerate(self._heap):
            assert entry[0] <= self._order(entry[2]), "a node's place in the order fell"
            assert i == 0 or self._heap[(i - 1) // 2] <= entry, "the heap is out of order"


def is_evictable(node: Node[Any, Any]) -> bool:
    """Whether the node is an unpinned leaf of the tree."""
    return node.parent is not None and not node.pins and not node.children
