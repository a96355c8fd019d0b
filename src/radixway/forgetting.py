"""What keeps something of people in a gateway, and what one call of an administrator's removes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from radixway.config import radixway_home
from radixway.erasure import Erasure, PendingErasures
from radixway.guard.audit import AuditRoom
from radixway.pipeline import Erasable
from radixway.routing import ErasablePrompts, Selector, Tokenizers
from radixway.surfaces import ErasableJournals, ErasableSessions, SessionKeeper
from radixway.surfaces.chats import Chats, ErasableChats
from radixway.telemetry import JournalBook
from radixway.tenants import TenantsRoom
from radixway.trajectories import RadixTreeMiddleware
from radixway.transports import ErasableWorkers

if TYPE_CHECKING:
    from radixway.semantic_cache import CacheRoom


@dataclass(frozen=True, slots=True, kw_only=True)
class Keepers:
    """The rooms that keep something; None: the gateway has none."""

    journals: JournalBook
    sessions: SessionKeeper
    chats: Callable[[], Chats | None] | None
    """Opened after this was made."""
    cache: CacheRoom | None
    tenants: TenantsRoom | None
    recorder: RadixTreeMiddleware | None
    audit: AuditRoom | None
    selector: Selector
    tokenizers: Tokenizers

    def erasure(self, workers: ErasableWorkers) -> Erasure:
        """What forgets here and at the workers, again after a crash in between."""
        note = None if self.audit is None else self.audit.log.note
        return Erasure(
            self._rooms(), PendingErasures(radixway_home() / "erasures"), workers=workers, note=note
        )

    def _rooms(self) -> list[Erasable]:
        """The journals last: they tell which entries of the others are whose."""
        journals = ErasableJournals(self.journals)
        rooms: list[Erasable] = [] if self.chats is None else [ErasableChats(self.chats)]
        rooms.append(ErasableSessions(self.sessions))
        if self.cache is not None:
            from radixway.semantic_cache import ErasableCache

            rooms.append(ErasableCache(self.cache, self._namespace_of, journals.entry_of))
        if self.recorder is not None:
            rooms.append(self.recorder.tries.owners)
        if self.audit is not None:
            rooms.append(self.audit)
        return [*rooms, ErasablePrompts(self.selector, self.tokenizers.cache), journals]

    def _namespace_of(self, tenant: str) -> str:
        known = None if self.tenants is None else self.tenants.tenancies.get(tenant)
        return tenant if known is None else known.cache_namespace or tenant
