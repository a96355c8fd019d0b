"""The journal of a request: what each step decided, in order.

It is the only record of a decision. Response headers, `/explain/{id}`, trace spans and the console all read
it, and nothing else is written for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from time import perf_counter, time
from typing import Any, Protocol

from radixway.core.component import Component, Subject
from radixway.core.telemetry.journal_pages import JournalPage
from radixway.core.telemetry.trace_record import TraceRecord


def journal_key(tenant: str | None, request_id: str) -> str:
    """Return the key of a journal: a text, which the garbage collector need not look at."""
    return f"{tenant or ''}\0{request_id}"


class ExplainableDecision(Protocol):
    """A decision whose fields are built when it is read, not for every request."""

    def explain(self) -> dict[str, Any]:
        """Return the fields: JSON values, never prompt text."""


class Journal:
    """Entries of one request, each `(step, seconds since the request began, fields)`."""

    __slots__ = (
        "_origin",
        "_store",
        "began_at",
        "entries",
        "number",
        "request_id",
        "session",
        "tenant",
        "trace",
        "user",
    )

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self.began_at = time()
        self._origin = perf_counter()
        self.tenant: str | None = None
        """Owner of the request, like the next two, by which erasure finds it."""
        self.user: str | None = None
        self.session: str | None = None
        self.trace: TraceRecord | None = None
        """Its place in a trace, where traces are kept."""
        self.entries: list[tuple[str, float, dict[str, Any] | ExplainableDecision]] = []
        self.number = 0
        """Its number in the store, counted from 1."""
        self._store: JournalStore | None = None
        """Notified of entries that are added after the request."""

    def add(self, step: str, decision: ExplainableDecision | None = None, **fields: Any) -> None:
        """Append what `step` decided: a decision, or fields of JSON values. Never prompt text."""
        self.entries.append((step, perf_counter() - self._origin, decision or fields))
        if self._store is not None:
            self._store.update_journal(self)

    def record_timing(self, name: str, began_s: float, **fields: Any) -> None:
        """Record a stage that began at `began_s` (see `elapsed_s`), where the request is traced."""
        if self.trace is not None:
            self.trace.add_stage(name, began_s, self.elapsed_s(), **fields)
            if self._store is not None:
                self._store.update_journal(self)

    def since_origin_s(self, at: float) -> float:
        """Return `at`, a reading of `perf_counter`, as `elapsed_s` gives it."""
        return at - self._origin

    @property
    def key(self) -> str:
        """The key it is kept under: clients choose ids, so each tenant's are its own."""
        return journal_key(self.tenant, self.request_id)

    @property
    def is_traced(self) -> bool:
        """True if the durations of its parts are recorded."""
        return self.trace is not None and self.trace.sampled

    @property
    def trace_id(self) -> str | None:
        """Id of its trace, if one is kept."""
        return self.trace.id if self.trace is not None and self.trace.sampled else None

    def elapsed_s(self) -> float:
        """Seconds since the request began."""
        return perf_counter() - self._origin

    def __getstate__(self) -> tuple[Any, ...]:
        """Return the state for pages, without the store."""
        return (
            *(self.request_id, self.began_at, self._origin, self.number, self.entries),
            *(self.tenant, self.user, self.session, self.trace),
        )

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Restore the state for a reader."""
        self.request_id, self.began_at, self._origin, self.number, self.entries = state[:5]
        self.tenant, self.user, self.session, self.trace = state[5:]
        self._store = None

    def explain(self) -> dict[str, Any]:
        """The journal as `/explain/{id}` shows it."""
        return {
            "request_id": self.request_id,
            "began_at": self.began_at,
            "steps": [
                {"step": step, "at_ms": round(at * 1e3, 3)}
                | (fields if isinstance(fields, dict) else fields.explain())
                for step, at, fields in self.entries
            ],
        }


_JOURNALS_PER_BLOCK = 16
"""Journals packed together: fewer share less, more take longer than an event-loop turn may."""
_MAX_BYTES = 256 * 2**20


class JournalStore(Component):
    """The journals of the latest `capacity` requests, by tenant and request id.

    When a tenant repeats an id, its newest journal is kept; one tenant's never replaces another's.

    The latest few are kept as they are, all others are packed by the page; what is read of them is a copy.
    Numbers rise by one with each journal, and so do the places of a page:

        pages   [1 … 16] [17 … 32] … [_open_from - 16 … _open_from - 1]   None in place of what was forgotten
        open    [_open_from … _newest]
        kept    _oldest … _newest, of which `_numbers` has the newest of each id
    """

    name = "journals"
    erasable_by = frozenset({"tenant", "user", "session", "request"})

    def __init__(self, capacity: int, max_bytes: int = _MAX_BYTES) -> None:
        """`max_bytes`: beyond that, pages are forgotten even before there are `capacity` journals."""
        self._capacity = capacity
        self._max_bytes = max_bytes
        self._newest = 0
        self._oldest = 1
        self._open: list[Journal | None] = []
        self._open_from = 1
        self._pages: deque[_JournalBlock] = deque()
        self._numbers: dict[str, int] = {}
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def save_journal(self, journal: Journal) -> None:
        """Store `journal` and later additions to it; beyond the capacity the oldest is forgotten."""
        self._newest += 1
        journal.number, journal._store = self._newest, self
        self._open.append(journal)
        self._numbers[journal.key] = journal.number
        while self._newest - self._oldest >= self._capacity:
            self._forget_oldest()
        if len(self._open) >= _JOURNALS_PER_BLOCK:
            self._pack_open()

    def update_journal(self, journal: Journal) -> None:
        """Update a stored journal."""
        if self._oldest <= journal.number < self._open_from:
            page = self._page_of(journal.number)
            if page.keys[journal.number - page.first] is not None:
                before = page.size_bytes
                page.amended[journal.number] = JournalPage([journal])
                self.size_bytes += page.size_bytes - before

    def forget_journals(self, which: Callable[[Journal], bool]) -> int:
        """Forget journals, those that a newer one of the same id hides too; how many there were."""
        gone = 0
        for page in self._pages:
            journals = page.unpack()
            left = [None if journal is None or which(journal) else journal for journal in journals]
            for journal, stays in zip(journals, left, strict=True):
                if journal is not None and stays is None and journal.number >= self._oldest:
                    gone += self._forget_key(journal.key, journal.number)
            if left != journals:
                self.size_bytes -= page.size_bytes
                page.pack(left)
                self.size_bytes += page.size_bytes
        for at, journal in enumerate(self._open):
            if journal is not None and which(journal):
                self._open[at] = journal._store = None
                gone += self._forget_key(journal.key, journal.number)
        return gone

    async def erase(self, subject: Subject) -> int:

        def is_meant(journal: Journal) -> bool:
            labels = {
                "tenant": journal.tenant,
                "user": journal.user,
                "session": journal.session,
                "request": journal.request_id,
            }
            return subject.given().items() <= labels.items()

        return self.forget_journals(is_meant)

    def journals_before(self, number: int | None, limit: int) -> list[Journal]:
        """Return the latest `limit` journals before number `number` (None: of all), the newest first.

        Those that a newer one of the same id hides are among them.
        """
        found: list[Journal] = []
        end = self._newest + 1 if number is None else min(number, self._newest + 1)
        while end > self._oldest and len(found) < limit:
            first, journals = self._neighbors_of(end - 1)
            found += [
                journal
                for journal in reversed(journals[max(0, self._oldest - first) : end - first])
                if journal is not None
            ]
            end = first
        del found[limit:]
        return found

    def latest_journals(self, limit: int) -> Iterator[Journal]:
        """The latest `limit` journals of now, newest first. May be gone through in any thread."""
        blocks = [(page.first, page.unpack) for page in self._pages]
        unpacked = self._open.copy()
        return _unpack_blocks([*blocks, (self._open_from, lambda: unpacked)], self._oldest, limit)

    def find_journal(self, request_id: str, tenant: str | None = None) -> Journal | None:
        """Return the newest journal of that id, of `tenant` or (None) of the id's first tenant."""
        if tenant is not None:
            number = self._numbers.get(journal_key(tenant, request_id))
        else:
            found = (n for key, n in self._numbers.items() if key.partition("\0")[2] == request_id)
            number = next(found, None)
        if number is None:
            return None
        first, journals = self._neighbors_of(number)
        return journals[number - first]

    def cache_entry_of(self, request_id: str, tenant: str) -> str | None:
        """Return the entry of the semantic cache that a tenant's request left, if it is known here."""
        journal = self.find_journal(request_id, tenant)
        for step, _, fields in journal.entries if journal is not None else ():
            if step == "semantic_cache_keep" and isinstance(fields, dict) and "entry" in fields:
                return str(fields["entry"])
        return None

    def is_newest(self, journal: Journal) -> bool:
        """Return whether `journal` is stored, and is the newest of its tenant with its id."""
        return self._numbers.get(journal.key) == journal.number

    def _neighbors_of(self, number: int) -> tuple[int, list[Journal | None]]:
        """Return the block of a journal, and its first number."""
        if number >= self._open_from:
            return self._open_from, self._open
        page = self._page_of(number)
        return page.first, page.unpack()

    def _page_of(self, number: int) -> _JournalBlock:
        return self._pages[(number - self._pages[0].first) // _JOURNALS_PER_BLOCK]

    def _pack_open(self) -> None:
        page = _JournalBlock(self._open_from, self._open)
        self._pages.append(page)
        self.size_bytes += page.size_bytes
        self._open_from += len(self._open)
        self._open = []
        while self.size_bytes > self._max_bytes:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        """Forget one journal, and its page with the last."""
        number, self._oldest = self._oldest, self._oldest + 1
        if number >= self._open_from:
            journal = self._open[number - self._open_from]
            self._open[number - self._open_from] = None
            if journal is not None:
                journal._store = None
                self._forget_key(journal.key, number)
            return
        page = self._pages[0]
        key = page.keys[number - page.first]
        if key is not None:
            self._forget_key(key, number)
        if number == page.first + len(page.keys) - 1:
            self.size_bytes -= page.size_bytes
            self._pages.popleft()

    def _forget_key(self, key: str, number: int) -> int:
        """Forget a key; return 1 for the caller's count."""
        if self._numbers.get(key) == number:
            del self._numbers[key]
        return 1


class _JournalBlock:
    """Packed journals of consecutive numbers."""

    __slots__ = ("_packed", "amended", "first", "keys")

    def __init__(self, first: int, journals: list[Journal | None]) -> None:
        self.first = first
        self.pack(journals)

    def pack(self, journals: list[Journal | None]) -> None:
        """Hold `journals` instead."""
        self.keys = tuple(None if journal is None else journal.key for journal in journals)
        """None: it is forgotten."""
        self._packed = JournalPage(journals)
        self.amended: dict[int, JournalPage] = {}
        """By number, those to which something was added later."""

    def unpack(self) -> list[Journal | None]:
        """Unpack all journals; None for a forgotten one."""
        journals: list[Journal | None] = self._packed.unpack()
        for number, page in self.amended.copy().items():
            (journals[number - self.first],) = page.unpack()
        return journals

    @property
    def size_bytes(self) -> int:
        """Return the packed bytes."""
        return self._packed.size_bytes + sum(page.size_bytes for page in self.amended.values())


def _unpack_blocks(
    blocks: list[tuple[int, Callable[[], list[Journal | None]]]], oldest: int, limit: int
) -> Iterator[Journal]:
    for first, unpack in reversed(blocks):
        journals = unpack()
        for at in range(len(journals) - 1, -1, -1):
            journal = journals[at]
            if limit <= 0 or first + at < oldest:
                return
            if journal is not None:
                yield journal
                limit -= 1
