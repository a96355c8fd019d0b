"""The journal and the book that keeps journals."""

import gc
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.api.request_log import RequestSummary
from radixway.core.pipeline import TokenUsage
from radixway.core.telemetry import Journal, JournalStore, SharedObject
from radixway.core.telemetry.trace_record import TraceRecord
from radixway.routing import RoutingRequest, WorkerChoice
from radixway.routing.policies import Scores
from radixway.routing.prefix_matches import PrefixMatches


def test_entries_keep_their_order_and_their_time_never_goes_back():
    journal = Journal("r")
    for step in "abc":
        journal.add(step, n=1)
    told = journal.explain()
    assert [step["step"] for step in told["steps"]] == ["a", "b", "c"]
    times = [step["at_ms"] for step in told["steps"]]
    assert times == sorted(times)


def test_the_book_forgets_the_oldest():
    book = JournalStore(2)
    for name in "abc":
        book.save_journal(Journal(name))
    assert book.find_journal("a") is None
    assert book.find_journal("b") and book.find_journal("c")
    assert len(book) == 2


def test_a_repeated_id_keeps_the_newest():
    book = JournalStore(2)
    old, new = Journal("a"), Journal("a")
    book.save_journal(old)
    book.save_journal(new)
    book.save_journal(Journal("b"))
    assert book.find_journal("a") is new and not book.is_newest(old)


def test_nobody_takes_the_place_of_another_tenants_journal():
    book = JournalStore(10)
    first, other, stranger, again = (Journal("a") for _ in range(4))
    first.tenant, other.tenant, again.tenant = "acme", "rival", "acme"
    for journal in (first, other, stranger):
        book.save_journal(journal)
    assert (
        book.find_journal("a") is first
        and book.find_journal("a", "acme") is first
        and book.find_journal("a", "rival") is other
    )
    book.save_journal(again)
    assert book.find_journal("a") is again and book.find_journal("a", "rival") is other
    assert [book.is_newest(each) for each in (first, other, stranger, again)] == [False, True, True, True]
    assert book.find_journal("a", "nobody") is None
    book.forget_journals(lambda journal: journal.tenant == "acme")
    assert book.find_journal("a") is other and len(book) == 2


def test_whose_id_was_pushed_out_leaves_it_to_who_repeated_it():
    book = JournalStore(2)
    first, other = Journal("a"), Journal("a")
    first.tenant, other.tenant = "acme", "rival"
    for journal in (first, other, Journal("b")):
        book.save_journal(journal)
    assert book.find_journal("a") is other and book.find_journal("a", "acme") is None


def test_the_book_is_read_backwards_from_anywhere():
    book = JournalStore(5)
    for name in "abcdefg":
        book.save_journal(Journal(name))

    def names(number, most):
        return "".join(journal.request_id for journal in book.journals_before(number, most))

    assert names(None, 3) == "gfe"
    last = book.journals_before(None, 3)[-1].number
    assert names(last, 9) == "dc"
    book.forget_journals(lambda journal: journal.request_id == "d")
    assert names(last, 9) == "c"
    assert names(1, 9) == names(0, 9) == ""
    assert names(10**9, 9) == "gfec"


@dataclass(slots=True)
class Told:
    """A decision, with what it refers to."""

    worker: Any
    costs: list[float] = field(default_factory=list)
    aside: Any = None

    def explain(self) -> dict[str, Any]:
        return {"worker": self.worker.name, "costs": self.costs}


class Lasting(SharedObject):
    """What many requests refer to."""

    name = "w"


def filled(book: JournalStore, count: int = 32) -> JournalStore:
    """As if so many others had come since."""
    for number in range(count):
        book.save_journal(Journal(f"other-{number}"))
    return book


def told_of(name: str, worker: Any, **more: Any) -> Journal:
    journal = Journal(name)
    journal.tenant, journal.user, journal.session = "t", "u", "s"
    journal.add("receive", model="m", stream=True)
    journal.add("select", Told(worker, [0.5, float("inf")], **more))
    return journal


def test_a_journal_tells_the_same_when_it_is_bytes() -> None:
    worker, book = Lasting(), JournalStore(100)
    journal = told_of("a", worker)
    before = journal.explain()
    book.save_journal(journal)
    filled(book)
    assert book.size_bytes > 0
    found = book.find_journal("a")
    assert found is not None and found is not journal
    assert found.explain() == before
    assert (found.tenant, found.user, found.session, found.number) == ("t", "u", "s", 1)
    assert found.elapsed_s() >= journal.entries[-1][1]
    assert found.entries[1][2].worker is worker  # not a copy


