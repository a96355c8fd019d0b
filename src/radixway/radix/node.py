"""What a radix tree is made of: nodes, the payloads they carry, and positions between them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar


class Payload(Protocol):
    """What an edge carries; cut and joined as the edge is. Lengths are strides of the key."""

    def split(self, at: int) -> tuple[Self, Self]:
        """The first `at` strides and the rest; `0 < at < strides of the edge`. Leaves `self` as it is."""
        ...

    def join(self, more: Self) -> Self:
        """This payload continued by `more`. Only `RadixTree.grow` asks for it."""
        ...


K = TypeVar("K", str, bytes)
P = TypeVar("P", bound=Payload)


class Node(Generic[K, P]):
    """One edge and the point where it ends.

        root ──"abcd"──▶ A ──"efgh"──▶ B        A.start, A.end = 0, 4
        0                4             8        B.start, B.end = 4, 8        (strides from the root)

    While a node is in the tree, the key from the root to its end stays what it is: a split puts a new node
    *above* it. (One exception: `RadixTree.grow` makes a leaf longer for the one owner that has it locked.)
    """

    __slots__ = (
        "children",
        "end",
        "hits",
        "key",
        "last_used",
        "parent",
        "payload",
        "pins",
        "priority",
        "queued",
    )

    key: K
    """The slice of keys on this edge, a whole number of strides; empty on a root."""
    payload: P
    """What the edge carries. A root has none (the attribute is unset)."""
    parent: Node[K, P] | None
    """None on a root, and on a node that has left the tree."""
    children: dict[K, Node[K, P]]
    """By the first stride of their edges."""
    end: int
    """Strides from the root to the end of this edge; 0 only on a root."""
    pins: int
    """Locks that end here + children that are pinned. A pinned node is never evicted."""
    last_used: int
    """Tick of the tree's logical clock; never below a child's."""
    hits: int
    """How often a match was used here or below."""
    priority: int
    """The highest among the insertions that went through here."""
    queued: bool
    """Whether the eviction queue holds an entry for this node."""

    def __init__(self, key: K, parent: Node[K, P] | None, end: int) -> None:
        self.key = key
        self.parent = parent
        self.children = {}
        self.end = end
        self.pins = 0
        self.last_used = 0
        self.hits = 0
        self.priority = 0
        self.queued = False

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
        """Whether the node is (still) in a tree."""
        return self.parent is not None or self.end == 0

    def path(self) -> list[Node[K, P]]:
        """The nodes from just below the root down to this one."""
        nodes = []
        node = self
        while node.parent is not None:
            nodes.append(node)
            node = node.parent
        nodes.reverse()
        return nodes


class Root(Node[K, P]):
    """Where the sequences of a namespace begin. It has no edge and is never pinned.

    It is in the tree only while it has children; a match in an empty namespace ends on a root of its own.
    """

    __slots__ = ("namespace",)

    def __init__(self, empty: K, namespace: Hashable) -> None:
        super().__init__(empty, None, 0)  # type: ignore[arg-type]  # mypy loses K here
        self.namespace = namespace


@dataclass(slots=True)
class Match(Generic[K, P]):
    """A position in the tree: how far a key was found.

        root ──"abcd"──▶ A ──"efgh"──▶ B

        match("abcd")      node A, length 4, inside 0      the whole of A
        match("abcdef")    node B, length 6, inside 2      ends in the middle of B's edge
        match("abcdXY")    node A, length 4, inside 0      A has no child that goes on with "X"

    It stays usable while the tree changes around it: splits and insertions do not move it; an eviction of its
    node is seen (`node.attached`).
    """

    node: Node[K, P]
    """The deepest node the match reached: its end, or the middle of its edge."""
    length: int
    """Strides matched, counted from the root."""

    @property
    def inside(self) -> int:
        """Strides matched of `node`'s edge when the match ends in the middle of it, else 0."""
        return self.length - self.node.start if self.length < self.node.end else 0

    def payloads(self) -> list[P]:
        """The payloads from the root to here, the last one cut where the match ends; changes nothing."""
        nodes = self.node.path()
        while nodes and nodes[-1].start >= self.length:
            nodes.pop()
        parts = [node.payload for node in nodes]
        if nodes and self.length < nodes[-1].end:
            parts[-1] = parts[-1].split(self.length - nodes[-1].start)[0]
        return parts


@dataclass(slots=True)
class Insert(Match[K, P]):
    """Where an inserted key ends (always at the end of `node`), and how much of it was there before.

    payload handed in   [0, existed) duplicates, dropped    [existed, …) stored in `node`
    """

    existed: int
    """Strides of the inserted key that the tree already had."""
