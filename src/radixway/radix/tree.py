"""The radix tree itself: match, insert, grow, lock, evict."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic

from radixway.radix.eviction import EvictionQueue, Order, is_evictable, lru
from radixway.radix.node import Insert, K, Match, Node, P, Root


class RadixTree(Generic[K, P]):
    """A cache of sequences that share their prefixes.

    `width` is the number of key units that make one *stride*, the unit of every length here and the grid on
    which edges are cut: 1 for text, `4 * page_size` for little-endian int32 token ids packed into bytes. A
    key is taken up to its last whole stride. `order` says which leaf is evicted first.

    A namespace (tenant, LoRA, cache salt) is a root of its own; all share one order of eviction. Nothing here
    is recursive, reads a clock or locks threads: one thread owns a tree.
    """

    def __init__(self, *, width: int = 1, order: Order = lru) -> None:
        if width < 1:
            raise ValueError(f"width is the number of key units per stride and at least 1, not {width}")
        self.width = width
        self.size = 0
        """Strides in the tree."""
        self.locked_size = 0
        """Strides that locks keep from being evicted."""
        self._roots: dict[Hashable, Root[K, P]] = {}
        self._queue: EvictionQueue[K, P] = EvictionQueue(order)
        self._count = 0
        self._clock = 0

    def __len__(self) -> int:
        """Nodes, roots not counted."""
        return self._count

    @property
    def evictable_size(self) -> int:
        """Strides that `evict` could free now."""
        return self.size - self.locked_size

    def match(
        self,
        key: K,
        namespace: Hashable = None,
        *,
        touch: bool = True,
        after: Match[K, P] | None = None,
    ) -> Match[K, P]:
        """Find the longest prefix of `key` in the tree. Never splits an edge or makes a node.

        `touch` counts it as a use of that prefix (`last_used`, `hits`); a scheduler that only looks says no.
        `after`, an earlier match of the same key, makes it look only for what has come since.
        """
        node = self._resume(after) if after is not None else None
        if node is None:
            node = self._roots.get(namespace) or Root(key[:0], namespace)
        node, at = self._walk(node, key, node.end * self.width)
        found = Match(node, at // self.width)
        if touch:
            self.touch(found)
        return found

    def touch(self, where: Match[K, P] | Node[K, P]) -> None:
        """Count one use of the path to `where`."""
        self._clock += 1
        node: Node[K, P] | None = where.node if isinstance(where, Match) else where
        while node is not None:
            node.last_used = self._clock
            node.hits += 1
            node = node.parent

    def insert(self, key: K, payload: P, namespace: Hashable = None, *, priority: int = 0) -> Insert[K, P]:
        """Store `key`; `payload` covers all of it, and the part that the tree did not have is kept.

        Counts as recent use, not as a hit. The returned node ends exactly at the key's last whole stride.
        """
        root = self._roots.get(namespace)
        if root is None:
            root = Root(key[:0], namespace)
            if len(key) >= self.width:
                self._roots[namespace] = root
        return self._insert(root, key, payload, priority)

    def grow(self, node: Node[K, P], key: K, payload: P) -> Insert[K, P]:
        """Continue a locked node by `key`, and move the caller's lock to the end of it.

        The same as inserting the longer sequence, locking it and unlocking `node`, but in time that depends
        on the new part only; a leaf that nobody else has locked gets longer in place. `payload` and `existed`
        count from the end of `node`.
        """
        if isinstance(node, Root):
            grown = self.insert(key, payload, node.namespace)
            self.lock(grown.node)
            return grown
        if not node.pins:
            raise ValueError("only a locked node grows: lock it first")
        if node.children or node.pins > 1:
            grown = self._insert(node, key, payload, node.priority)
            self.lock(grown.node)
            self.unlock(node)
            return grown
        strides = len(key) // self.width
        if strides:
            node.key += key[: strides * self.width]
            node.payload = node.payload.join(payload)
            node.end += strides
            self.size += strides
            self.locked_size += strides
        self._refresh(node, node.priority)
        return Insert(node, node.end, existed=0)

    def lock(self, where: Match[K, P] | Node[K, P]) -> Node[K, P]:
        """Keep the path to `where` from being evicted, until the returned node is unlocked.

        Splits the edge if the match ends inside it. Work is proportional to the part of the path that no
        other lock holds yet. Raises ValueError if that part of the tree has been evicted since.
        """
        locked = node = self._node_at(where) if isinstance(where, Match) else where
        if not node.attached:
            raise ValueError("this part of the tree has been evicted since it was matched: match again")
        while node.parent is not None:
            node.pins += 1
            if node.pins > 1:
                break
            self.locked_size += node.size
            node = node.parent
        return locked

    def unlock(self, node: Node[K, P]) -> None:
        """Take back one `lock`, which returned `node`."""
        while node.parent is not None:
            if not node.pins:
                raise ValueError("this node is not locked")
            node.pins -= 1
            if node.pins:
                break
            self.locked_size -= node.size
            if not node.children:
                self._queue.push(node)
            node = node.parent

    def evict(self, strides: int) -> list[P]:
        """Free `strides` strides of unlocked leaves, first in order first, and return their payloads.

        A leaf that holds more than is still needed loses its end only. Frees less if there is no more.
        """
        freed: list[P] = []
        goal = self.size - strides
        while self.size > goal and (leaf := self._queue.pop()) is not None:
            surplus = leaf.size - (self.size - goal)
            if surplus > 0:
                self._split(leaf, surplus)
            freed.append(self._detach(leaf))
        return freed

    def remove(self, node: Node[K, P]) -> list[P]:
        """Take `node` and all below it out of the tree, and return the payloads. Refuses what is locked."""
        if not node.attached:
            return []
        if node.pins or (node.parent is None and any(child.pins for child in node.children.values())):
            raise ValueError("something at or below this node is locked: unlock it first")
        below = [n for n in _depth_first(node) if n.parent is not None]
        freed = [self._detach(n) for n in reversed(below)]
        self._queue.forget_departed(self._count)
        return freed

    def clear(self, *namespaces: Hashable) -> list[P]:
        """Remove all there is in `namespaces` (none named: in all), and return the payloads."""
        freed: list[P] = []
        for namespace in namespaces or list(self._roots):
            root = self._roots.get(namespace)
            if root is not None:
                freed += self.remove(root)
        return freed

    def _walk(self, node: Node[K, P], key: K, at: int) -> tuple[Node[K, P], int]:
        """Go down from `node`, whose end is `at` key units deep, as far as `key` leads."""
        width = self.width
        while True:
            child = node.children.get(key[at : at + width])
            if child is None:
                return node, at
            edge = child.key
            if not key.startswith(edge, at):
                return child, at + width * _common(edge, key, at, width)
            node = child
            at += len(edge)

    def _resume(self, match: Match[K, P]) -> Node[K, P] | None:
        """The deepest node that ends within `match`, or None if its part of the tree is gone."""
        node = match.node
        if node.parent is None:
            return None
        while node.end > match.length and node.parent is not None:
            node = node.parent
        return node

    def _node_at(self, match: Match[K, P]) -> Node[K, P]:
        """The node that ends where `match` does, split off for it if need be."""
        node = match.node
        while node.parent is not None and node.parent.end >= match.length:
            node = node.parent
        if match.length < node.end and node.parent is not None:
            node = self._split(node, match.length - node.start)
        return node

    def _insert(self, top: Node[K, P], key: K, payload: P, priority: int) -> Insert[K, P]:
        """Insert `key` below `top`."""
        width = self.width
        strides = len(key) // width
        node, at = self._walk(top, key, 0)
        existed = at // width
        depth = top.end + existed
        if depth < node.end:
            node = self._split(node, depth - node.start)
        if existed < strides:
            leaf = Node(key[at : strides * width], node, top.end + strides)
            leaf.payload = payload.split(existed)[1] if existed else payload
            node.children[key[at : at + width]] = leaf
            self._count += 1
            self.size += strides - existed
            node = leaf
        self._refresh(node, priority)
        if existed < strides:
            self._queue.push(node)
        return Insert(node, node.end, existed)

    def _refresh(self, node: Node[K, P] | None, priority: int) -> None:
        """Count an insertion at the end of `node`."""
        self._clock += 1
        while node is not None:
            node.last_used = self._clock
            node.priority = max(node.priority, priority)
            node = node.parent

    def _split(self, node: Node[K, P], at: int) -> Node[K, P]:
        """Cut `node`'s edge after `at` strides. A new node takes the upper part and is returned."""
        parent = node.parent
        assert parent is not None
        width, cut = self.width, at * self.width
        upper: Node[K, P] = Node(node.key[:cut], parent, parent.end + at)
        upper.payload, node.payload = node.payload.split(at)
        parent.children[node.key[:width]] = upper
        node.key = node.key[cut:]
        node.parent = upper
        upper.children[node.key[:width]] = node
        upper.pins = 1 if node.pins else 0
        upper.last_used, upper.hits, upper.priority = node.last_used, node.hits, node.priority
        self._count += 1
        return upper

    def _detach(self, leaf: Node[K, P]) -> P:
        """Take an unpinned leaf out of the tree."""
        parent = leaf.parent
        assert parent is not None and is_evictable(leaf)
        self.size -= leaf.size
        self._count -= 1
        del parent.children[leaf.key[: self.width]]
        leaf.parent = None
        if is_evictable(parent):
            self._queue.push(parent)
        elif isinstance(parent, Root) and not parent.children:
            del self._roots[parent.namespace]
        return leaf.payload


def _common(edge: K, key: K, at: int, width: int) -> int:
    """How many strides `edge` and `key[at:]` have in common, at least one and not all, by bisection."""
    low, high = 1, min(len(edge), len(key) - at) // width
    while low < high:
        middle = (low + high + 1) // 2
        if edge.startswith(key[at + low * width : at + middle * width], low * width):
            low = middle
        else:
            high = middle - 1
    return low


def _depth_first(top: Node[K, P]) -> Iterator[Node[K, P]]:
    """Every node from `top` down, parents before children."""
    stack = [top]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(node.children.values())
