"""Rows that belong together because they are alike, or alike to one that is: disjoint sets (Tarjan 1975)."""

from __future__ import annotations


class DisjointSets:
    """The numbers from 0, each in a set of its own until it is joined with others."""

    def __init__(self, size: int) -> None:
        self._parent = list(range(size))

    def root(self, at: int) -> int:
        """The same number for all members of a set."""
        parent = self._parent
        while parent[at] != at:
            parent[at] = parent[parent[at]]
            at = parent[at]
        return at

    def join(self, one: int, other: int) -> None:
        """The sets of both are one from now on."""
        self._parent[self.root(one)] = self.root(other)
