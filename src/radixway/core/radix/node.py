"""The parts of a radix tree: nodes, the payloads they carry, and positions on their edges."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, Protocol, Self, TypeVar


class Payload(Protocol):
    """The payload of an edge; cut and joined as the edge is. Lengths are in strides of the key."""

    def split(self, at: int) -> tuple[Self, Self]:
        """The part for the first `at` strides and the part for the rest; `self` stays as it is."""

    def join(self, more: Self) -> Self:
        """This payload continued by `more`. Only `RadixTree.grow` asks for it."""


K = TypeVar("K", str, bytes)
P = TypeVar("P", bound=Payload)


@dataclass(slots=True, eq=False, repr=False)
class RadixNode(Generic[K, P]):
    """An edge, and the point where it ends.

        root ──"abcd"──▶ A ──"efgh"──▶ B        A.start, A.end = 0, 4
        0                4             8        B.start, B.end = 4, 8        (strides from the root)

    For as long as a node is in the tree, the key from the root to its end stays what it is: an edge that is
    split gets a new node for its *upper* part. One exception: `RadixTree.grow` makes a leaf longer for the
    one owner that has it locked.
    """

    key: K
    """The part of the keys that is on this edge, in whole strides; empty on a root."""
    parent: RadixNode[K, P] | None
    """None on a root, and on a node that has left the tree."""
    end: int
    """Strides from the root to the end of this edge; 0 on a root only."""
    payload: P = field(init=False)
    """Payload of the edge. A root has none: the attribute is unset."""
    children: dict[K, RadixNode[K, P]] = field(default_factory=dict)
    """By the first stride on their edges."""
    pins: int = 0
    """Locks on this node, and one for each child that has pins. What has pins is never evicted."""
    hits: int = 0
    """How many matches were used that ended here or below."""
    priority: int = 0
    """The highest of the insertions, and of the locks that had one, that ended here or below."""
    segment: int | None = None
    """Segment in the eviction queue; None while the node is pinned."""

    @property
    def start(self) -> int:
        """Strides from the root to the beginning of this edge."""
        return self.parent.end if self.parent is not None else 0

    @property
    def size(self) -> int:
        """Strides on this edge."""
        return self.end - self.start

    @property
    def attached(self) -> bool:
        """False once the node has left the tree; a root is always attached."""
        return self.parent is not None or self.end == 0

    def path_from_root(self) -> list[RadixNode[K, P]]:
        """The nodes from the root, which is left out, down to this one."""
        nodes = []
        node = self
        while node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]

    def __repr__(self) -> str:
        pins = f", pins {self.pins}" if self.pins else ""
        return f"<{_excerpt(self.key)}, {self.start}–{self.end}{pins}>"


class RadixRoot(RadixNode[K, P]):
    """The node at which the sequences of a namespace begin. It has no edge and is never pinned.

    It is in the tree only while it has children; a match in an empty namespace ends on a root of its own.
    """

    __slots__ = ("namespace",)

    def __init__(self, empty: K, namespace: Hashable) -> None:
        super().__init__(empty, None, 0)  # type: ignore[arg-type]  # mypy loses K here
        self.namespace = namespace

    def __repr__(self) -> str:
        return f"<root of {self.namespace!r}>"


@dataclass(slots=True)
class PrefixMatch(Generic[K, P]):
    """The longest prefix of a key that is in the tree: a position at the end of a node or in the middle of
    its edge.

        root ──"abcd"──▶ A ──"efgh"──▶ B

        match("abcd")      node A, length 4, inside 0     ends where A does
        match("abcdXY")    node A, length 4, inside 0     nothing goes on from A with "X"
        match("abcdefXY")  node B, length 6, inside 2     ends in the middle of B's edge

    The tree may change around it: splits and insertions leave it true, an eviction shows in `node.attached`.
    """

    node: RadixNode[K, P]
    """The node at or before whose end the match ends; a root if nothing matched."""
    length: int
    """Strides matched, counted from the root."""

    @property
    def inside(self) -> int:
        """Strides matched of `node`'s edge if the match ends in the middle of it, else 0."""
        return self.length - self.node.start if self.length < self.node.end else 0

    def payloads(self) -> list[P]:
        """Payloads of the edges from the root to here, the last one cut where the match ends."""
        path = self.node.path_from_root()
        while path and path[-1].start >= self.length:
            path.pop()
        parts = [node.payload for node in path]
        if path and path[-1].end > self.length:
            parts[-1] = parts[-1].split(self.length - path[-1].start)[0]
        return parts


@dataclass(slots=True)
class InsertResult(PrefixMatch[K, P]):
    """The place where an inserted key ends, always the end of `node`, and how much of it had been there.

    payload handed in    [0, existed) dropped: the tree has its own    [existed, …) kept
    """

    existed: int
    """Strides of the key handed in that the tree had already."""


def _excerpt(key: str | bytes, longest: int = 8) -> str:
    """Return the beginning of `key` for display: text, or token ids."""
    if isinstance(key, str):
        return repr(key if len(key) <= 5 * longest else key[: 5 * longest] + "…")
    tokens = [int.from_bytes(key[i : i + 4], "little") for i in range(0, min(len(key), 4 * longest), 4)]
    more = len(key) // 4 - len(tokens)
    return " ".join(map(str, tokens)) + (f" … {more} more" if more > 0 else "")
