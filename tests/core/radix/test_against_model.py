"""Whatever is done to a tree, in any order, it answers like a dict of all prefixes."""

from __future__ import annotations

from itertools import chain, count
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from radixway.core.radix import PrefixMatch, RadixNode, RadixTree, lfu, lru, priority, slru
from support.model import Model, Values

keys = st.lists(st.sampled_from([0, 0, 0, 1, 1, 2]), max_size=8)
picks = st.integers(0, 99)
namespaces = st.sampled_from([None, None, None, "tenant"])
priorities = st.integers(-1, 2)


class TreeMachine(RuleBasedStateMachine):
    """Keys are made of two or three different strides, so that they share, fork and repeat all the time."""

    empty: Any
    strides: tuple[Any, ...]
    width: int

    @initialize(order=st.sampled_from([lru, lfu, slru, priority]))
    def plant(self, order: Any) -> None:
        self.tree: RadixTree[Any, Values] = RadixTree(width=self.width, order=order)
        self.model = Model(self.width, order)
        self.found: list[tuple[str | None, Any, PrefixMatch[Any, Values]]] = []
        self.held: list[tuple[str | None, Any, RadixNode[Any, Values]]] = []
        self.numbers = count()

    def _key(self, picks: list[int]) -> Any:
        """A key of these strides, and the beginning of one more, which must not count."""
        return self.empty.join(self.strides[pick] for pick in picks) + self.strides[0][: self.width // 2]

    def _fresh(self, key: Any) -> Values:
        """A payload for `key` that never was before."""
        return Values(next(self.numbers) for _ in range(len(key) // self.width))

    def _key_of(self, node: RadixNode[Any, Values]) -> Any:
        return self.empty.join(above.key for above in node.path_from_root())

    @rule(picks=keys, namespace=namespaces, priority=priorities)
    def insert(self, picks: list[int], namespace: str | None, priority: int) -> None:
        key = self._key(picks)
        payload = self._fresh(key)
        inserted = self.tree.insert(key, payload, namespace, priority=priority)
        whole = key[: len(payload) * self.width]
        assert inserted.existed == self.model.insert(namespace, whole, list(payload), 0, priority)
        assert inserted.node.end == inserted.length == len(payload)
        assert list(chain(*inserted.payloads())) == self.model.matched(namespace, key)

    @rule(picks=keys, namespace=namespaces, touch=st.booleans())
    def match(self, picks: list[int], namespace: str | None, touch: bool) -> None:
        key = self._key(picks)
        nodes = len(self.tree)
        found = self.tree.match(key, namespace, touch=touch)
        assert len(self.tree) == nodes
        assert list(chain(*found.payloads())) == self.model.matched(namespace, key)
        assert found.length == len(self.model.matched(namespace, key))
        if touch:
            self.model.use(namespace, self._key_of(found.node), hits=1)
        self.found = [*self.found[-3:], (namespace, key, found)]

    @precondition(lambda self: self.found)
    @rule(pick=picks)
    def look_again_where_a_match_ended(self, pick: int) -> None:
        namespace, key, found = self.found[pick % len(self.found)]
        again = self.tree.match(key, namespace, touch=False, after=found)
        assert again.length == len(self.model.matched(namespace, key))
        if found.node.attached:
            assert again.length >= found.length
            assert list(chain(*found.payloads())) == self.model.matched(namespace, key)[: found.length]

    @precondition(lambda self: self.found)
    @rule(pick=picks, priority=st.one_of(st.none(), priorities))
    def lock_a_match(self, pick: int, priority: int | None) -> None:
        namespace, key, found = self.found[pick % len(self.found)]
        if not found.node.attached:
            with pytest.raises(ValueError, match="evicted"):
                self.tree.lock(found)
            return
        node = self.tree.lock(found, priority=priority)
        assert node.end == found.length
        if priority is not None:
            self.model.prioritize(namespace, key[: found.length * self.width], priority)
        self.model.locks.append((namespace, key[: found.length * self.width]))
        self.held.append((namespace, key[: found.length * self.width], node))

    @precondition(lambda self: self.held)
    @rule(pick=picks)
    def unlock(self, pick: int) -> None:
        namespace, key, node = self.held.pop(pick % len(self.held))
        self.tree.unlock(node)
        self.model.unlock(namespace, key)

    @precondition(lambda self: self.held)
    @rule(pick=picks, picks=keys, priority=priorities)
    def grow(self, pick: int, picks: list[int], priority: int) -> None:
        namespace, key, node = self.held.pop(pick % len(self.held))
        more = self._key(picks)
        payload = self._fresh(more)
        hits = node.hits
        grown = self.tree.grow(node, more, payload, priority=priority)
        longer = key + more[: len(payload) * self.width]
        in_place = grown.node is node
        existed = self.model.insert(namespace, longer, list(payload), hits if in_place else 0, priority)
        assert grown.existed == existed
        assert grown.length == grown.node.end == len(longer) // self.width
        self.model.locks.append((namespace, longer))
        self.model.unlock(namespace, key)
        self.held.append((namespace, longer, grown.node))

    @rule(strides=st.integers(-1, 12))
    def evict(self, strides: int) -> None:
        freed = self.tree.evict(strides)
        assert all(freed), "an empty payload was returned"
        assert sorted(chain(*freed)) == sorted(self.model.evict(strides))

    @precondition(lambda self: len(self.tree))
    @rule(pick=picks)
    def remove(self, pick: int) -> None:
        node = list(self.tree.nodes())[pick % len(self.tree)]
        top = self._key_of(node)[: (node.start + 1) * self.width]
        where = [name for name in (None, "tenant") if self.tree.match(top, name, touch=False).node is node]
        expected = self.model.remove(lambda name, key: name in where and key.startswith(top))
        if expected is None:
            with pytest.raises(ValueError, match="locked"):
                self.tree.remove_subtree(node)
        else:
            assert sorted(chain(*self.tree.remove_subtree(node))) == sorted(expected)

    @rule(names=st.sampled_from([(), (None,), ("tenant",), ("nobody",)]))
    def clear(self, names: tuple[str | None, ...]) -> None:
        expected = self.model.remove(lambda name, key: name in names or not names)
        if expected is None:
            with pytest.raises(ValueError, match="locked"):
                self.tree.clear_namespaces(*names)
        else:
            assert sorted(chain(*self.tree.clear_namespaces(*names))) == sorted(expected)

    @invariant()
    def all_is_accounted_for(self) -> None:
        if not hasattr(self, "tree"):
            return
        self.tree.check()
        assert self.tree.size == len(self.model.strides)
        assert self.tree.locked_size == len(self.model.locked())
        for (namespace, key), stride in self.model.strides.items():
            node = self.tree.match(key, namespace, touch=False).node
            assert (node.hits, node.priority) == (stride.hits, stride.priority)
        assert str(self.tree).count("\n") >= len(self.tree)

    def teardown(self) -> None:
        if not hasattr(self, "tree"):
            return
        for _, _, node in self.held:
            self.tree.unlock(node)
        assert self.tree.locked_size == 0
        self.tree.check()
        size = self.tree.size
        assert len(list(chain(*self.tree.evict(size)))) == size
        assert len(self.tree) == self.tree.size == 0


class TextMachine(TreeMachine):
    empty, strides, width = "", ("a", "b", "文"), 1


class TokenMachine(TreeMachine):
    empty, strides, width = b"", (b"\1\0\0\0", b"\1\0\0\1", b"\0\0\0\1"), 4


class PageMachine(TreeMachine):
    empty, strides, width = b"", (b"\1\0\0\0\2\0\0\0", b"\1\0\0\0\2\0\0\1", b"\3\0\0\0\2\0\0\0"), 8


MACHINES = [TextMachine, TokenMachine, PageMachine]
quiet = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}


@pytest.mark.parametrize("machine", MACHINES)
def test_a_tree_does_what_a_dict_of_prefixes_would_do(machine: type[TreeMachine]) -> None:
    run_state_machine_as_test(machine, settings=settings(stateful_step_count=50, **quiet))


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
def test_it_still_does_after_thousands_of_steps(machine: type[TreeMachine]) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=300, stateful_step_count=100, **quiet))