def test_what_is_added_later_is_told_too() -> None:
    book = JournalStore(100)
    journal = Journal("a")
    book.save_journal(journal)
    journal.add("early")
    filled(book)
    journal.add("late", n=1)
    journal.add("later", n=2)
    assert [step for step, *_ in book.find_journal("a").entries] == ["early", "late", "later"]
    assert [step for step, *_ in book.journals_before(2, 1)[0].entries] == ["early", "late", "later"]
    book.forget_journals(lambda each: each.request_id == "a")
    journal.add("after it was forgotten")
    assert book.find_journal("a") is None and book.journals_before(2, 1) == []


def test_what_is_added_later_counts_towards_the_limit() -> None:
    book = JournalStore(100, max_bytes=50_000)
    first, second = Journal("first"), Journal("second")
    book.save_journal(first)
    book.save_journal(second)
    second.add("late", text="x" * 40_000)
    assert book.size_bytes >= 40_000
    first.add("late", text="x" * 40_000)
    assert book.size_bytes >= 80_000
    book.save_journal(Journal("third"))
    assert book.find_journal("first") is None and book.size_bytes <= 50_000
    book.forget_journals(lambda journal: True)
    assert book.size_bytes == 0


def test_the_garbage_collector_sees_few_of_them() -> None:
    book, worker = JournalStore(1000), Lasting()
    for number in range(1000):
        book.save_journal(told_of(f"r{number}", worker))
    gc.collect()
    seen = sum(type(each) in (Journal, Told) for each in gc.get_objects())
    assert seen < 100
    assert len(book) == 1000


def test_what_cannot_be_packed_is_kept_as_it_is_and_the_others_are_packed() -> None:
    book, lock = JournalStore(100), threading.Lock()
    odd = told_of("odd", Lasting(), aside=lock)
    book.save_journal(told_of("a", Lasting()))
    book.save_journal(odd)
    filled(book)
    assert book.find_journal("odd") is odd
    assert book.find_journal("a").explain()["steps"][1]["worker"] == "w"


def test_a_prompts_text_does_not_outlive_its_request() -> None:
    book = JournalStore(1000)
    journal, request = Journal("a"), RoutingRequest(tokens=7, blocks=[1, 2**64 - 1], text="a secret")
    journal.add("select", WorkerChoice(Lasting(), "p", request, (), Scores([]), PrefixMatches({}, {}, {})))
    book.save_journal(journal)
    assert request.text == "" and list(request.all_blocks()) == [1, 2**64 - 1]
    assert book.find_journal("a").entries[0][2].request.tokens == 7


def test_what_every_request_tells_is_not_looked_at_by_the_garbage_collector() -> None:
    book, worker = JournalStore(1000), Lasting()
    candidates: Any = (worker,)

    def served(name: str) -> Journal:
        journal = Journal(name)
        journal.add("receive", surface="openai.chat", model="m", stream=False, bytes=1000)
        request = RoutingRequest(tokens=7, blocks=[1, 2, 3], source="text")
        choice = WorkerChoice(worker, "p", request, candidates, Scores([0.5]), PrefixMatches({0: 1}, {}, {}))
        journal.add("select", choice)
        journal.add("answer", worker="w", status=200)
        journal.add("tokens", TokenUsage(7, 5))
        journal.add("end", RequestSummary(200, 0.1, "m", None, None))
        return journal

    book.save_journal(served("first"))
    gc.collect()
    before = len(gc.get_objects())
    for number in range(500):
        book.save_journal(served(f"r{number}"))
    gc.collect()
    gc.collect()  # a tuple is left out by the collection after that of what it holds
    assert len(gc.get_objects()) - before < 100


class Unpackable:
    def __reduce__(self) -> Any:
        raise RuntimeError("only in one process")


class Unmade(Exception):
    """What pickle makes of it cannot be made one again."""

    def __init__(self, *, reason: str) -> None:
        super().__init__(reason)


class Inherits(Told):
    def __init__(self) -> None:
        super().__init__(Lasting())


@pytest.mark.parametrize("kind", [Unpackable, lambda: Unmade(reason="r"), Inherits])
def test_an_odd_thing_in_a_journal_is_kept_and_harms_no_other(kind: Callable[[], Any]) -> None:
    book, thing = JournalStore(100), kind()
    book.save_journal(told_of("a", Lasting()))
    odd = Journal("odd")
    odd.add("theirs", thing=thing)
    book.save_journal(odd)
    filled(book)
    assert book.find_journal("odd") is odd and odd.entries[0][2] == {"thing": thing}
    found = book.find_journal("a")
    assert found is not None and found.explain()["steps"][1]["worker"] == "w"
    assert book.forget_journals(lambda journal: journal.request_id == "a") == 1


