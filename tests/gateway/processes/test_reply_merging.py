"""One answer of several: counts add up, pages go on where they stopped."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from radixway.gateway.processes.reply_merging import (
    RequestPages,
    merge_health,
    merge_usage,
    merge_worker,
    merge_worker_lists,
)


def worker(url: str, in_flight: int, elsewhere: int, total: int) -> dict:
    return {"url": url, "in_flight": in_flight, "in_flight_elsewhere": elsewhere, "total": total}


def test_what_siblings_have_in_flight_is_not_elsewhere():
    own = {"workers": [worker("a", 2, 8, 10), worker("b", 0, 0, 0)]}
    sibling = {"workers": [worker("a", 3, 7, 20)]}
    assert merge_worker_lists([own, sibling]) == {"workers": [worker("a", 5, 5, 30), worker("b", 0, 0, 0)]}


def test_what_does_not_work_in_one_process_does_not_work():
    one = {"status": "ok", "degraded": [], "components": {"chats": "up", "metrics": "up"}}
    other = {"status": "degraded", "degraded": ["metrics"]}
    assert merge_health([one, other]) == {
        "status": "degraded",
        "degraded": ["metrics"],
        "components": {"chats": "up", "metrics": "down"},
    }


def test_usage_adds_up_by_its_keys():
    def row(model: str, requests: int, cost: float) -> dict:
        return {"model": model, "currency": "", "requests": requests, "cost": cost}

    one = {"by": ["model"], "usage": [row("m", 1, 0.1)]}
    other = {"by": ["model"], "usage": [row("a", 2, 0.2), row("m", 3, 0.2)]}
    assert merge_usage([one, other])["usage"] == [row("a", 2, 0.2), row("m", 4, 0.3)]


def read_page(ended: list[float], slot: int, cursor: str | None, limit: int, examined: int) -> dict:
    """A child's page as `/requests` has it: a cursor is the number of the last row that was looked at."""
    begin = len(ended) if cursor is None else int(cursor)
    numbers = range(begin - 1, max(-1, begin - 1 - min(limit, examined)), -1)
    rows = [{"id": (slot, number), "ended_at": ended[number]} for number in numbers]
    last = numbers[-1] if numbers else 0
    return {
        "requests": rows,
        "cursors": [str(number) for number in numbers],
        "next": str(last) if last > 0 else None,
        "examined": len(rows),
        "kept": len(ended),
    }


@given(
    st.lists(st.lists(st.integers(0, 50), max_size=20).map(sorted), min_size=1, max_size=4),
    st.integers(1, 7),
    st.integers(1, 7),
)
def test_pages_have_every_row_once_and_each_childs_in_its_order(children, limit, examined):
    cursor, found = None, []
    for _ in range(200):
        pages = RequestPages(len(children), cursor)
        told = {
            slot: read_page(ended, slot, pages.cursors[slot], limit, examined)
            for slot, ended in enumerate(children)
            if not pages.is_over(slot)
        }
        merged = pages.merge_pages(told, limit)
        assert len(merged["requests"]) <= limit
        assert len(merged["cursors"]) == len(merged["requests"])
        found += [row["id"] for row in merged["requests"]]
        cursor = merged["next"]
        if cursor is None:
            break
    for slot, ended in enumerate(children):
        assert [number for of, number in found if of == slot] == list(range(len(ended)))[::-1]


@given(st.lists(st.lists(st.integers(0, 9), max_size=6).map(sorted), min_size=2, max_size=3), st.data())
def test_a_rows_cursor_goes_on_after_it(children, data):
    every = sum(map(len, children))
    told = {slot: read_page(ended, slot, None, 50, 50) for slot, ended in enumerate(children)}
    whole = RequestPages(len(children), None).merge_pages(told, 50)
    if not every:
        return
    at = data.draw(st.integers(0, every - 1))
    pages = RequestPages(len(children), whole["cursors"][at])
    told = {
        slot: read_page(ended, slot, pages.cursors[slot], 50, 50)
        for slot, ended in enumerate(children)
        if not pages.is_over(slot)
    }
    assert pages.merge_pages(told, 50)["requests"] == whole["requests"][at + 1 :]


def test_rows_are_in_the_order_of_their_last_bytes_not_of_their_entries():
    """A client that has its answer asks another process before the first has written down that it ended."""

    def page(name: str, ended_at: float, total_ms: float) -> dict:
        row = {"id": name, "began_at": ended_at - 0.001, "total_ms": total_ms, "ended_at": ended_at}
        return {"requests": [row], "cursors": ["1"], "next": None, "examined": 1, "kept": 1}

    pages = RequestPages(2, None)
    merged = pages.merge_pages({0: page("first", 10.0, 900.0), 1: page("second", 10.1, 1.0)}, 50)
    assert [row["id"] for row in merged["requests"]] == ["second", "first"]


def test_a_row_that_was_stored_late_hides_no_newer_one():
    def page(**ended_at: float) -> dict:
        rows = [{"id": name, "ended_at": at} for name, at in ended_at.items()]
        numbers = [str(number) for number in range(len(rows), 0, -1)]
        return {"requests": rows, "cursors": numbers, "next": None, "examined": len(rows), "kept": 2}

    pages = RequestPages(2, None)
    merged = pages.merge_pages({0: page(late=8.0, newest=9.0), 1: page(between=8.5)}, 50)
    assert [row["id"] for row in merged["requests"]] == ["late", "newest", "between"]


def test_one_worker_has_in_hand_what_all_children_gave_it():
    def told(in_flight: int, elsewhere: int, total: int) -> dict:
        loads = {"in_flight": in_flight, "load": in_flight, "in_flight_elsewhere": elsewhere, "total": total}
        return {"url": "http://w", "id": "x", **loads}

    merged = merge_worker([told(1, 5, 10), told(2, 4, 20), {"error": {"code": "worker_not_found"}}])
    assert merged == {
        "url": "http://w",
        "id": "x",
        "in_flight": 3,
        "load": 3,
        "in_flight_elsewhere": 3,
        "total": 30,
    }
