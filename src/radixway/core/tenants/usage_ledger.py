"""Usage by day, tenant, model and category: bounded, and written to a SQLite file in deltas."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, fields
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import msgspec

from radixway.core.config import ConfigError
from radixway.core.storage import open_sqlite

log = logging.getLogger(__name__)

OTHER = "other"
"""Model of usage beyond the row limit."""
_DAY_S = 86_400
KeyT = TypeVar("KeyT")
ResultT = TypeVar("ResultT")


class UsageKey(NamedTuple):
    """The key by which usage is counted."""

    day: str
    """UTC, as 2026-11-21."""
    tenant: str
    model: str
    category: str
    """Empty where the semantic layer did not judge it."""
    currency: str
    """Empty where the model has no price."""


@dataclass(slots=True)
class UsageTotals:
    """Sums of usage."""

    requests: int = 0
    failed: int = 0
    """Requests without a successful answer; they cost nothing."""
    kept_answers: int = 0
    """Requests answered without a worker; they cost nothing."""
    estimated: int = 0
    """Requests whose tokens no worker reported."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0

    def add_totals(self, other: Self) -> None:
        self.requests += other.requests
        self.failed += other.failed
        self.kept_answers += other.kept_answers
        self.estimated += other.estimated
        self.prompt_tokens += other.prompt_tokens
        self.cached_tokens += other.cached_tokens
        self.completion_tokens += other.completion_tokens
        self.cost += other.cost

    def to_dict(self) -> dict[str, Any]:
        """The figures, and the tokens in all."""
        figures = {field.name: getattr(self, field.name) for field in fields(self)}
        return figures | {
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "cost": round(self.cost, 9),
        }


class ChargedUsage(msgspec.Struct, gc=False):
    """Usage of one request that a worker answered, for its journal. Plain, so that it is kept as it is."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    estimated: bool
    cost: float
    model: str
    currency: str

    def explain(self) -> dict[str, Any]:
        figures = UsageTotals(
            requests=1,
            estimated=int(self.estimated),
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            completion_tokens=self.completion_tokens,
            cost=self.cost,
        )
        return figures.to_dict() | {"model": self.model, "currency": self.currency}


_MAX_RECENT_ROWS = 256
"""Rows of usage that has not been added to the ledger yet."""


class UsageLedger:
    """The rows of usage. Synchronous, of the event loop; `UsageWriter` saves its deltas in a file.

    A request is added to one recent row. `rows`, `totals` and the deltas get it when somebody reads them.
    """

    def __init__(self, *, max_rows: int, keeps_deltas: bool = False) -> None:
        self._rows: dict[UsageKey, UsageTotals] = {}
        self._totals: dict[tuple[str, str, str], UsageTotals] = {}
        self._max_rows = max_rows
        self._deltas: dict[UsageKey, UsageTotals] | None = {} if keeps_deltas else None
        self._recent: dict[tuple[str, str, str, str], UsageTotals] = {}
        """By tenant, model, category and currency; all of one day."""
        self._recent_day = ""
        self._recent_since = float("-inf")
        """Beginning of that day, seconds since the epoch, …"""
        self._recent_until = float("-inf")
        """… and its end."""
        self.on_delta: Callable[[], None] = lambda: None
        """Called when new usage is there to take."""

    def record_usage(
        self, now: float, tenant: str, model: str, category: str, currency: str, figures: UsageTotals
    ) -> None:
        """Add `figures` to the row of today; `now` is seconds since the epoch."""
        self.current_row(now, tenant, model, category, currency).add_totals(figures)

    def current_row(self, now: float, tenant: str, model: str, category: str, currency: str) -> UsageTotals:
        """Return the row of today, to be added to at once; `now` is seconds since the epoch."""
        key = tenant, model, category, currency
        row = self._recent.get(key)
        if row is not None and self._recent_since <= now < self._recent_until:
            return row
        if not self._recent_since <= now < self._recent_until or len(self._recent) >= _MAX_RECENT_ROWS:
            self._add_recent_rows()
            self._recent_day, self._recent_since = day_of(now), now // _DAY_S * _DAY_S
            self._recent_until = self._recent_since + _DAY_S
        if not self._recent and not self._deltas:
            self.on_delta()
        row = self._recent[key] = UsageTotals()
        return row

    @property
    def rows(self) -> dict[UsageKey, UsageTotals]:
        """Usage by day, tenant, model, category and currency."""
        self._add_recent_rows()
        return self._rows

    @property
    def totals(self) -> dict[tuple[str, str, str], UsageTotals]:
        """Usage by tenant, model and currency, since the start: what metrics count."""
        self._add_recent_rows()
        return self._totals

    def _add_recent_rows(self) -> None:
        recent, self._recent = self._recent, {}
        for (tenant, model, category, currency), figures in recent.items():
            key = UsageKey(self._recent_day, tenant, model, category, currency)
            _add_to_row(self._totals, (tenant, model, currency), figures)
            self.load_row(key, figures)
            if self._deltas is not None:
                _add_to_row(self._deltas, key, figures)

    def load_row(self, key: UsageKey, figures: UsageTotals) -> None:
        """Add `figures` to the row `key`, which a file may have already."""
        if key not in self._rows and len(self._rows) >= self._max_rows:
            key = self._evict_rows(key)
        _add_to_row(self._rows, key, figures)

    def take_deltas(self) -> dict[UsageKey, UsageTotals]:
        """Return and reset what was counted since the last time."""
        self._add_recent_rows()
        taken, self._deltas = self._deltas or {}, {}
        return taken

    def restore_deltas(self, deltas: dict[UsageKey, UsageTotals]) -> None:
        """Add back `deltas` that could not be written, to be taken again."""
        assert self._deltas is not None
        for key, figures in deltas.items():
            _add_to_row(self._deltas, key, figures)

    def forget_before(self, day: str) -> None:
        """Drop the days before `day`."""
        rows = self.rows
        for key in [key for key in rows if key.day < day]:
            del rows[key]

    def check(self) -> None:
        """Raises AssertionError where there are more rows than there may be."""
        rows = self.rows
        days = {key.day for key in rows}
        folded = sum(key.model == OTHER for key in rows)
        assert len(rows) <= self._max_rows + folded or len(days) == 1, len(rows)

    def _evict_rows(self, key: UsageKey) -> UsageKey:
        """Forget the oldest day; within one day, merge a tenant's new rows."""
        oldest = min(row.day for row in self._rows)
        if oldest < key.day:
            for row in [row for row in self._rows if row.day == oldest]:
                del self._rows[row]
            return key
        return key._replace(model=OTHER, category="")


