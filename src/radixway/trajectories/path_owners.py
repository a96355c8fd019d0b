"""The owners of recorded paths, so that these can be erased on request."""

from collections.abc import Iterable
from typing import NamedTuple

from radixway.core.component import CannotErase, Component, Subject
from radixway.trajectories.store import TrajectoryStore
from radixway.trajectories.text_match import Place, forget_encoded_ids

_TIDY_INTERVAL = 1024
"""Records between two removals of stale ones."""
_MAX_OWNERS = 100_000
"""Beyond them the oldest keep their owner, but not their session."""


class PathOwner(NamedTuple):
    """The sender of a recorded request."""

    tenant: str
    user: str | None
    session: str | None


class PathOwners(Component):
    """The ends of each owner's records, as far as they are still stored.

    A path that other owners' records continue, or end on, is theirs as well: it stays.
    """

    name = "trajectories"
    erasable_by = frozenset({"tenant", "user", "session"})

    def __init__(self) -> None:
        self._ends: dict[PathOwner, dict[Place, TrajectoryStore]] = {}
        """By owner, oldest first."""
        self._noted = 0

    def __len__(self) -> int:
        return len(self._ends)

    def record_owner(self, owner: PathOwner, store: TrajectoryStore, end: Place) -> None:
        """Note that a record of `owner` in `store` ends at `end` now."""
        self._ends.setdefault(owner, {})[end] = store
        self._noted += 1
        if self._noted % _TIDY_INTERVAL == 0:
            self._drop_evicted()

    async def erase(self, subject: Subject) -> int:
        """Erase the records of `subject`; returns how many. Raises CannotErase while some are continued."""
        chosen = [owner for owner in self._ends if _matches_subject(owner, subject)]
        ends = {end: store for owner in chosen for end, store in self._ends[owner].items() if end.parent}
        others = {end for owner in self._ends if owner not in chosen for end in self._ends[owner]}
        for owner in chosen:
            for store in set(self._ends[owner].values()):
                if owner.session is not None:
                    store.paths.forget_session(owner.session)
        in_use = remove_paths(ends, others)
        forget_encoded_ids()
        if in_use:
            raise CannotErase(f"{in_use} records are in use")
        for owner in chosen:
            del self._ends[owner]
        return len(ends)

    def _drop_evicted(self) -> None:
        for owner, ends in list(self._ends.items()):
            self._ends[owner] = {end: store for end, store in ends.items() if end.attached}
            if not self._ends[owner]:
                del self._ends[owner]
        surplus = len(self._ends) - _MAX_OWNERS
        for owner in [owner for owner in self._ends if owner.session is not None][: max(surplus, 0)]:
            ends = self._ends.pop(owner)
            self._ends.setdefault(owner._replace(session=None), {}).update(ends)


def remove_paths(ends: dict[Place, TrajectoryStore], others: Iterable[Place] = ()) -> int:
    """Remove paths from their `ends` upwards, as far as no other path needs; returns how many are held.

    `ends`: each with its store. `others`: nodes at which other subjects' records end.
    """
    shared, in_use = set(others), 0
    for end in sorted(ends, key=lambda node: node.end, reverse=True):  # children before their parents
        node: Place | None = end
        in_use += end.attached and bool(end.pins)
        while node is not None and node.parent is not None and not node.children and not node.pins:
            if node in shared:
                break
            above = node.parent
            ends[end].remove_leaf(node)
            node = above
    return in_use


def _matches_subject(owner: PathOwner, subject: Subject) -> bool:
    wanted = (subject.tenant, subject.user, subject.session)
    return all(value is None or value == mine for value, mine in zip(wanted, owner, strict=True))
