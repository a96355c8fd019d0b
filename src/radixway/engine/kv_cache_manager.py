"""The radix cache: which pages hold which tokens, shared by every request with the same beginning.

A request's pages, over its life (`s` and `c` are its `num_shared_tokens` and `num_computed_tokens`):

    [0, s)   in the tree, pinned by this request (and perhaps by others): never written again
    [s, c)   its own; inserted into the tree when a page is full
    [c, …)   its own, room for what is computed next

Finishing, aborting and preempting are the same: insert the full pages, unlock the prefix, free the rest.
"""

import secrets
from array import array
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from hashlib import blake2b

from radixway.core.radix import Order, PrefixMatch, RadixNode, RadixTree, lru, outline, root_of
from radixway.engine.engine_request import EngineRequest
from radixway.engine.kv_events import KVEventRecorder
from radixway.engine.page_pool import PagePool, PageSpan
from radixway.engine.tiers import TieredKVCache, TierLoad

RESERVED_TAIL_TOKENS = 512
"""Room that is left free, while there is enough, behind the pages of one request, for it or its next turn to
go on in neighbouring pages."""


@dataclass(slots=True, frozen=True)
class CachedPrefix:
    """An edge of the tree as others may see it: how long and how often used, not its tokens."""

    parent: int | None
    """Index of the listed prefix that it continues; None: it begins a sequence."""
    begin: int
    """Tokens before it."""
    tokens: int
    hits: int
    """Requests that used it, or more of the sequence."""
    in_use: bool
    space: str
    """Prefixes of different spaces (adapter, salt) are never shared. A name made up for this answer."""
    hidden: int
    """Number of prefixes that continue it and are not listed."""
    hidden_tokens: int