def _add_to_row(rows: dict[KeyT, UsageTotals], key: KeyT, figures: UsageTotals) -> None:
    known = rows.get(key)
    if known is None:
        known = rows[key] = UsageTotals()
    known.add_totals(figures)


def day_of(now: float) -> str:
    """Return the UTC day of the time `now`."""
    return datetime.fromtimestamp(now, UTC).date().isoformat()


def summarize_usage(
    rows: Iterable[tuple[UsageKey, UsageTotals]],
    by: Collection[str],
    *,
    first: date,
    last: date,
    tenant: str | None = None,
) -> list[dict[str, Any]]:
    """Sums by the fields of `UsageKey` in `by`, and always by currency; the days from `first` to `last`."""
    found: dict[tuple[str, ...], UsageTotals] = {}
    names = (*by, "currency")
    begin, end = first.isoformat(), last.isoformat()
    for key, figures in rows:
        if begin <= key.day <= end and tenant in (None, key.tenant):
            _add_to_row(found, tuple(getattr(key, name) for name in names), figures)
    return [dict(zip(names, key, strict=True)) | found[key].to_dict() for key in sorted(found)]


_KEY = ", ".join(UsageKey._fields)
_FIGURES = [field.name for field in fields(UsageTotals)]
_CREATE_USAGE = f"""
CREATE TABLE IF NOT EXISTS usage (
    {", ".join(f"{name} TEXT NOT NULL" for name in UsageKey._fields)},
    {", ".join(f"{name} {'REAL' if name == 'cost' else 'INTEGER'} NOT NULL" for name in _FIGURES)},
    PRIMARY KEY ({_KEY})
) WITHOUT ROWID
"""
_MIGRATIONS = ((_CREATE_USAGE,),)
_ADD = f"""
INSERT INTO usage ({_KEY}, {", ".join(_FIGURES)})
VALUES ({", ".join("?" * (len(UsageKey._fields) + len(_FIGURES)))})
ON CONFLICT ({_KEY}) DO UPDATE SET {", ".join(f"{name} = {name} + excluded.{name}" for name in _FIGURES)}
"""


