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


def test_nobody_takes_the_place_of_another_tenants_journal():
    book = JournalBook(10)
    first, other, stranger, again = (Journal("a") for _ in range(4))
    first.tenant, other.tenant, again.tenant = "acme", "rival", "acme"
    for journal in (first, other, stranger):
        book.keep(journal)
    assert book.find("a") is first and book.find("a", "acme") is first and book.find("a", "rival") is other
    book.keep(again)
    assert book.find("a") is again and book.find("a", "rival") is other
    assert [book.is_newest(each) for each in (first, other, stranger, again)] == [False, True, True, True]
    assert book.find("a", "nobody") is None
    book.forget(lambda journal: journal.tenant == "acme")
    assert book.find("a") is other and len(book) == 2


def test_whose_id_was_pushed_out_leaves_it_to_who_repeated_it():
    book = JournalBook(2)
    first, other = Journal("a"), Journal("a")
    first.tenant, other.tenant = "acme", "rival"
    for journal in (first, other, Journal("b")):
        book.keep(journal)
    assert book.find("a") is other and book.find("a", "acme") is None


def test_the_book_is_read_backwards_from_anywhere():
    book = JournalBook(5)
    for name in "abcdefg":
        book.keep(Journal(name))

    def names(number, most):
        return "".join(journal.request_id for journal in book.before(number, most))

    assert names(None, 3) == "gfe"
    last = book.before(None, 3)[-1].number
    assert names(last, 9) == "dc"
    book.forget(lambda journal: journal.request_id == "d")
    assert names(last, 9) == "c"
    assert names(1, 9) == names(0, 9) == ""
    assert names(10**9, 9) == "gfec"
