"""Texts and who has seen them, to the character, under the names of Ray's `PrefixTree`.

For deployments that give their routers a tree actor of Ray's (`tree_actor`), and for what reads such a tree.
Without one the routers here go by hashed blocks and keep no text.

    insert("helloworld", "a", 1)      root ─"hello"─ {a: 1, b: 2} ─┬─"world"─ {a: 1}
    insert("hellothere", "b", 2)                                   └─"there"─ {b: 2}

Each tenant's nodes are a list in the order of their use, from the root (`tenant_to_older_node`) to the one
that was used longest ago (`tenant_to_lru_tail`).
"""

import threading
from collections.abc import Iterator, Sequence

from radixway.core.radix import common_prefix


class TenantPrefixNode:
    """A piece of text, which goes on from that of `parent`, and the tenants that have seen it."""

    __slots__ = (
        "edge_label_to_child",
        "parent",
        "tenant_to_last_access_time",
        "tenant_to_newer_node",
        "tenant_to_older_node",
        "text",
    )

    def __init__(self, text: str = "", parent: "TenantPrefixNode | None" = None) -> None:
        self.text = text
        self.parent = parent
        self.edge_label_to_child: dict[str, TenantPrefixNode] = {}
        """By the first character of their text."""
        self.tenant_to_last_access_time: dict[str, float] = {}
        """In seconds, of the clock of whoever inserts."""
        self.tenant_to_newer_node: dict[str, TenantPrefixNode] = {}
        self.tenant_to_older_node: dict[str, TenantPrefixNode] = {}


