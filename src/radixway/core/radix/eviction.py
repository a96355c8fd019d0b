"""Which leaf goes first: a queue that is in order at any time, so that an eviction never searches."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic

from radixway.core.radix.node import K, P, RadixNode

Order = Callable[[RadixNode[Any, Any]], int]
"""Says which segment a node belongs to, from its `hits` and `priority`.

Lower segments are evicted first, and in each the least recently used leaf. Both counts only rise and are
never below a child's; the segment must rise with them.
"""


def lru(node: RadixNode[Any, Any]) -> int:
    """Evict the least recently used `node` first: all nodes in one segment."""
    return 0


def slru(node: RadixNode[Any, Any]) -> int:
    """Segmented LRU: what no match ever came back to goes first."""
    return 1 if node.hits else 0


def lfu(node: RadixNode[Any, Any]) -> int:
    """Least frequently used first, frequency in powers of two: of 8 and 12 hits neither is the rarer."""
    return node.hits.bit_length()


def priority(node: RadixNode[Any, Any]) -> int:
    """Evict the `node` of the lowest priority first."""
    return node.priority


class EvictionQueue(Generic[K, P]):
    """Orders unpinned nodes by segment, then by last use.

    A use of a path renews its nodes from the bottom up, so that a parent always stands behind its children:

        next to go ─▶  leaf a ─ leaf b ─ parent of a and b ─ leaf c ─ …  ◀─ used last

    The first node is therefore always a leaf. Keeping the order costs a few dict operations per node of a
    path that is used; finding the first costs one look, plus one per segment.
    """

    def __init__(self, order: Order) -> None:
        self._order = order
        self._segments: dict[int, OrderedDict[RadixNode[K, P], None]] = {}

    def move_to_back(self, node: RadixNode[K, P]) -> None:
        """Put `node` last in the segment it belongs to now."""
        segment = self._order(node)
        if segment == node.segment:
            self._segments[segment].move_to_end(node)
        else:
            self.discard_node(node)
            self._segments.setdefault(segment, OrderedDict())[node] = None
            node.segment = segment

    def put_first(self, node: RadixNode[K, P]) -> None:
        """Put `node` first in the segment it belongs to."""
        self.move_to_back(node)
        self._segments[self._order(node)].move_to_end(node, last=False)

    def discard_node(self, node: RadixNode[K, P]) -> None:
        """Take `node` out if it is in."""
        if node.segment is not None:
            segment = self._segments[node.segment]
            del segment[node]
            if not segment:
                del self._segments[node.segment]
            node.segment = None

    def next_victim(self) -> RadixNode[K, P] | None:
        """The leaf to evict next, or None when nothing may go."""
        if not self._segments:
            return None
        return next(iter(self._segments[min(self._segments)]))

    def check(self, nodes: set[RadixNode[K, P]]) -> None:
        """Assert that exactly `nodes` are here, each in its segment and behind its children."""
        queued = [(segment, node) for segment in sorted(self._segments) for node in self._segments[segment]]
        position = {node: i for i, (_, node) in enumerate(queued)}
        assert all(self._segments.values()), "an empty segment was left behind"
        assert len(position) == len(queued), "a node is queued twice"
        assert position.keys() <= nodes, "a node is queued that is pinned or gone"
        assert position.keys() >= nodes, "an unpinned node is not queued"
        for segment, node in queued:
            assert segment == node.segment == self._order(node), "a node is in the wrong segment"
            for child in node.children.values():
                assert position[child] < position[node], "a node would be evicted before its child"
