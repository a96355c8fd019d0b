"""Forgets people's sessions: the tree of calls, its tokens, and what the file has of them."""

from __future__ import annotations

from radixway.config import DEFAULT_TENANT
from radixway.pipeline import CannotErase, Subject
from radixway.surfaces.agents.errors import ArchiveBroken
from radixway.surfaces.agents.keeper import MOST_USERS, SessionKeeper, users_of
from radixway.trajectories import forget_paths
from radixway.trajectories.sessions import Session


class ErasableSessions:
    """The keeper as `pipeline.Erasable`. A session goes as a whole, whoever else called it.

    One that more called than are remembered may be anybody's of the tenant.
    """

    name = "sessions"
    by = frozenset({"tenant", "user", "session"})

    def __init__(self, keeper: SessionKeeper) -> None:
        self._keeper = keeper

    async def erase(self, subject: Subject) -> int:
        """See `Erasable`: how many sessions. What is under way ends as it would, and is not kept."""
        keeper, store = self._keeper, self._keeper.book.store
        meant = [session for session in keeper.book if _is_meant(session, subject)]
        held = 0
        try:
            for session in meant:
                ends = [call.hold.node for call in session.calls.values() if call.hold is not None]
                await keeper.delete(session)
                held += forget_paths(dict.fromkeys(ends, store))
            await keeper.scrub()
        except ArchiveBroken as error:
            raise CannotErase(str(error)) from None
        if held:
            raise CannotErase(f"calls that are under way go on from {held} of its records")
        return len(meant)


def _is_meant(session: Session, subject: Subject) -> bool:
    if session.metadata.get("tenant", DEFAULT_TENANT) != subject.tenant:
        return False
    if subject.session not in (None, session.id):
        return False
    users = users_of(session)
    return subject.user is None or subject.user in users or len(users) >= MOST_USERS