class TenantPrefixTree:
    """Texts by tenant. Threads may share it: each method holds `lock`."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.root = TenantPrefixNode()
        self.tenant_to_char_count: dict[str, int] = {}
        """The characters that each tenant has in the tree; a tenant that is not in it is unknown."""
        self.tenant_to_lru_tail: dict[str, TenantPrefixNode] = {}
        """The node that each tenant used longest ago; the root if it has no other."""
        self._eviction: threading.Thread | None = None
        self._eviction_ends = threading.Event()

    def add_tenants(self, tenants: Sequence[str], time_s: float) -> None:
        """Make `tenants` known, with no text yet; those that are known stay as they are."""
        with self.lock:
            for tenant in tenants:
                if tenant not in self.tenant_to_char_count:
                    self.tenant_to_char_count[tenant] = 0
                    self.tenant_to_lru_tail[tenant] = self.root
                    self.root.tenant_to_last_access_time[tenant] = time_s

    def insert(self, text: str, tenant: str, time_s: float) -> None:
        """Note that `tenant` has seen `text`, at `time_s`. Does nothing for an unknown tenant."""
        with self.lock:
            if tenant not in self.tenant_to_char_count:
                return
            node = self.root
            node.tenant_to_last_access_time[tenant] = time_s
            at = 0
            while at < len(text):
                child = node.edge_label_to_child.get(text[at])
                if child is None:
                    child = node.edge_label_to_child[text[at]] = TenantPrefixNode(text[at:], node)
                else:
                    shared = common_prefix(child.text, text, at, width=1)
                    if shared < len(child.text):
                        child = self._split_node(child, shared)
                self._use_node(child, tenant, time_s)
                node = child
                at += len(child.text)

    def prefix_match(
        self, text: str, available_tenants: Sequence[str] | None = None
    ) -> tuple[str, list[str] | None]:
        """Return the longest beginning of `text` that a tenant has seen, and the tenants that have.

        `available_tenants`: the only ones that count; all if None or empty. If nothing of `text` was seen the
        beginning is empty and all of these tenants have seen it; None if there are none.
        """
        with self.lock:
            known = self.tenant_to_char_count
            tenants = [tenant for tenant in available_tenants or known if tenant in known]
            node, at = self.root, 0
            while at < len(text):
                child = node.edge_label_to_child.get(text[at])
                if child is None or child.tenant_to_last_access_time.keys().isdisjoint(tenants):
                    break
                shared = common_prefix(child.text, text, at, width=1)
                node = child
                at += shared
                if shared < len(child.text):
                    break
            seen = node.tenant_to_last_access_time
            return text[:at], [tenant for tenant in tenants if tenant in seen] or None

    def remove_tenants(self, tenants: Sequence[str]) -> dict[str, int]:
        """Forget `tenants`; returns how many characters each had, 0 for an unknown one."""
        removed = {}
        with self.lock:
            for tenant in tenants:
                removed[tenant] = self.evict_tenant_by_lru(tenant, self.tenant_to_char_count.get(tenant, 0))
                self.tenant_to_char_count.pop(tenant, None)
                self.tenant_to_lru_tail.pop(tenant, None)
                self.root.tenant_to_last_access_time.pop(tenant, None)
        return removed

    def evict_tenant_by_lru(self, tenant: str, min_remove_size: int) -> int:
        """Remove what `tenant` used longest ago, at least `min_remove_size` characters if there are so many.

        What was used at one time goes together. Returns how many characters were removed.
        """
        removed = 0
        with self.lock:
            tail = self.tenant_to_lru_tail.get(tenant, self.root)
            while removed < min_remove_size and tail is not self.root:
                used_at = tail.tenant_to_last_access_time[tenant]
                while tail is not self.root and tail.tenant_to_last_access_time[tenant] == used_at:
                    removed += self._remove_tenant_single_node(tenant, tail)
                    tail = self.tenant_to_lru_tail[tenant]
        return removed

    def get_smallest_tenants(self) -> list[str] | None:
        """Return the tenants with the fewest characters; None if there are no tenants."""
        with self.lock:
            fewest = min(self.tenant_to_char_count.values(), default=None)
            return [tenant for tenant, count in self.tenant_to_char_count.items() if count == fewest] or None

    def start_eviction_loop(
        self, eviction_threshold: int, eviction_target: int, interval_secs: float
    ) -> bool:
        """Look every `interval_secs` for tenants above `eviction_threshold` characters; they keep the target.

        Returns whether it began now: a loop under way goes on as it is.
        """
        with self.lock:
            if self._eviction is not None:
                return False
            self._eviction_ends.clear()
            self._eviction = threading.Thread(
                target=self._evict_forever,
                args=(eviction_threshold, eviction_target, interval_secs),
                daemon=True,
            )
            self._eviction.start()
            return True

    def stop_eviction_loop(self) -> None:
        """End the loop, and wait for it."""
        self._eviction_ends.set()
        if self._eviction is not None:
            self._eviction.join()
            self._eviction = None

    def check(self) -> None:
        """Recompute what can be. Raises AssertionError with the difference."""
        counts = dict.fromkeys(self.tenant_to_char_count, 0)
        nodes = list(self._iter_nodes())
        for node in nodes:
            assert node.tenant_to_last_access_time, f"{node.text!r} belongs to nobody"
            assert node.parent is not None
            assert node.parent.edge_label_to_child[node.text[0]] is node, f"{node.text!r} is lost"
            for tenant in node.tenant_to_last_access_time:
                assert tenant in node.parent.tenant_to_last_access_time, (
                    f"{tenant} skips {node.parent.text!r}"
                )
                counts[tenant] += len(node.text)
        assert counts == self.tenant_to_char_count, f"{counts} characters, not {self.tenant_to_char_count}"
        for tenant, tail in self.tenant_to_lru_tail.items():
            chain = self._get_lru_chain(tenant)
            owned = [node for node in nodes if tenant in node.tenant_to_last_access_time]
            assert chain[-1] is tail, f"the list of {tenant} does not end at its tail"
            assert {id(node) for node in chain[1:]} == {id(node) for node in owned}, f"{tenant}: other nodes"

    def _get_lru_chain(self, tenant: str) -> list[TenantPrefixNode]:
        """Return the nodes of `tenant`, the root first, then the latest used; none of an unknown tenant."""
        with self.lock:
            chain = []
            node = self.root if tenant in self.tenant_to_char_count else None
            while node is not None:
                chain.append(node)
                node = node.tenant_to_older_node.get(tenant)
            return chain

    def _remove_tenant_single_node(self, tenant: str, node: TenantPrefixNode) -> int:
        """Take `node`, which is not the root, from `tenant`; return its characters, 0 if it is another's."""
        with self.lock:
            if node.tenant_to_last_access_time.pop(tenant, None) is None:
                return 0
            self._unlink_node(node, tenant)
            self.tenant_to_char_count[tenant] -= len(node.text)
            if not node.tenant_to_last_access_time and node.parent is not None:
                node.parent.edge_label_to_child.pop(node.text[0], None)
            return len(node.text)

    def _split_node(self, node: TenantPrefixNode, at: int) -> TenantPrefixNode:
        """Give the first `at` characters of `node` a node of their own, used a little later; return it."""
        upper = TenantPrefixNode(node.text[:at], node.parent)
        upper.edge_label_to_child[node.text[at]] = node
        upper.tenant_to_last_access_time.update(node.tenant_to_last_access_time)
        if node.parent is not None:
            node.parent.edge_label_to_child[node.text[0]] = upper
        node.text, node.parent = node.text[at:], upper
        for tenant in upper.tenant_to_last_access_time:
            self._link_node(upper, tenant, newer=node.tenant_to_newer_node[tenant])
        return upper

    def _use_node(self, node: TenantPrefixNode, tenant: str, time_s: float) -> None:
        if tenant in node.tenant_to_last_access_time:
            self._unlink_node(node, tenant)
        else:
            self.tenant_to_char_count[tenant] += len(node.text)
        node.tenant_to_last_access_time[tenant] = time_s
        self._link_node(node, tenant, newer=self.root)

    def _link_node(self, node: TenantPrefixNode, tenant: str, newer: TenantPrefixNode) -> None:
        """Put `node` behind `newer` in the list of `tenant`."""
        older = newer.tenant_to_older_node.get(tenant)
        newer.tenant_to_older_node[tenant] = node
        node.tenant_to_newer_node[tenant] = newer
        if older is None:
            self.tenant_to_lru_tail[tenant] = node
        else:
            node.tenant_to_older_node[tenant] = older
            older.tenant_to_newer_node[tenant] = node

    def _unlink_node(self, node: TenantPrefixNode, tenant: str) -> None:
        newer = node.tenant_to_newer_node.pop(tenant)
        older = node.tenant_to_older_node.pop(tenant, None)
        if older is None:
            newer.tenant_to_older_node.pop(tenant, None)
            self.tenant_to_lru_tail[tenant] = newer
        else:
            newer.tenant_to_older_node[tenant] = older
            older.tenant_to_newer_node[tenant] = newer

    def _iter_nodes(self) -> Iterator[TenantPrefixNode]:
        waiting = list(self.root.edge_label_to_child.values())
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.edge_label_to_child.values()

    def _evict_forever(self, threshold: int, target: int, interval_secs: float) -> None:
        while not self._eviction_ends.wait(interval_secs):
            with self.lock:
                for tenant, count in list(self.tenant_to_char_count.items()):
                    if count > threshold:
                        self.evict_tenant_by_lru(tenant, count - target)