class KVCacheManager:
    """Moves pages between the pool, the tree and the requests. `enabled=False`: nothing is ever shared.

    This is where pages are freed: of a request that ends or is preempted in `free_request`, of evicted
    prefixes in `allocate_slots`, of duplicates in `insert_pages`, of all prefixes in `reset_prefix_cache`.

    What is evicted goes on to lower `tiers`, if there are any, and can be fetched back from there.
    """

    def __init__(
        self,
        pool: PagePool,
        page_size: int,
        *,
        enabled: bool = True,
        eviction: Order = lru,
        observer: KVEventRecorder | None = None,
        tiers: TieredKVCache | None = None,
    ) -> None:
        self.pool = pool
        self.page_size = page_size
        self.enabled = enabled
        self.tiers = tiers if enabled else None
        self.evicted_pages = 0
        self._observer = observer
        self._tree: RadixTree[bytes, PageSpan] = RadixTree(width=4 * page_size, order=eviction)

    @property
    def num_cached_pages(self) -> int:
        """Pages that are in the tree only: free as soon as a request needs them."""
        return self._tree.evictable_size

    @property
    def num_tree_pages(self) -> int:
        """Pages that are in the tree, pinned or not."""
        return self._tree.size

    @property
    def num_available_pages(self) -> int:
        """Pages that could be taken now, free or by eviction."""
        return self.pool.num_free + self._tree.evictable_size

    def count_pages(self, tokens: int) -> int:
        """The number of pages that hold `tokens` tokens."""
        return -(-tokens // self.page_size)

    def match_prefix(self, request: EngineRequest) -> int:
        """Return how many tokens of a waiting `request` are cached now. Nothing is locked; the match is
        saved in the request, so that a later call only looks at what has been added since.

        Never all of them, see `EngineRequest.num_reusable_tokens`.
        """
        if not self.enabled:
            return 0
        match = request.match
        if match is None:
            request.key = request.tokens[: request.num_reusable_tokens].tobytes()
        if match is None or not _is_match_current(match, request.key, self._tree.width):
            match = request.match = self._tree.match(request.key, request.namespace, touch=False, after=match)
        return match.length * self.page_size

    def required_pages(self, request: EngineRequest, length: int) -> int:
        """Pages that must be available for a waiting `request` to hold tokens[:length].

        Those it lacks, and the unlocked ones of its prefix: once it locks them, they are not available.
        """
        if not self.enabled:
            return self.count_pages(length)
        cached = self.match_prefix(request) // self.page_size
        assert request.match is not None
        return self.count_pages(length) - cached + _count_unlocked(request.match)

    def next_page_key(self, request: EngineRequest, cached: int) -> Hashable:
        """A key of the page that `request` will look for or insert after the `cached` tokens it has in the
        tree.

        Equal for two requests just when one could use what the other computes; None if nothing can be shared.
        """
        tokens = request.tokens[cached : cached + self.page_size]
        if len(tokens) < self.page_size:
            return None
        where = request.match.node if request.match is not None else request.node
        return (id(where) if cached else request.namespace), cached, tokens.tobytes()

    def lock_prefix(self, request: EngineRequest) -> None:
        """Start a waiting `request` from its cached prefix, which stays cached until `free_request`."""
        if not self.enabled:
            return
        self.match_prefix(request)
        match = request.match
        assert match is not None
        request.node = self._tree.lock(match, priority=_retention_priority(request))
        self._tree.touch(request.node)  # after the lock has split it off: what goes on from here was not used
        request.key, request.match = b"", None
        for part in match.payloads():
            request.pages.extend(part.ids)
        request.num_computed_tokens = request.num_shared_tokens = match.length * self.page_size
        if self.tiers is not None and request.node.hits >= 2:
            self.tiers.save_prefix(request.node)

    def load_from_tiers(self, request: EngineRequest) -> bool:
        """Begin to load more of the prefix of a locked `request` from lower tiers. False: there is no
        more.

        If True, the request and its pages must be left alone until `poll_loads` returns it.
        """
        if self.tiers is None:
            return False
        length = self.tiers.reachable_tokens(request)
        if not length or not self.allocate_slots(request, length):
            return False
        return self.tiers.start_load(request) is not None

    def poll_loads(self, wait_s: float | None = 0.0) -> list[TierLoad]:
        """Return the loads that have ended; their pages are the requests' own and in the tree.

        Waits up to `wait_s` (None: as long as it takes) if something is on its way and nothing has arrived.
        """
        loads = self.tiers.poll_loads(wait_s) if self.tiers is not None else []
        for load in loads:
            load.request.num_computed_tokens += (load.from_host + load.from_disk) * self.page_size
            self.insert_pages(load.request)
        return loads

    def allocate_slots(self, request: EngineRequest, length: int) -> bool:
        """Give a request the pages for tokens[:length], evicting if need be. False: there are not enough."""
        missing = self.count_pages(length) - len(request.pages)
        if missing <= 0:
            return True
        if missing > self.num_available_pages:
            return False
        if missing > self.pool.num_free:
            leaving = self.tiers.save_prefix if self.tiers is not None else None
            for part in self._tree.evict(missing - self.pool.num_free, leaving):
                self.pool.free_pages(part.ids)
                self.evicted_pages += len(part.ids)
                if self._observer is not None:
                    self._observer.on_removed(part.ids)
        last = request.pages[-1] if request.pages else 0
        reserved = self.count_pages(RESERVED_TAIL_TOKENS)
        request.pages.extend(self.pool.allocate_pages(missing, after=last, skip=reserved))
        return True

    def insert_pages(self, request: EngineRequest) -> None:
        """Insert the full pages of `request` into the tree, for others to find.

        Where the tree has a page for the same tokens already (someone else was faster), the request goes on
        with the tree's page and its own is given back.
        """
        start, stop = (
            request.num_shared_tokens // self.page_size,
            request.num_computed_tokens // self.page_size,
        )
        if not self.enabled or start == stop:
            return
        assert request.node is not None
        key = request.tokens[request.num_shared_tokens : stop * self.page_size].tobytes()
        own = request.pages[start:stop]
        grown = self._tree.grow(request.node, key, PageSpan(own), priority=_retention_priority(request))
        if grown.existed:
            ours = own[: grown.existed]
            theirs = _page_ids_from(grown.node, start)[: grown.existed]
            request.pages[start : start + grown.existed] = theirs
            self.pool.free_pages(ours)
        request.node = grown.node
        request.num_shared_tokens = stop * self.page_size
        if self._observer is not None and start + grown.existed < stop:
            self._notify_stored(self._observer, request, start + grown.existed, stop)

    def free_request(self, request: EngineRequest) -> None:
        """Free all pages of `request`; what it computed stays cached until evicted."""
        self.insert_pages(request)
        if request.node is not None:
            self._tree.unlock(request.node)
            request.node = None
        self.pool.free_pages(request.pages[request.num_shared_tokens // self.page_size :])
        request.pages = array("i")
        request.num_computed_tokens = request.num_shared_tokens = 0

    def list_prefixes(self, limit: int, max_levels: int) -> "list[CachedPrefix]":
        """List the `limit` cached prefixes that were used most, each after the one it continues."""
        shown = outline(self._tree, limit, max_levels)
        salt = secrets.token_bytes(16)
        return [
            CachedPrefix(
                parent=each.parent,
                begin=each.node.start * self.page_size,
                tokens=each.node.size * self.page_size,
                hits=each.node.hits,
                in_use=each.node.pins > 0,
                space=blake2b(
                    str(root_of(each.node).namespace).encode(), digest_size=4, key=salt
                ).hexdigest(),
                hidden=each.hidden,
                hidden_tokens=each.hidden_strides * self.page_size,
            )
            for each in shown
        ]

    def reset_prefix_cache(self) -> None:
        """Drop every cached prefix, in every tier. No request may be running."""
        for part in self._tree.clear_namespaces():
            self.pool.free_pages(part.ids)
        if self._observer is not None:
            self._observer.on_cleared()
        if self.tiers is not None:
            self.tiers.clear_tiers()

    def save_to_disk(self, until: Callable[[], bool]) -> None:
        """Write to disk what only the device has, while `until` is not true, for the next start."""
        if self.tiers is None or not self.tiers.writes_disk:
            return
        for node in self._tree.nodes():
            if not node.children and not until():
                self.tiers.save_prefix(node)
                self.tiers.drain_copies()

    def check(self, running: Iterable[EngineRequest]) -> None:
        """Recompute all accounts with the `running` requests: free + cached + in use = total."""
        self._tree.check()
        if self.tiers is not None:
            self.tiers.check()
        own = []
        for request in running:
            first = request.num_shared_tokens // self.page_size
            own.append(request.pages[first:])
            assert (
                request.num_shared_tokens
                <= request.num_computed_tokens
                <= len(request.pages) * self.page_size
            )
            if request.node is not None:
                assert request.node.end == first and (request.node.pins or not first)
                assert _page_ids_from(request.node, 0) == request.pages[:first]
        self.pool.check(*own, *(node.payload.ids for node in self._tree.nodes()))

    def _notify_stored(
        self, observer: KVEventRecorder, request: EngineRequest, start: int, stop: int
    ) -> None:
        tokens = request.tokens[start * self.page_size : stop * self.page_size]
        parent = request.pages[start - 1] if start else None
        observer.on_stored(request.namespace, parent, request.pages[start:stop], tokens)


def _retention_priority(request: EngineRequest) -> int:
    """Return the eviction priority, clamped to ±100: the tree scans a segment per distinct priority, and
    clients may send any number.
    """
    return max(-100, min(request.priority, 100))


def _is_match_current(match: PrefixMatch[bytes, PageSpan], key: bytes, width: int) -> bool:
    """Return whether an earlier match of `key` is still complete, without walking."""
    node = match.node
    if node.parent is None:  # a root, or evicted
        return False
    next_page = key[match.length * width : (match.length + 1) * width]
    if match.length == node.end:
        return next_page not in node.children
    inside = match.length - node.parent.end
    goes_on = len(next_page) == width and node.key.startswith(next_page, inside * width)
    return 0 < inside < node.size and not goes_on


def _count_unlocked(match: PrefixMatch[bytes, PageSpan]) -> int:
    node, pages = match.node, 0
    while node.parent is not None and not node.pins:
        pages += min(node.end, match.length) - node.parent.end
        node = node.parent
    return pages


def _page_ids_from(node: RadixNode[bytes, PageSpan], start: int) -> "array[int]":
    """Return page ids from page `start` of the sequence to the end of `node`."""
    parts = []
    while node.parent is not None and node.end > start:
        parts.append(node.payload.ids[max(0, start - node.start) :])
        node = node.parent
    return array("i", [page for part in reversed(parts) for page in part])
