"""The journal of a request: what each step decided, in order.

It is the only record of a decision. Response headers, `/explain/{id}`, trace spans and the console all read
it, and nothing else is written for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, islice
from time import perf_counter, time
from typing import Any, Protocol, TypeVar
from weakref import ReferenceType, ref

import msgspec
from msgspec import field

from radixway.core.component import Component, Subject
from radixway.core.telemetry.journal_pages import JournalPage, PackingError, SharedObject
from radixway.core.telemetry.trace_record import TraceRecord


def journal_key(tenant: str | None, request_id: str) -> str:
    """Return the key of a journal: a text, which the garbage collector need not look at."""
    return f"{tenant or ''}\0{request_id}"


class ExplainableDecision(Protocol):
    """A decision whose fields are built when it is read, not for every request."""

    def explain(self) -> dict[str, Any]:
        """Return the fields: JSON values, never prompt text.

        A decision may also have `compact() -> int`, called when the request is over: it drops what `explain`
        does not need, and returns about how many bytes stay.
        """


JournalEntry = tuple[str, float, dict[str, Any] | ExplainableDecision]
"""A step, the seconds since the request began, and what the step decided."""


_JOURNAL_BYTES = 800
"""What a journal takes besides fields and blocks, about."""


class _PackedFields(msgspec.Struct, gc=False):
    """Fields of an entry as bytes."""

    packed: bytes


_pack_fields = msgspec.msgpack.Encoder().encode
_unpack_fields = msgspec.msgpack.Decoder(dict[str, Any]).decode


_NO_ENTRIES: list[JournalEntry] = []

DecisionT = TypeVar("DecisionT")

_plain_kinds: set[type] = set()
"""Kinds of decisions that are kept as they are: nothing to compact, nothing to collect."""


class Journal(msgspec.Struct, eq=False, gc=False):
    """Entries of one request, each `(step, seconds since the request began, fields)`."""

    request_id: str
    began_at: float = field(default_factory=time)
    _origin: float = field(default_factory=perf_counter)
    number: int = 0
    """Its number in the store, counted from 1; 0 until it is stored."""
    _entries: list[JournalEntry] = field(default_factory=list)
    _stored: tuple[Any, ...] = ()
    """The entries once it is stored, all in one tuple, at which the garbage collector looks once."""
    tenant: str | None = None
    """Owner of the request, like the next two, by which erasure finds it."""
    user: str | None = None
    session: str | None = None
    trace: TraceRecord | None = None
    """Its place in a trace, where traces are kept."""
    erasures: tuple[Subject, ...] = ()
    """Whose data were erased while the request was under way."""
    _store: ReferenceType[JournalStore] | None = None
    """Notified of entries that are added later: it counts them, and may keep a copy."""
    _key: str = ""
    """Its `key` once it is stored, and …"""
    _size_bytes: int = 0
    """… about how many bytes its entries take."""

    def add(self, step: str, decision: ExplainableDecision | None = None, **fields: Any) -> None:
        """Append what `step` decided: a decision, or fields of JSON values. Never prompt text."""
        entry = step, perf_counter() - self._origin, decision or fields
        if not self.number:
            self._entries.append(entry)
            return
        self._stored += entry
        self._update_stored()

    def _update_stored(self) -> None:
        store = None if self._store is None else self._store()
        if store is not None:
            store.update_journal(self)

    @property
    def entries(self) -> list[JournalEntry]:
        """The entries, to be read."""
        if not self.number:
            return self._entries
        parts = iter(self._stored)
        return [
            (step, at, _unpack_fields(told.packed) if told.__class__ is _PackedFields else told)
            for step, at, told in zip(parts, parts, parts, strict=True)
        ]

    def latest_decision(self, kind: type[DecisionT]) -> DecisionT | None:
        """Return the latest decision of this very `kind`, if there is one."""
        decisions = self._stored[::-3] if self.number else [told for _, _, told in reversed(self._entries)]
        for told in decisions:
            if told.__class__ is kind:
                found: DecisionT = told
                return found
        return None

    def settle_entries(self) -> tuple[int, bool]:
        """The request is over: keep the entries so that the garbage collector need not look at them.

        Return about how many bytes they take, and whether that was possible.
        """
        size = _JOURNAL_BYTES
        stored: list[Any] = list(chain.from_iterable(self._entries))
        is_plain = not self.is_traced  # a trace that is not sampled has no stages
        for at, told in enumerate(stored[2::3]):
            kind = told.__class__
            if kind in _plain_kinds:
                continue
            if kind is dict:
                try:
                    packed = _pack_fields(told)
                except (TypeError, ValueError, OverflowError):
                    is_plain = False
                else:
                    size += len(packed)
                    stored[3 * at + 2] = _PackedFields(packed)
                continue
            if (compact := getattr(told, "compact", None)) is not None:
                size += compact()
            if not _is_plain(told):
                is_plain = False
            elif compact is None:
                _plain_kinds.add(kind)
        self._stored, self._entries = tuple(stored), _NO_ENTRIES
        return size, is_plain

    def record_timing(self, name: str, began_s: float, **fields: Any) -> None:
        """Record a stage that began at `began_s` (see `elapsed_s`), where the request is traced."""
        if self.trace is not None:
            self.trace.add_stage(name, began_s, self.elapsed_s(), **fields)
            self._update_stored()

    def since_origin_s(self, at: float) -> float:
        """Return `at`, a reading of `perf_counter`, as `elapsed_s` gives it."""
        return at - self._origin

    @property
    def key(self) -> str:
        """The key it is kept under: clients choose ids, so each tenant's are its own."""
        return journal_key(self.tenant, self.request_id)

    def matches_subject(self, subject: Subject) -> bool:
        """Return whether the request is one of `subject`, by what is known of it now."""
        labels = {
            "tenant": self.tenant,
            "user": self.user,
            "session": self.session,
            "request": self.request_id,
        }
        return subject.given().items() <= labels.items()

    @property
    def is_erased(self) -> bool:
        """True if its subject was erased while it was under way: nothing may say whose it is."""
        return bool(self.erasures) and any(map(self.matches_subject, self.erasures))

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


