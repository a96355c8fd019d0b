"""Usage in a SQLite file: a row for each day, tenant, model, category and currency.

Carries what was counted to the file, in batches and in a thread of its own.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any, TypeVar

from radixway.core.config import ConfigError
from radixway.core.storage import open_sqlite
from radixway.core.tenants.usage_ledger import UsageKey, UsageLedger, UsageTotals, day_of

_KEY = ", ".join(UsageKey._fields)
_FIGURES = [each.name for each in fields(UsageTotals)]
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
    """One file. Every method blocks; it belongs to one thread at a time. Several gateways may share it."""

    def __init__(self, path: Path) -> None:
        """Open the file at `path`, or make it.

        Raises OSError, sqlite3.Error, ValueError for another version's.
        """
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
        """Close the file."""
        self._db.close()


log = logging.getLogger(__name__)

T = TypeVar("T")

_DAY_S = 86_400


class UsageWriter:
    """A book and its file. A file that fails costs no request: what it misses is written when it can be."""

    def __init__(
        self, book: UsageLedger, path: Path, *, flush_s: float, keep_days: int, clock: Callable[[], float]
    ) -> None:
        self._book = book
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
        """Read what the file has into the book. Raises ConfigError for a file that cannot be used."""
        first = day_of(self._clock() - self._keep_s)

        def read() -> UsageFile:
            file = UsageFile(self._path)
            file.forget_before(first)
            for key, figures in file.read_rows(first):
                self._book.load_row(key, figures)
            return file

        try:
            self._file = await self._in_thread(read)
        except (sqlite3.Error, ValueError, OSError) as error:
            self._thread.shutdown(wait=False)
            raise ConfigError(f"tenants.usage.path: {self._path} cannot be used: {error}") from error
        self._book.on_delta = self._schedule_flush

    async def flush_and_close(self) -> None:
        """Write the rest, and let go of the file."""
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
        deltas, file = self._book.take_deltas(), self._file
        if not deltas or file is None:
            return
        try:
            await self._in_thread(lambda: file.add_deltas(deltas))
        except sqlite3.Error as error:
            if self._error is None:
                log.error("usage cannot be written to %s, and waits: %s", self._path, error)
            self._error = str(error)
            self._book.restore_deltas(deltas)
            self._schedule_flush()
        else:
            self._error = None

    def describe(self) -> dict[str, Any]:
        """Describe where usage is stored, and the last failure to store it."""
        return {"file": str(self._path), "error": self._error}

    def _schedule_flush(self) -> None:
        if self._timer is None and not self._closing:
            self._timer = asyncio.get_running_loop().call_later(self._flush_s, self._start_flush)

    def _start_flush(self) -> None:
        self._timer = None
        self._book.forget_before(day_of(self._clock() - self._keep_s))
        self._writing = asyncio.get_running_loop().create_task(self.flush_deltas())

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
