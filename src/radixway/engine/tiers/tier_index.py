"""The prefixes of a tier and the slots they are in. Numbers only: nothing is copied here."""

from array import array
from collections.abc import Callable, Collection, Hashable, Iterable

from radixway.core.radix import RadixTree
from radixway.engine.page_pool import PagePool, PageSpan


class TierIndex:
    """A radix tree over slots of one page each: a page is here only if all before it are.

    Keys are whole pages of `width` key units. What was used least recently makes room, ends of branches
    first. Nothing is locked while it is copied: slots change their content only through copies that are made
    in the order of the calls here (see `TransferThread`).
    """

    def __init__(self, slots: int, width: int, allocated: Collection[int] = ()) -> None:
        """`allocated`: slots that are about to be put in by `restore_pages`."""
        self.pool = PagePool(slots, allocated)
        self.width = width
        self.leaving: Callable[[Iterable[int]], None] = lambda slots: None
        """Called with slots that are evicted, but not by `clear_index`."""
        self.evicted = 0
        """Evicted pages."""
        self._tree: RadixTree[bytes, PageSpan] = RadixTree(width=width)

    @property
    def num_pages(self) -> int:
        """Pages that are here."""
        return self._tree.size

    def find_slots(self, key: bytes, namespace: Hashable = None, *, touch: bool = False) -> "array[int]":
        """The slots of the longest prefix of `key` that is here. `touch` counts as a use of it."""
        match = self._tree.match(key, namespace, touch=False)
        if touch:
            # Of just that: what goes on from it is as old as it was.
            self._tree.unlock(self._tree.lock(match))
        found = array("i")
        for part in match.payloads():
            found.extend(part.ids)
        return found

    def store_pages(self, key: bytes, namespace: Hashable = None) -> tuple[int, "array[int]"]:
        """Make room for all of `key`: how many of its pages are here already, and slots for the next ones.

        They are fewer than all the rest only if the tier is too small for the whole key.
        """
        match = self._tree.match(key, namespace, touch=False)
        node = self._tree.lock(match)
        missing = len(key) // self.width - match.length
        for part in self._tree.evict(max(0, missing - self.pool.num_free)):
            self.pool.free_pages(part.ids)
            self.leaving(part.ids)
            self.evicted += len(part.ids)
        slots = self.pool.allocate_pages(min(missing, self.pool.num_free))
        if slots:
            end = match.length + len(slots)
            rest = key[match.length * self.width : end * self.width]
            node = self._tree.grow(node, rest, PageSpan(slots)).node
        self._tree.unlock(node)
        return match.length, slots

    def restore_pages(self, key: bytes, slots: "array[int]") -> None:
        """Insert `key`, whose pages the `held` slots have. Prefixes that share pages share slots."""
        self._tree.insert(key, PageSpan(slots))

    def drop_page(self, key: bytes, page: int) -> None:
        """Drop page number `page` of `key` and all that goes on from it."""
        match = self._tree.match(key[: page * self.width], touch=False)
        if match.length < page:
            return
        above = self._tree.lock(match)
        self._tree.unlock(above)
        below = above.children.get(key[page * self.width : (page + 1) * self.width])
        for part in self._tree.remove_subtree(below) if below is not None else ():
            self.pool.free_pages(part.ids)
            self.leaving(part.ids)

    def clear_index(self) -> None:
        """Remove everything."""
        for part in self._tree.clear_namespaces():
            self.pool.free_pages(part.ids)

    def check(self) -> None:
        """Recompute all accounts: every slot is free or holds one page; nothing is locked between calls."""
        self._tree.check()
        assert self._tree.locked_size == 0, "something stayed locked"
        self.pool.check(*(node.payload.ids for node in self._tree.nodes()))