def _is_plain(decision: object) -> bool:
    """Return whether the garbage collector need not look at `decision`, nor at any of its kind."""
    if isinstance(decision, msgspec.Struct):
        return not decision.__struct_config__.gc
    return isinstance(decision, SharedObject)


class _StoredPage(msgspec.Struct, gc=False):
    """A journal that is stored in bytes."""

    page: JournalPage
    _key: str
    _size_bytes: int


_MAX_BYTES = 256 * 2**20


class JournalStore(Component):
    """The journals of the latest `capacity` requests, by tenant and request id.

    When a tenant repeats an id, its newest journal is kept; one tenant's never replaces another's. Numbers
    rise by one with each journal.

    A journal whose entries the garbage collector need not look at is kept as it is: fields of plain values,
    decisions that are structs without `gc`, as those of every request are, and what outlives
    requests. Others are packed into bytes, and what is read of them is a copy.
    """

    name = "journals"
    erasable_by = frozenset({"tenant", "user", "session", "request"})

    def __init__(self, capacity: int, max_bytes: int = _MAX_BYTES) -> None:
        """`max_bytes`: about what all of them may take; beyond it, too, the oldest is forgotten."""
        self._capacity = capacity
        self._max_bytes = max_bytes
        self._newest = 0
        self._oldest = 1
        self._reference = ref(self)
        """For journals, which are no garbage collector's: a cycle with them would stay."""
        self._stored: dict[int, Journal | _StoredPage] = {}
        """By number; one that was forgotten by itself is missing."""
        self._numbers: dict[str, int] = {}
        self.size_bytes = 0
        """What they take, about."""

    def __len__(self) -> int:
        return len(self._numbers)

    def save_journal(self, journal: Journal) -> None:
        """Store `journal` and later additions to it; beyond the capacity the oldest is forgotten.

        One of a request whose subject has been erased since it began is not stored.
        """
        if not self._capacity and not journal.is_traced:  # a trace that waits for its export is settled, too
            return
        if journal.is_erased:
            return
        self._newest = number = self._newest + 1
        journal.number = number
        journal._key = key = journal.key
        self._numbers[key] = number
        journal._size_bytes, is_plain = journal.settle_entries()
        self._stored[number] = journal
        self.size_bytes += journal._size_bytes
        journal._store = self._reference
        if not is_plain:
            self.update_journal(journal)
        while number - self._oldest >= self._capacity or self.size_bytes > self._max_bytes:
            self._forget_oldest()

    def update_journal(self, journal: Journal) -> None:
        """Pack a stored journal, perhaps again; one that cannot be packed stays as it is."""
        known = self._stored.get(journal.number)
        if known is not None:
            with suppress(PackingError):
                page = JournalPage(_state_of(journal))
                self._stored[journal.number] = _StoredPage(page, known._key, page.size_bytes)
                self.size_bytes += page.size_bytes - known._size_bytes

    def forget_journals(self, which: Callable[[Journal], bool]) -> int:
        """Forget journals, those that a newer one of the same id hides too; how many there were."""
        gone = [journal for stored in self._stored.values() if which(journal := _unpack(stored))]
        for journal in gone:
            self._forget(journal.number)
        return len(gone)

    async def erase(self, subject: Subject) -> int:
        return self.forget_journals(lambda journal: journal.matches_subject(subject))

    def journals_before(self, number: int | None, limit: int) -> list[Journal]:
        """Return the latest `limit` journals before number `number` (None: of all), the newest first.

        Those that a newer one of the same id hides are among them.
        """
        end = self._newest + 1 if number is None else min(number, self._newest + 1)
        stored = (self._stored.get(at) for at in range(end - 1, self._oldest - 1, -1))
        return [_unpack(found) for found in islice((each for each in stored if each is not None), limit)]

    def latest_journals(self, limit: int) -> Iterator[Journal]:
        """The latest `limit` journals of now, newest first. May be gone through in any thread."""
        numbers = range(self._newest, self._oldest - 1, -1)
        stored = (self._stored.get(at) for at in numbers)
        found = [*islice((each for each in stored if each is not None), limit)]
        return map(_unpack, found)

    def find_journal(self, request_id: str, tenant: str | None = None) -> Journal | None:
        """Return the newest journal of that id, of `tenant` or (None) of the id's first tenant."""
        if tenant is not None:
            number = self._numbers.get(journal_key(tenant, request_id))
        else:
            found = (n for key, n in self._numbers.items() if key.partition("\0")[2] == request_id)
            number = next(found, None)
        return None if number is None else _unpack(self._stored[number])

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

    def _forget_oldest(self) -> None:
        """Forget the journal of the lowest number, if it is still there."""
        number, self._oldest = self._oldest, self._oldest + 1
        if number in self._stored:
            self._forget(number)

    def _forget(self, number: int) -> None:
        gone = self._stored.pop(number)
        self.size_bytes -= gone._size_bytes
        if self._numbers.get(gone._key) == number:
            del self._numbers[gone._key]


def _state_of(journal: Journal) -> tuple[Any, ...]:
    """Return the arguments that make it again."""
    return (
        *(
            journal.request_id,
            journal.began_at,
            journal._origin,
            journal.number,
            _NO_ENTRIES,
            journal._stored,
        ),
        *(journal.tenant, journal.user, journal.session, journal.trace),
    )


def _unpack(stored: Journal | _StoredPage) -> Journal:
    return stored if isinstance(stored, Journal) else Journal(*stored.page.unpack())
