"""Journals as those are kept whose entries the garbage collector would look at."""

from radixway.core.telemetry import JournalStore


def pack_journals(book: JournalStore) -> None:
    """Pack what is kept now, and see that none of it is left as it is."""
    for journal in list(book.latest_journals(len(book))):
        book.update_journal(journal)
        assert book.find_journal(journal.request_id, journal.tenant) is not journal
