"""Searching the latest requests: what is wanted, and a walk through the book, bounded at every step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from radixway.api.requests.rows import PriceOf, RequestRow, read_row_fields
from radixway.core.telemetry import Journal, JournalStore

MAX_EXAMINED = 20_000
"""Journals that one call looks at; its answer then says where to go on."""
_BATCH_SIZE = 200
"""Journals between two breaths of the event loop: a millisecond or two."""


@dataclass(frozen=True, slots=True)
class RequestFilter:
    """Which requests. What is None is not asked about."""

    text: str | None = None
    """Part of its id or its trace's, or of a name: tenant, user, session, model, worker. In any case."""
    tenant: str | None = None
    user: str | None = None
    session: str | None = None
    surface: str | None = None
    model: str | None = None
    """As asked for, or as its worker was asked for."""
    worker: str | None = None
    category: str | None = None
    decision: str | None = None
    status: tuple[int, int] | None = None
    """The least and the most."""
    flags: frozenset[str] = field(default_factory=frozenset)
    """All of them."""
    least_ms: float | None = None
    """It took at least so long."""
    since: float | None = None
    """It began then or later, in seconds since the epoch."""
    until: float | None = None

    def may_match(self, journal: Journal) -> bool:
        """Return whether `journal` may match, as far as can be said without reading its entries."""
        return (
            _equals_filter(self.tenant, journal.tenant)
            and _equals_filter(self.user, journal.user)
            and _equals_filter(self.session, journal.session)
            and (self.since is None or journal.began_at >= self.since)
            and (self.until is None or journal.began_at < self.until)
        )

    def matches_row(self, row: dict[str, Any]) -> bool:
        """Return whether `row` matches."""
        if self.status is not None and not self.status[0] <= (row["status"] or 0) <= self.status[1]:
            return False
        if self.least_ms is not None and row["total_ms"] < self.least_ms:
            return False
        if self.model is not None and self.model not in (row["model"], row["asked"]):
            return False
        if self.flags and not self.flags.issubset(row["flags"]):
            return False
        if not all(
            _equals_filter(wanted, row[name])
            for name, wanted in (
                ("surface", self.surface),
                ("worker", self.worker),
                ("category", self.category),
                ("decision", self.decision),
            )
        ):
            return False
        return self.text is None or _mentions(row, self.text.casefold())


@dataclass(slots=True)
class SearchPage:
    """A page of rows, newest first."""

    rows: list[RequestRow]
    next: int | None
    """From where to go on; None: there is nothing older."""
    examined: int


class RequestSearch:
    """Looks through a book. Belongs to its event loop, which it lets go every millisecond or two."""

    def __init__(self, book: JournalStore, price_of: PriceOf, most_examined: int = MAX_EXAMINED) -> None:
        self._book = book
        self._price_of = price_of
        self._most_examined = most_examined

    async def search_requests(
        self,
        wanted: RequestFilter,
        before: int | None,
        limit: int,
        may_see: Callable[[Journal], bool] = lambda _: True,
    ) -> SearchPage:
        """Return the latest `limit` rows that match `wanted`, of journals before the number `before`."""
        page = SearchPage([], before, 0)
        while page.examined < self._most_examined:
            journals = self._book.journals_before(
                page.next, min(_BATCH_SIZE, self._most_examined - page.examined)
            )
            for journal in journals:
                page.examined += 1
                page.next = journal.number
                if not (may_see(journal) and wanted.may_match(journal)):
                    continue
                row = read_row_fields(journal, self._price_of)
                if not wanted.matches_row(row) or not self._book.is_newest(journal):
                    continue
                page.rows.append(RequestRow.model_construct(**row))
                if len(page.rows) == limit:
                    if not self._book.journals_before(page.next, 1):
                        page.next = None
                    return page
            if not journals:
                page.next = None
                return page
            await asyncio.sleep(0)
        return page


def _equals_filter(wanted: str | None, found: str | None) -> bool:
    return wanted is None or wanted == found


def _mentions(row: dict[str, Any], text: str) -> bool:
    names = ("id", "trace_id", "model", "asked", "worker", "tenant", "user", "session", "error")
    return any(text in found.casefold() for name in names if (found := row[name]) is not None)
