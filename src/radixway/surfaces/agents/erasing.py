"""Forgets people's sessions: the tree of calls, its tokens, and what the file has of them."""

from __future__ import annotations

from dataclasses import dataclass

from radixway.config import DEFAULT_TENANT
from radixway.pipeline import CannotErase, Subject
from radixway.surfaces.agents.errors import ArchiveBroken
from radixway.surfaces.agents.keeper import MOST_USERS, SessionKeeper, users_of
from radixway.trajectories import Hold, forget_paths
from radixway.trajectories.sessions import Session


@dataclass(slots=True)
class _Left:
    """What is still to be done of a session that nobody finds any more."""

    session: Session
    holds: list[Hold]
    in_file: bool = True


class ErasableSessions:
    """The keeper as `pipeline.Erasable`. A session goes as a whole, whoever else called it.

    One that more called than are remembered may be anybody's of the tenant.
    """

    name = "sessions"
    by = frozenset({"tenant", "user", "session"})

    def __init__(self, keeper: SessionKeeper) -> None:
        self._keeper = keeper
        self._left: list[_Left] = []

    async def erase(self, subject: Subject) -> int:
        """See `Erasable`: how many sessions. What is under way ends as it would, and is not kept."""
        keeper = self._keeper
        meant = [session for session in keeper.book if _is_meant(session, subject)]
        for session in meant:
            holds = [call.hold for call in session.calls.values() if call.hold is not None]
            holds += [turn.hold for turn in session.turns]
            self._left.append(_Left(session, holds))
            keeper.book.remove(session)
        try:
            for left in self._left:
                if left.in_file:
                    await keeper.delete_from_file(left.session.id, scrub=True)
                    left.in_file = False
        except ArchiveBroken as error:
            raise CannotErase(str(error)) from None
        for left in [left for left in self._left if not left.session.turns]:
            forget_paths({hold.node: keeper.book.store for hold in left.holds})
            self._left.remove(left)
        if self._left:
            raise CannotErase(f"calls of {len(self._left)} sessions are under way")
        return len(meant)


def _is_meant(session: Session, subject: Subject) -> bool:
    if session.metadata.get("tenant", DEFAULT_TENANT) != subject.tenant:
        return False
    if subject.session not in (None, session.id):
        return False
    users = users_of(session)
    return subject.user is None or subject.user in users or len(users) >= MOST_USERS
