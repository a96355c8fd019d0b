"""The radix tree itself: match, insert, grow, lock, evict."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Generic

from radixway.core.radix.eviction import EvictionQueue, Order, lru
from radixway.core.radix.node import InsertResult, K, P, PrefixMatch, RadixNode, RadixRoot


class RadixTree(Generic[K, P]):
    """A cache of sequences that stores what they have in common once.

    `width` is the number of key units that make one *stride*: the unit of every length here, and the grid on
    which edges are cut. It is 1 for text and `4 * page_size` for little-endian int32 token ids packed into
    bytes. A key counts up to its last whole stride. `order` says which leaf is evicted first.

    A namespace (tenant, LoRA, cache salt) has a root of its own; the order of eviction is one for all.
    Nothing here recurses, reads a clock or locks threads: a tree belongs to one thread.
    """

    def __init__(self, *, width: int = 1, order: Order = lru) -> None:
        if width < 1:
            raise ValueError(f"width is the number of key units in a stride and at least 1, not {width}")
        self.width = width
        self.size = 0
        """Strides in the tree."""
        self.locked_size = 0
        """Strides that locks keep from being evicted."""
        self._roots: dict[Hashable, RadixRoot[K, P]] = {}
        self._queue: EvictionQueue[K, P] = EvictionQueue(order)
        self._count = 0

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
        after: PrefixMatch[K, P] | None = None,
    ) -> PrefixMatch[K, P]:
        """Find the longest prefix of `key` that is in the tree. Splits nothing and adds nothing.

        `touch` counts it as a use of that prefix (see `touch`); a scheduler that is only looking says False.
        `after`, an earlier match of the same key, makes it look only for what has come since.
        """
        start = self._resume(after) if after is not None else None
        if start is None:
            start = self._roots.get(namespace) or RadixRoot(key[:0], namespace)
        node, at = self._descend(start, key, start.end * self.width)
        if touch:
            self.touch(node)
        return PrefixMatch(node, at // self.width)

    def touch(self, where: PrefixMatch[K, P] | RadixNode[K, P]) -> None:
        """Count one use of the path to `where`: for each node on it a hit, and its most recent use.

        The last edge counts as a whole, also if a match ends inside it. Locking the match splits the
        edge there: touch the node that it returns instead.
        """
        node = where.node if isinstance(where, PrefixMatch) else where
        renew = self._queue.move_to_back
        while (parent := node.parent) is not None:
            node.hits += 1
            if not node.pins:
                renew(node)
            node = parent

    def insert(
        self, key: K, payload: P, namespace: Hashable = None, *, priority: int = 0
    ) -> InsertResult[K, P]:
        """Store `key`; of its `payload` what the tree did not have is kept. A use of the path, no hit."""
        root = self._roots.get(namespace) or RadixRoot(key[:0], namespace)
        return self._insert(root, key, payload, priority)

    def grow(self, node: RadixNode[K, P], key: K, payload: P, *, priority: int = 0) -> InsertResult[K, P]:
        """Continue the locked `node` by `key`; the caller's lock moves to the end of it.

        Does what inserting the whole sequence, locking it and unlocking `node` would do, but in time that
        depends on the new part only, and a leaf without other locks becomes longer in place instead
        of getting a child, unless its priority is higher. `payload`, and the `existed` of the answer, count
        from the end of `node`.
        """
        if isinstance(node, RadixRoot):
            grown = self.insert(key, payload, node.namespace, priority=priority)
            self.lock(grown.node)
            return grown
        if not node.pins:
            raise ValueError("only a locked node grows: lock it first")
        if node.children or node.pins > 1 or node.priority > priority:
            grown = self._insert(node, key, payload, priority)
            self.lock(grown.node)
            self.unlock(node)
            return grown
        strides = len(key) // self.width
        if strides:
            node.payload = node.payload.join(payload)
            node.key += key[: strides * self.width]
            node.end += strides
            self.size += strides
            self.locked_size += strides
        self._raise_priority(node, priority)
        return InsertResult(node, node.end, existed=0)

    def lock(
        self, where: PrefixMatch[K, P] | RadixNode[K, P], *, priority: int | None = None
    ) -> RadixNode[K, P]:
        """Keep the path to `where` from being evicted until `unlock` is called with the node returned.

        The path gets at least this `priority`, as if it were inserted with it. Splits the edge if a match
        ends inside it. Takes time for that part of the path only that no other lock holds. Raises ValueError
        if the node has been evicted in the meantime.
        """
        locked = self._node_at(where) if isinstance(where, PrefixMatch) else where
        if not locked.attached:
            raise ValueError("this part of the tree was evicted after it was matched: match again")
        node: RadixNode[K, P] = locked
        while (parent := node.parent) is not None:
            node.pins += 1
            if node.pins > 1:
                break
            self.locked_size += node.end - parent.end
            self._queue.discard_node(node)
            node = parent
        if priority is not None:
            self._raise_priority(locked, priority)
        return locked

    def unlock(self, node: RadixNode[K, P]) -> None:
        """Take back one lock of `node`. Counts as the latest use of what it alone had kept, not as a hit."""
        if not node.pins and not isinstance(node, RadixRoot):
            raise ValueError("this node is not locked")
        while (parent := node.parent) is not None:
            node.pins -= 1
            if node.pins:
                break
            self.locked_size -= node.end - parent.end
            self._queue.move_to_back(node)
            node = parent

    def evict(self, strides: int, leaving: Callable[[RadixNode[K, P]], None] | None = None) -> list[P]:
        """Free `strides` strides, or all that is not locked if that is less; return the payloads let go.

        Leaves go in the queue's order; the last one loses only its end if that is enough. `leaving` is called
        with each of them while it still is in the tree; it must not change the tree.
        """
        freed: list[P] = []
        goal = self.size - strides
        while self.size > goal and (leaf := self._queue.next_victim()) is not None:
            surplus = goal - (self.size - leaf.size)
            if surplus > 0:
                self._queue.put_first(self._split(leaf, surplus))
            if leaving is not None:
                leaving(leaf)
            freed.append(self._detach(leaf))
        return freed

    def remove_subtree(self, node: RadixNode[K, P]) -> list[P]:
        """Take out `node` and all below it, return the payloads. Raises ValueError if any of it is locked."""
        return self._remove(_depth_first(node))

    def clear_namespaces(self, *namespaces: Hashable) -> list[P]:
        """Remove these `namespaces`, or all; return the payloads. Raises ValueError if any is locked."""
        roots = [self._roots[name] for name in namespaces or self._roots if name in self._roots]
        return self._remove(node for root in roots for node in _depth_first(root))

    def nodes(self) -> Iterator[RadixNode[K, P]]:
        """Yield every node but the roots, parents before children. The tree must not change meanwhile."""
        for root in self._roots.values():
            for child in root.children.values():
                yield from _depth_first(child)

    def roots(self) -> Iterator[RadixRoot[K, P]]:
        """Yield the root of each namespace. The tree must not change meanwhile."""
        yield from self._roots.values()

    def __str__(self) -> str:
        """The whole tree drawn, an only child right below its parent, so that a long chain stays narrow."""
        lines = [f"{len(self)} nodes, {self.size} strides, {self.locked_size} locked"]
        for root in self._roots.values():
            stack: list[tuple[str, str, RadixNode[K, P]]] = [("", "  ", root)]
            while stack:
                here, below, node = stack.pop()
                lines.append(f"{here}{node!r}")
                children = list(node.children.values())
                if len(children) == 1:
                    stack.append((below, below, children[0]))
                elif children:
                    stack.append((below + "└─ ", below + "   ", children.pop()))
                    stack += [(below + "├─ ", below + "│  ", child) for child in reversed(children)]
        return "\n".join(lines)

    def check(self) -> None:
        """Recompute everything from scratch and compare. Raises AssertionError in words."""
        nodes = list(self.nodes())
        for namespace, root in self._roots.items():
            assert root.namespace == namespace, f"the root of {namespace!r} thinks it is {root.namespace!r}'s"
            assert root.children, f"the root of {namespace!r} is empty and should be gone"
            assert root.parent is None and root.end == 0 and not root.key, "a root has an edge"
        for node in nodes:
            assert node.key, "an edge is empty"
            assert len(node.key) % self.width == 0, "an edge is not a whole number of strides"
            assert node.size == len(node.key) // self.width, "a node's end is not where its edge ends"
            for stride, child in node.children.items():
                assert child.parent is node, "a child does not know its parent"
                assert child.key[: self.width] == stride, (
                    "a child is filed under another stride than its first"
                )
                assert child.hits <= node.hits, "a child has more hits than its parent"
                assert child.priority <= node.priority, "a child has a higher priority than its parent"
            pinned = sum(1 for child in node.children.values() if child.pins)
            assert node.pins >= pinned, f"a node has {node.pins} pins and {pinned} pinned children"
        assert self._count == len(nodes), f"{self._count} nodes were counted, {len(nodes)} are there"
        size = sum(node.size for node in nodes)
        assert self.size == size, f"the size is said to be {self.size} and is {size}"
        locked = sum(node.size for node in nodes if node.pins)
        assert self.locked_size == locked, f"the locked size is said to be {self.locked_size} and is {locked}"
        self._queue.check({node for node in nodes if not node.pins})

    def _descend(self, node: RadixNode[K, P], key: K, at: int) -> tuple[RadixNode[K, P], int]:
        """Go down from the end of `node`, where `key[at:]` begins, as far as the key leads.

        Returns the last node reached and how many key units were found, `at` included.
        """
        width, end = self.width, len(key)
        while at < end:
            child = node.children.get(key[at : at + width])
            if child is None:
                break
            node = child
            if not key.startswith(node.key, at):
                return node, at + common_prefix(node.key, key, at, width)
            at += len(node.key)
        return node, at

    def _resume(self, match: PrefixMatch[K, P]) -> RadixNode[K, P] | None:
        """The deepest node that ends within `match`; None if it would be a root or has been evicted."""
        node = match.node
        while node.end > match.length and node.parent is not None:
            node = node.parent
        return node if node.parent is not None else None

    def _node_at(self, match: PrefixMatch[K, P]) -> RadixNode[K, P]:
        """The node that ends exactly where `match` does, split off for the purpose if need be."""
        node = match.node
        while node.parent is not None and node.parent.end >= match.length:
            node = node.parent
        if node.parent is not None and node.end > match.length:
            node = self._split(node, match.length - node.parent.end)
        return node

    def _insert(self, top: RadixNode[K, P], key: K, payload: P, priority: int) -> InsertResult[K, P]:
        width = self.width
        strides = len(key) // width
        node, at = self._descend(top, key, 0)
        existed = at // width
        new = payload.split(existed)[1] if 0 < existed < strides else payload  # first: it may raise
        if top.end + existed < node.end:
            node = self._split(node, top.end + existed - node.start)
        if existed < strides:
            leaf = RadixNode(key[at : strides * width], node, top.end + strides)
            leaf.payload = new
            leaf.priority = priority
            node.children[key[at : at + width]] = leaf
            if isinstance(node, RadixRoot):
                self._roots[node.namespace] = node
            self._count += 1
            self.size += strides - existed
            node = leaf
        inserted = InsertResult(node, node.end, existed)
        # Above a pinned node all are pinned, and none has a lower priority: there the climb may end.
        while (parent := node.parent) is not None and (not node.pins or node.priority < priority):
            node.priority = max(node.priority, priority)
            if not node.pins:
                self._queue.move_to_back(node)
            node = parent
        return inserted

    def _raise_priority(self, node: RadixNode[K, P], priority: int) -> None:
        """Raise the priorities on the path to the locked `node`; none above is lower."""
        while (parent := node.parent) is not None and node.priority < priority:
            node.priority = priority
            node = parent

    def _split(self, node: RadixNode[K, P], at: int) -> RadixNode[K, P]:
        """Cut the edge of `node` after `at` strides; return a new node for its upper part, not queued yet."""
        parent = node.parent
        assert parent is not None, "a root has no edge"
        width, cut = self.width, at * self.width
        upper = RadixNode(node.key[:cut], parent, parent.end + at)
        upper.payload, node.payload = node.payload.split(at)
        upper.pins = 1 if node.pins else 0
        upper.hits = node.hits
        upper.priority = node.priority
        parent.children[upper.key[:width]] = upper
        node.key = node.key[cut:]
        node.parent = upper
        upper.children[node.key[:width]] = node
        self._count += 1
        return upper

    def _remove(self, nodes: Iterable[RadixNode[K, P]]) -> list[P]:
        """Remove `nodes`, parents before children; roots only when empty."""
        gone = [node for node in nodes if node.parent is not None]
        if any(node.pins for node in gone):
            raise ValueError("part of this is locked: unlock it first")
        return [self._detach(node) for node in reversed(gone)]

    def _detach(self, leaf: RadixNode[K, P]) -> P:
        parent = leaf.parent
        assert parent is not None and not leaf.pins and not leaf.children, "only an unpinned leaf may go"
        self._queue.discard_node(leaf)
        self._count -= 1
        self.size -= leaf.end - parent.end
        del parent.children[leaf.key[: self.width]]
        leaf.parent = None
        if isinstance(parent, RadixRoot) and not parent.children:
            del self._roots[parent.namespace]
        return leaf.payload


def common_prefix(edge: K, key: K, at: int, width: int) -> int:
    """Return the number of key units that `edge` and `key[at:]` have in common, in whole strides.

    The first is known to be.

    Bisection on slices: every step is a memcmp, and there are a dozen of them, not thousands. What is before
    `low` is equal; what is before `high` is not, or is more than there is.
    """
    low, high = width, (min(len(edge), len(key) - at) // width + 1) * width
    while high - low > width:
        middle = (low + high) // 2
        middle -= middle % width
        if edge.startswith(key[at + low : at + middle], low):
            low = middle
        else:
            high = middle
    return low


def _depth_first(top: RadixNode[K, P]) -> Iterator[RadixNode[K, P]]:
    """Yield `top` and its descendants, parents first."""
    stack = [top]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(node.children.values())
