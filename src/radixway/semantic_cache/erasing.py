"""Forgets people's entries: in memory, in the store behind it, and in the file that the cache is kept in."""

from __future__ import annotations

from collections.abc import Callable

from radixway.pipeline import CannotErase, Subject
from radixway.semantic_cache.entry import Filter
from radixway.semantic_cache.running import CacheRoom


class ErasableCache:
    """A cache as `pipeline.Erasable`. Entries know no session: their conversation is part of a digest."""

    name = "semantic_cache"
    by = frozenset({"tenant", "user", "request"})

    def __init__(
        self,
        room: CacheRoom,
        namespace_of: Callable[[str], str],
        entry_of: Callable[[str, str], str | None],
    ) -> None:
        """`namespace_of`: whose answers a tenant's are. `entry_of`: the entry that its request left."""
        self._room = room
        self._namespace_of = namespace_of
        self._entry_of = entry_of

    async def erase(self, subject: Subject) -> int:
        """See `Erasable`. What a store away still has to hear of is asked again, with the rest."""
        await self._room.middleware.settle()
        count, entry = 0, None
        if subject.request is not None:
            entry = self._entry_of(subject.tenant, subject.request)
        if subject.request is None or entry is not None:
            which = Filter(entry, self._namespace_of(subject.tenant), subject.user)
            count = await self._room.cache.purge(which)
        behind = self._room.behind
        if behind is not None and behind.pending_removals:
            raise CannotErase(f"{behind.name}: {behind.problem or 'it is left alone after failures'}")
        if (problem := await self._room.save()) is not None:
            raise CannotErase(f"semantic_cache.persist: {problem}")
        return count
