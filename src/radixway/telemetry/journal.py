"""The journal of a request: what each step decided, in order.

It is the only record of a decision. Response headers, `/explain/{id}`, trace spans and the console all read
it, and nothing else is written for them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from time import perf_counter, time
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from radixway.telemetry.tracing.trace import Trace


class Explains(Protocol):
    """A decision that puts itself into words when somebody asks, not for every request."""

    def explain(self) -> dict[str, Any]:
        """Its fields: JSON values, never prompt text."""
        ...


class Journal:
    """Entries of one request, each `(step, seconds since the request began, fields)`."""

    __slots__ = (
        "_origin",
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
        """Whose request it was, like the next two: so that it is found when they are to be forgotten."""
        self.user: str | None = None
        self.session: str | None = None
        self.trace: Trace | None = None
        """Its place in a trace, where traces are kept."""
        self.entries: list[tuple[str, float, dict[str, Any] | Explains]] = []
        self.number = 0
        """The how manieth its book has kept."""

    def add(self, step: str, decision: Explains | None = None, **fields: Any) -> None:
        """Append what `step` found or decided: a decision, or fields, which must be JSON values.

        Neither may hold prompt text.
        """
        self.entries.append((step, perf_counter() - self._origin, decision or fields))

    def timed(self, name: str, began_s: float, **fields: Any) -> None:
        """Note how long what began at `began_s` (see `elapsed_s`) took, where the request is traced.

        `fields` as of `add`.
        """
        if self.trace is not None:
            self.trace.add(name, began_s, self.elapsed_s(), **fields)

    def since_origin_s(self, at: float) -> float:
        """A reading of `perf_counter` as `elapsed_s` gives it."""
        return at - self._origin

    @property
    def key(self) -> tuple[str | None, str]:
        """What it is kept under: clients choose ids, so each tenant's are its own."""
        return self.tenant, self.request_id

    @property
    def is_traced(self) -> bool:
        """Whether anybody will see how long its parts took."""
        return self.trace is not None and self.trace.sampled

    @property
    def trace_id(self) -> str | None:
        """Of the trace that is kept of it, if one is."""
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
                | (said if isinstance(said, dict) else said.explain())
                for step, at, said in self.entries
            ],
        }


class JournalBook:
    """The journals of the latest `capacity` requests, by tenant and request id.

    Of an id that a tenant repeats the newest is kept; nobody's takes the place of another tenant's.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._kept = 0
        self._order: deque[Journal] = deque()
        self._by_key: dict[tuple[str | None, str], Journal] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def keep(self, journal: Journal) -> None:
        """Remember a journal; beyond the capacity the oldest is forgotten."""
        self._kept += 1
        journal.number = self._kept
        self._order.append(journal)
        self._by_key[journal.key] = journal
        while len(self._order) > self._capacity:
            oldest = self._order.popleft()
            if self.is_newest(oldest):
                del self._by_key[oldest.key]

    def forget(self, which: Callable[[Journal], bool]) -> int:
        """Forget journals, those that a newer one of the same id hides too; how many there were."""
        gone = [journal for journal in self._order if which(journal)]
        for journal in gone:
            if self.is_newest(journal):
                del self._by_key[journal.key]
        self._order = deque(journal for journal in self._order if not which(journal))
        return len(gone)

    def before(self, number: int | None, most: int) -> list[Journal]:
        """The latest `most` journals kept before the one of that number; None: of all. Newest first.

        Those that a newer one of the same id hides are among them. Takes no longer in a book that is full.
        """
        order = self._order
        end = len(order) if number is None else bisect_left(order, number, key=_number_of)
        return [order[at] for at in range(end - 1, max(end - most, 0) - 1, -1)]

    def find(self, request_id: str, tenant: str | None = None) -> Journal | None:
        """The newest journal of that id, if it is still remembered.

        `tenant`: whose it must be; None: of whoever used the id first, so that who repeats it hides nothing.
        """
        if tenant is not None:
            return self._by_key.get((tenant, request_id))
        return next((journal for (_, name), journal in self._by_key.items() if name == request_id), None)

    def is_newest(self, journal: Journal) -> bool:
        """Whether it is kept, and its tenant has repeated its id with none since."""
        return self._by_key.get(journal.key) is journal


def _number_of(journal: Journal) -> int:
    return journal.number
