"""Requests in rows, and the walk through the book."""

from __future__ import annotations

import pytest

from radixway.api.request_log import RequestSummary
from radixway.api.requests import RequestFilter, RequestSearch, build_row
from radixway.core.pipeline import TokenUsage
from radixway.core.telemetry import Journal, JournalStore
from radixway.core.tenants import TokenCost


def free(model, prompt_tokens, completion_tokens):
    return TokenCost()


def ended(name: str, *, status: int = 200, began_at: float | None = None, **said) -> Journal:
    journal = Journal(name)
    journal.tenant = said.get("tenant", "default")
    if began_at is not None:
        journal.began_at = began_at
    journal.add("receive", surface="openai.chat", model=said.get("asked", "auto"), stream=True, bytes=2)
    for step, fields in said.get("steps", {}).items():
        journal.add(step, **fields)
    journal.add("answer", worker=said.get("worker", "w1"), status=status)
    journal.add("tokens", TokenUsage(10, 3, 4, tells_cached=True))
    journal.add("end", RequestSummary(status, 0.25, "small", said.get("category"), None))
    return journal


def book_of(*journals: Journal) -> JournalStore:
    book = JournalStore(100_000)
    for journal in journals:
        book.save_journal(journal)
    return book


async def ids(book, wanted=None, before=None, limit=50, **more) -> list[str]:
    page = await RequestSearch(book, free).search_requests(wanted or RequestFilter(), before, limit, **more)
    return [row.id for row in page.rows]


def test_a_row_holds_what_the_journal_says():
    journal = ended("a", category="law", steps={"queue": {"waited_s": 1, "ahead": 0}})
    row = build_row(journal, lambda model, prompt, answer: TokenCost(prompt + answer / 10, "EUR"))
    assert (row.surface, row.asked, row.model, row.worker) == ("openai.chat", "auto", "small", "w1")
    assert (row.prompt_tokens, row.completion_tokens, row.cached_tokens) == (10, 3, 4)
    assert (row.status, row.ttft_ms, row.category) == (200, 250.0, "law")
    assert (row.cost, row.currency) == (10.3, "EUR")
    assert row.flags == ["stream", "queued"] and row.total_ms > 0
    assert type(row).model_validate(row.__dict__) == row


def test_several_answers_of_one_request_are_added_up():
    journal = ended("a")
    journal.entries.insert(-1, ("tokens", 0.0, TokenUsage(5, 2, 1, estimated=True)))
    row = build_row(journal, free)
    assert (row.prompt_tokens, row.completion_tokens, row.estimated) == (15, 5, True)
    assert row.cost is None


@pytest.mark.parametrize(
    ("steps", "flags"),
    [
        ({"semantic_cache": {"outcome": "exact", "entry": "e"}}, ["stream", "cache_hit"]),
        ({"semantic_cache": {"outcome": "miss"}}, ["stream"]),
        ({"guard_jailbreak": {"action": "block"}}, ["stream", "guard", "blocked"]),
        ({"semantic": {"blocked": True}}, ["stream", "blocked"]),
        ({"error": {"code": "pii_policy_denied"}}, ["stream", "blocked", "error"]),
        ({"error": {"code": "stream_broken"}}, ["stream", "broken", "error"]),
        ({"client_left": {}}, ["stream", "client_left"]),
        ({"retry": {"attempt": 2}, "fallback": {"model": "m"}}, ["stream", "retried", "fallback"]),
    ],
)
def test_flags_say_what_was_out_of_the_ordinary(steps, flags):
    assert build_row(ended("a", steps=steps), free).flags == flags


async def test_the_newest_come_first_page_by_page():
    book = book_of(*(ended(str(number)) for number in range(25)))
    search, seen, cursor = RequestSearch(book, free), [], None
    while True:
        page = await search.search_requests(RequestFilter(), cursor, 10)
        seen += [row.id for row in page.rows]
        cursor = page.next
        if cursor is None:
            break
    assert seen == [str(number) for number in reversed(range(25))]


