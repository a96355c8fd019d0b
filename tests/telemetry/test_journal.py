"""The journal and the book that keeps journals."""

from radixway.telemetry import Journal, JournalBook


def test_entries_keep_their_order_and_their_time_never_goes_back():
    journal = Journal("r")
    for step in "abc":
        journal.add(step, n=1)
    told = journal.explain()
    assert [step["step"] for step in told["steps"]] == ["a", "b", "c"]
    times = [step["at_ms"] for step in told["steps"]]
    assert times == sorted(times)


def test_the_book_forgets_the_oldest():
    book = JournalBook(2)
    for name in "abc":
        book.keep(Journal(name))
    assert book.find("a") is None
    assert book.find("b") and book.find("c")
    assert len(book) == 2


def test_a_repeated_id_keeps_the_newest():
    book = JournalBook(2)
    old, new = Journal("a"), Journal("a")
    book.keep(old)
    book.keep(new)
    book.keep(Journal("b"))
    assert book.find("a") is new