def test_what_is_forgotten_leaves_nothing() -> None:
    book = JournalStore(100)
    for name in ("mary", "paul"):
        book.save_journal(told_of(name, Lasting()))
    empty = book.size_bytes // 2
    book.find_journal("mary").add("note", said="by mary")
    book.find_journal("paul")
    assert book.forget_journals(lambda journal: journal.request_id == "mary") == 1
    assert 0 < book.size_bytes <= empty + 50
    assert book.find_journal("mary") is None and book.find_journal("paul") is not None
    assert book.forget_journals(lambda journal: True) == 1 and book.size_bytes == 0


def test_a_book_is_bounded_in_bytes_too() -> None:
    book = JournalStore(100_000, max_bytes=100_000)
    for number in range(1000):
        journal = Journal(f"r{number}")
        journal.add("receive", model=f"{number}" * 300)
        book.save_journal(journal)
        assert book.size_bytes <= 100_000
    kept = [each.request_id for each in book.latest_journals(10_000)]
    assert kept[0] == "r999" and 32 <= len(kept) < 200
    assert len(book) == len(kept) and book.find_journal("r0") is None


def test_the_latest_are_those_of_the_moment_when_they_were_asked_for() -> None:
    book = filled(JournalStore(100), 70)
    latest = book.latest_journals(50)
    filled(book, 200)
    assert [each.number for each in latest] == list(range(70, 20, -1))


@given(
    capacity=st.integers(0, 80),
    acts=st.lists(
        st.one_of(
            st.tuples(st.just("keep"), st.integers(0, 40)),
            st.tuples(st.just("forget"), st.integers(0, 40)),
            st.tuples(st.just("amend"), st.integers(1, 60)),
            st.tuples(st.just("many"), st.integers(1, 50)),
        ),
        max_size=30,
    ),
)
def test_a_book_is_a_list_of_which_the_oldest_are_forgotten(
    capacity: int, acts: list[tuple[str, int]]
) -> None:
    book = JournalStore(capacity)
    model: list[tuple[int, str, list[str]]] = []  # number, id, steps
    live: dict[int, Journal] = {}

    def keep(name: str) -> None:
        journal = Journal(name)
        book.save_journal(journal)
        live[journal.number] = journal
        model.append((journal.number, name, []))

    for act, number in acts:
        if act == "keep":
            keep(f"r{number}")
        elif act == "many":
            for _ in range(number):
                keep(f"m{len(live)}")
        elif act == "amend" and (journal := live.get(len(live) + 1 - number)) is not None:
            journal.add(f"late{number}")
            for known, _, steps in model:
                if known == journal.number:
                    steps.append(f"late{number}")
        elif act == "forget":
            gone = [each for each in model if each[1] == f"r{number}"]
            assert book.forget_journals(lambda each, name=f"r{number}": each.request_id == name) == len(gone)
            model = [each for each in model if each not in gone]
        model = [each for each in model if each[0] > len(live) - capacity]
        newest = {name: (known, steps) for known, name, steps in model}
        assert len(book) == len(newest)
        told = [
            (each.number, each.request_id, [step for step, *_ in each.entries])
            for each in book.latest_journals(99)
        ]
        assert told == model[::-1][:99]
        half = len(live) // 2
        assert [each.number for each in book.journals_before(half, 7)] == [n for n, *_ in model if n < half][
            ::-1
        ][:7]
        for name, (known, _) in newest.items():
            found = book.find_journal(name)
            assert found is not None and found.number == known and book.is_newest(found)


@pytest.mark.parametrize(("sampled", "is_kept"), [(False, True), (True, False)])
def test_a_journal_is_packed_for_the_stages_of_its_trace_alone(sampled, is_kept):
    book, journal = JournalStore(10), Journal("r")
    journal.trace = TraceRecord(None, sampled=sampled)
    book.save_journal(journal)
    found = book.find_journal("r")
    assert (found is journal) is is_kept and found.trace.trace_id == journal.trace.trace_id


def test_without_a_capacity_nothing_is_kept_nor_made_ready_to_be() -> None:
    book, journal = JournalStore(0), Journal("a")
    journal.add("tokens", TokenUsage(3, 2))
    book.save_journal(journal)
    assert len(book) == 0 and book.size_bytes == 0 and journal.number == 0
    assert book.find_journal("a") is None and book.journals_before(None, 5) == []
    assert [step for step, _, _ in journal.entries] == ["tokens"]


def test_the_latest_decision_of_a_kind_is_found_before_and_after_the_end() -> None:
    book, journal = JournalStore(5), Journal("a")
    assert journal.latest_decision(TokenUsage) is None
    first, second = TokenUsage(1, 1), TokenUsage(2, 2)
    for used in (first, second):
        journal.add("tokens", used)
    journal.add("end", RequestSummary(200, None, None, None, None))
    assert journal.latest_decision(TokenUsage) is second
    book.save_journal(journal)
    assert journal.latest_decision(TokenUsage) is second
    assert journal.latest_decision(WorkerChoice) is None