class UsageFile:
    """A usage file. Every method blocks; it belongs to one thread at a time. Several gateways may share
    it."""

    def __init__(self, path: Path) -> None:
        """Open or make the file at `path`. Raises OSError, sqlite3.Error, ValueError (another version's)."""
        self._db = open_sqlite(path, _MIGRATIONS)

    def read_rows(self, since: str) -> Iterator[tuple[UsageKey, UsageTotals]]:
        """The rows of the days from `since` on, the oldest first."""
        width = len(UsageKey._fields)
        for row in self._db.execute("SELECT * FROM usage WHERE day >= ? ORDER BY day", (since,)):
            yield UsageKey(*row[:width]), UsageTotals(*row[width:])

    def add_deltas(self, deltas: Mapping[UsageKey, UsageTotals]) -> None:
        """Add `deltas` to rows, in one transaction. Raises sqlite3.Error, and then none of it was added."""
        self._db.execute("BEGIN IMMEDIATE")
        with self._db:
            self._db.executemany(_ADD, [(*key, *astuple(figures)) for key, figures in deltas.items()])

    def forget_before(self, day: str) -> None:
        """Delete the days before `day`."""
        self._db.execute("DELETE FROM usage WHERE day < ?", (day,))

    def close(self) -> None:
        self._db.close()


class UsageWriter:
    """A ledger and its file. A file that fails costs no request: what it misses is written when it can be."""

    def __init__(
        self, ledger: UsageLedger, path: Path, *, flush_s: float, keep_days: int, clock: Callable[[], float]
    ) -> None:
        self._ledger = ledger
        self._path = path
        self._flush_s = flush_s
        self._keep_s = keep_days * _DAY_S
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "radixway-usage")
        self._file: UsageFile | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._error: str | None = None
        self._closing = False

    async def load_ledger(self) -> None:
        """Read what the file has into the ledger. Raises ConfigError for a file that cannot be used."""
        first = day_of(self._clock() - self._keep_s)

        def read() -> UsageFile:
            file = UsageFile(self._path)
            file.forget_before(first)
            for key, figures in file.read_rows(first):
                self._ledger.load_row(key, figures)
            return file

        try:
            self._file = await self._in_thread(read)
        except (sqlite3.Error, ValueError, OSError) as error:
            self._thread.shutdown(wait=False)
            raise ConfigError(f"tenants.usage.path: {self._path} cannot be used: {error}") from error
        self._ledger.on_delta = self._schedule_flush

    async def flush_and_close(self) -> None:
        """Write the rest, and close the file."""
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
        if self._writing is not None:
            await self._writing
        await self.flush_deltas()
        if self._file is not None:
            await self._in_thread(self._file.close)
        self._thread.shutdown(wait=False)

    async def flush_deltas(self) -> None:
        """Write what was counted by now."""
        deltas, file = self._ledger.take_deltas(), self._file
        if not deltas or file is None:
            return
        try:
            await self._in_thread(lambda: file.add_deltas(deltas))
        except sqlite3.Error as error:
            if self._error is None:
                log.error("usage could not be written to %s, and is retried: %s", self._path, error)
            self._error = str(error)
            self._ledger.restore_deltas(deltas)
            self._schedule_flush()
        else:
            self._error = None

    async def read_all(self, since: str) -> list[tuple[UsageKey, UsageTotals]]:
        """Write what was counted by now; return the rows of all processes from the day `since` on.

        A file that cannot be written or read leaves the ledger's own.
        """
        await self.flush_deltas()
        file = self._file
        if file is not None and self._error is None:
            try:
                return await self._in_thread(lambda: list(file.read_rows(since)))
            except sqlite3.Error as error:
                log.error("usage could not be read from %s: %s", self._path, error)
        return list(self._ledger.rows.items())

    def describe(self) -> dict[str, Any]:
        """Describe where usage is stored, and the last failure to store it."""
        return {"file": str(self._path), "error": self._error}

    def _schedule_flush(self) -> None:
        if self._timer is None and not self._closing:
            self._timer = asyncio.get_running_loop().call_later(self._flush_s, self._start_flush)

    def _start_flush(self) -> None:
        self._timer = None
        self._ledger.forget_before(day_of(self._clock() - self._keep_s))
        self._writing = asyncio.get_running_loop().create_task(self.flush_deltas())

    async def _in_thread(self, work: Callable[[], ResultT]) -> ResultT:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