async def test_pages_stay_in_place_while_requests_end():
    book = book_of(*(ended(str(number)) for number in range(6)))
    search = RequestSearch(book, free)
    first = await search.search_requests(RequestFilter(), None, 3)
    book.save_journal(ended("new"))
    second = await search.search_requests(RequestFilter(), first.next, 3)
    assert [row.id for row in second.rows] == ["2", "1", "0"] and second.next is None


async def test_a_repeated_id_is_listed_once():
    assert await ids(book_of(ended("a"), ended("b"), ended("a", status=500))) == ["a", "b"]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (RequestFilter(text="B-"), ["b-2"]),
        (RequestFilter(text="GPU"), ["c-3"]),
        (RequestFilter(tenant="acme"), ["c-3"]),
        (RequestFilter(worker="gpu-7"), ["c-3"]),
        (RequestFilter(model="auto"), ["b-2", "a-1"]),
        (RequestFilter(model="small"), ["c-3", "b-2", "a-1"]),
        (RequestFilter(status=(500, 599)), ["b-2"]),
        (RequestFilter(category="law"), ["a-1"]),
        (RequestFilter(flags=frozenset({"hedged"})), ["b-2"]),
        (RequestFilter(surface="generate"), []),
        (RequestFilter(least_ms=10**9), []),
        (RequestFilter(since=2.0), ["c-3", "b-2"]),
        (RequestFilter(until=2.0), ["a-1"]),
        (RequestFilter(since=1.5, until=2.5), ["b-2"]),
    ],
)
async def test_a_search_finds_what_fits(wanted, found):
    book = book_of(
        ended("a-1", began_at=1.0, category="law"),
        ended("b-2", began_at=2.0, status=502, steps={"hedge": {}}),
        ended("c-3", began_at=3.0, worker="gpu-7", asked="other", tenant="acme"),
    )
    assert await ids(book, wanted) == found


async def test_a_call_looks_at_so_many_and_says_where_to_go_on():
    book = book_of(ended("needle"), *(ended(str(number)) for number in range(700)))
    search = RequestSearch(book, free, max_examined=300)
    page = await search.search_requests(RequestFilter(text="needle"), None, 10)
    assert page.rows == [] and page.examined == 300 and page.next is not None
    page = await search.search_requests(RequestFilter(text="needle"), page.next, 10)
    page = await search.search_requests(RequestFilter(text="needle"), page.next, 10)
    assert [row.id for row in page.rows] == ["needle"] and page.next is None


async def test_what_may_not_be_seen_is_not_found():
    book = book_of(ended("a", tenant="acme"), ended("b", tenant="rival"))
    assert await ids(book, may_see=lambda journal: journal.tenant == "acme") == ["a"]
    assert await ids(book, RequestFilter(text="b"), may_see=lambda journal: journal.tenant == "acme") == []


@pytest.mark.parametrize(
    ("step", "fields", "reason"),
    [
        ("guard_jailbreak", {"action": "block", "type": "prompt_injection"}, "attack: prompt_injection"),
        ("guard_clearing", {"action": "block", "denied": ["EMAIL", "IBAN"]}, "personal data: EMAIL, IBAN"),
        ("guard_answer", {"action": "block", "rule": "answers.pii"}, "answer: answers.pii"),
        ("guard_error", {"action": "block", "guard": "pii"}, "pii could not be read"),
        ("semantic", {"blocked": True, "rule": "secret"}, "rule: secret"),
        ("guard_jailbreak", {"action": "report", "type": "prompt_injection"}, None),
    ],
)
def test_a_blocked_request_says_what_for_although_its_answer_is_a_200(step, fields, reason):
    row = build_row(ended("a", steps={step: fields}), free)
    assert (row.status, row.blocked_by) == (200, reason)
    assert ("blocked" in row.flags) == (reason is not None)
