"""Chats as one of the rooms that forget people."""

from __future__ import annotations

from collections.abc import Callable

from radixway.pipeline import CannotErase, Subject
from radixway.surfaces.chats.opening import Chats


class ErasableChats:
    """All chats of a gateway as `pipeline.Erasable`. Users are named by id, or as `provider:account`."""

    name = "chats"
    by = frozenset({"tenant", "user"})

    def __init__(self, chats: Callable[[], Chats | None]) -> None:
        """`chats`: None while the gateway is not running."""
        self._chats = chats

    async def erase(self, subject: Subject) -> int:
        """See `Erasable`: how many rows there were."""
        chats = self._chats()
        if chats is None:
            raise CannotErase("chats are not open yet")
        if chats.room is None:
            if chats.are_there():
                raise CannotErase("chats are not open yet")
            return 0
        return await chats.room.forgetting.forget(subject.tenant, subject.user)
