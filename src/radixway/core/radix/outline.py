"""A tree too large to show, in its hottest nodes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush, nlargest
from typing import Generic

from radixway.core.radix.node import K, P, RadixNode, RadixRoot
from radixway.core.radix.tree import RadixTree

_MAX_CHILDREN_COUNTED = 50_000


@dataclass(slots=True)
class OutlineNode(Generic[K, P]):
    """A node that is shown, and what of its children is not."""

    node: RadixNode[K, P]
    parent: int | None
    """Shown parent; None: it begins its namespace's sequences."""
    level: int
    """Nodes above it."""
    hidden: int = 0
    """Children that are not shown."""
    hidden_strides: int = 0
    """On their edges."""


def outline(
    tree: RadixTree[K, P],
    max_nodes: int,
    max_levels: int,
    heat: Callable[[RadixNode[K, P]], int] = lambda node: node.hits,
) -> list[OutlineNode[K, P]]:
    """The `max_nodes` nodes of most `heat`, of equals those with the longest edges; each after its parent.

    No child may have more heat than its parent, so that none is shown without its ancestors. Takes time
    in proportion to the children of the shown nodes, of which it looks at 50,000 at most.
    """
    shown: list[OutlineNode[K, P]] = []
    heap: list[tuple[int, int, int, RadixNode[K, P], int | None, int]] = []
    looked_at = pushed = 0

    def push(children: Iterator[RadixNode[K, P]], parent: int | None, level: int) -> None:
        nonlocal looked_at, pushed
        left = max(0, _MAX_CHILDREN_COUNTED - looked_at)
        seen = [child for child, _ in zip(children, range(left), strict=False)]
        looked_at += len(seen)
        for child in nlargest(max_nodes, seen, key=lambda child: (heat(child), child.size)):
            pushed += 1
            heappush(heap, (-heat(child), -child.size, pushed, child, parent, level))

    for root in tree.roots():
        push(iter(root.children.values()), None, 0)
    while heap and len(shown) < max_nodes:
        *_, node, parent, level = heappop(heap)
        shown.append(OutlineNode(node, parent, level, len(node.children), _strides_below(node)))
        if parent is not None:
            above = shown[parent]
            above.hidden -= 1
            above.hidden_strides -= node.size
        if level + 1 < max_levels:
            push(iter(node.children.values()), len(shown) - 1, level + 1)
    return shown


def root_of(node: RadixNode[K, P]) -> RadixRoot[K, P]:
    """Return the root at which the sequence of `node` begins."""
    while node.parent is not None:
        node = node.parent
    assert isinstance(node, RadixRoot), "only a node of a tree has a root"
    return node


def _strides_below(node: RadixNode[K, P]) -> int:
    """Count strides on the edges of `node`'s children, up to a limit."""
    return sum(
        child.size for child, _ in zip(node.children.values(), range(_MAX_CHILDREN_COUNTED), strict=False)
    )
