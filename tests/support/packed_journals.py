"""Journals as they are once so many requests came that they were packed."""

from __future__ import annotations

from radixway.core.telemetry import Journal, JournalStore


def pack_journals(book: JournalStore) -> None:
    """Pack what is kept now, without a trace of how; none of it may be left as it is."""
    for number in range(32):
        book.save_journal(Journal(f"filler-{number}"))
    for page in book._pages:
        assert not any(isinstance(each, Journal) for each in page._packed._shared)
    book.forget_journals(lambda journal: journal.request_id.startswith("filler-"))
