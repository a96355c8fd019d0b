"""One answer of those that several children gave to the same question. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from itertools import accumulate, islice
from typing import Any

Merge = Callable[[Sequence[Any]], Any]
"""Makes one answer of all, the asked child's own first."""


def merge_worker_lists(replies: Sequence[Any]) -> Any:
    """Merge `/workers` or `/list_workers`: what is in flight, and has been sent, at all children."""
    own = replies[0]
    by_url: dict[str, list[dict[str, Any]]] = {}
    for reply in replies[1:]:
        for worker in reply["workers"]:
            by_url.setdefault(worker["url"], []).append(worker)
    for worker in own["workers"]:
        others = by_url.get(worker["url"], [])
        sibling_load = sum(other["in_flight"] for other in others)
        worker["in_flight"] += sibling_load
        if "load" in worker:
            worker["load"] = worker["in_flight"]
        worker["in_flight_elsewhere"] = max(0, worker["in_flight_elsewhere"] - sibling_load)
        worker["total"] += sum(other["total"] for other in others)
    return own


def merge_worker(replies: Sequence[Any]) -> Any:
    """Merge `/workers/{worker_id}`; a child that does not know the worker has given it nothing."""
    known = [reply for reply in replies if "url" in reply]
    return merge_worker_lists([{"workers": [reply]} for reply in known])["workers"][0]


def merge_loads(replies: Sequence[Any]) -> Any:
    """Merge `/metrics` as JSON."""
    own = replies[0]
    loads = own["router"]["worker_loads"]
    for url in loads:
        loads[url] = sum(reply["router"]["worker_loads"].get(url, 0) for reply in replies)
    own["router"]["total_in_flight"] = sum(loads.values())
    if "cache" in own:
        own["cache"] = {
            name: sum(reply["cache"][name] for reply in replies if "cache" in reply)
            if _is_count(name, value)
            else value
            for name, value in own["cache"].items()
        }
    return own


def _is_count(name: str, value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and not name.startswith("max")


def merge_health(replies: Sequence[Any]) -> Any:
    """Merge `/health`: what does not work in one child does not work."""
    own = replies[0]
    own["degraded"] = sorted({name for reply in replies for name in reply["degraded"]})
    own["status"] = "degraded" if own["degraded"] else "ok"
    for name in own.get("components", {}):
        own["components"][name] = "down" if name in own["degraded"] else "up"
    return own


def merge_usage(replies: Sequence[Any]) -> Any:
    """Merge `/usage`: sums over what each child has counted."""
    own = replies[0]
    names = (*own["by"], "currency")
    sums: dict[tuple[str, ...], dict[str, Any]] = {}
    for reply in replies:
        for row in reply["usage"]:
            key = tuple(row[name] for name in names)
            known = sums.get(key)
            if known is None:
                sums[key] = row
                continue
            for name, value in row.items():
                if name not in names:
                    known[name] = round(known[name] + value, 9)
    own["usage"] = [sums[key] for key in sorted(sums)]
    return own


def merge_sessions(replies: Sequence[Any]) -> Any:
    """Merge `/sessions`, the newest last."""
    sessions = [session for reply in replies for session in reply["sessions"]]
    return {
        "count": sum(reply["count"] for reply in replies),
        "sessions": sorted(sessions, key=lambda session: session["created"]),
    }


def merge_retrievals(replies: Sequence[Any]) -> Any:
    """Return the answer of the child that knows most of the text."""
    return max(replies, key=lambda reply: (reply["exact"], reply["coverage"]))


def merge_removed(replies: Sequence[Any]) -> Any:
    """Merge answers whose counts add up."""
    own = replies[0]
    return {
        name: sum(reply[name] for reply in replies) if _is_count(name, value) else value
        for name, value in own.items()
    }


class RequestPages:
    """The cursors of `/requests`: one for each child, in the text of one.

    A page has the newest rows of all. Each child's next one begins after its last row that was taken.
    """

    def __init__(self, count: int, cursor: str | None) -> None:
        """`count` children; `cursor`: the `next` of an earlier page. Raises ValueError."""
        self.cursors: list[str | None] = [None] * count
        if cursor is not None:
            parts = cursor.split(".")
            if len(parts) != count or not all(part.isdigit() or part in ("", "end") for part in parts):
                raise ValueError(cursor)
            self.cursors = [part or None for part in parts]

    def is_over(self, slot: int) -> bool:
        """Return whether the child of `slot` has no more rows."""
        return self.cursors[slot] == "end"

    def merge_pages(self, pages: dict[int, Any], limit: int) -> Any:
        """Return one page of at most `limit` rows, of each child's, by slot."""
        taken = islice(
            merge(*(_ended_rows(slot, page) for slot, page in pages.items()), key=lambda row: -row[0]), limit
        )
        rows, cursors = [], []
        for _, slot, at, row in taken:
            rows.append(row)
            self.cursors[slot] = pages[slot]["cursors"][at]
            cursors.append(self._to_text())
        for slot, page in pages.items():
            last = page["cursors"][-1] if page["cursors"] else None
            if last is None or self.cursors[slot] == last:
                self.cursors[slot] = "end" if page["next"] is None else page["next"]
        over = all(cursor == "end" for cursor in self.cursors)
        kept = [page["kept"] for page in pages.values()]
        return {
            "requests": rows,
            "cursors": cursors,
            "next": None if over else self._to_text(),
            "examined": sum(page["examined"] for page in pages.values()),
            "kept": None if not kept or None in kept else sum(kept),
        }

    def _to_text(self) -> str:
        return ".".join(cursor or "" for cursor in self.cursors)


def _ended_rows(slot: int, page: Any) -> Iterator[tuple[float, int, int, Any]]:
    """Yield the rows of a page with when they or older ones ended, their child and their index.

    A child has its rows by when they were stored, which for a slow client is after younger ones ended.
    """
    rows = page["requests"]
    ends = [*accumulate((row["ended_at"] for row in reversed(rows)), max)][::-1]
    for at, (ended_at, row) in enumerate(zip(ends, rows, strict=True)):
        yield ended_at, slot, at, row
