"""Which cached pages several requests of a step have in common, so that attention reads them once for all."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

PageTable = np.ndarray[tuple[int, ...], np.dtype[np.int32]]
"""A request's page ids, from its first token on."""


class SharedRun(NamedTuple):
    """Pages [start, stop) of every member: the same pages for all of them."""

    members: list[int]
    start: int
    stop: int


def find_shared_runs(tables: Sequence[PageTable], worth: int) -> list[SharedRun]:
    """The runs of pages that two or more of `tables` begin with, worked out level by level as a tree:

        a  1 2 3 4 5            a, b, c   share 1 2
        b  1 2 3 4 6 7          a, b      share 3 4 after it
        c  1 2 8

    Every page has one sequence of tokens before it, so equal pages stand at equal places. The runs of one
    member follow each other from its first page on without a gap. A run is worth a call of its own from
    `worth` pages on that need not be read, over all its members; a lesser one is left to the runs below it.
    """
    runs = []
    todo = [(list(range(len(tables))), 0, 0)]
    while todo:
        members, start, known = todo.pop()
        common = _common_pages(tables, members, known)
        if (len(members) - 1) * (common - start) >= max(worth, 1):
            runs.append(SharedRun(members, start, common))
            start = common
        below: dict[int, list[int]] = {}
        for i in members:
            if len(tables[i]) > common:
                below.setdefault(int(tables[i][common]), []).append(i)
        todo += [(group, start, common) for group in below.values() if len(group) > 1]
    return runs


def _common_pages(tables: Sequence[PageTable], members: list[int], known: int) -> int:
    """How many pages all members begin with; the first `known` are known to be the same."""
    width = min((len(tables[i]) for i in members), default=0)
    if width <= known or len({int(tables[i][known]) for i in members}) > 1:
        return known
    first = tables[members[0]][known:width]
    for i in members[1:]:
        differing = np.flatnonzero(tables[i][known : known + len(first)] != first)
        if len(differing):
            first = first[: differing[0]]
    return known + len(first)
