"""Usage in a SQLite file: a row for each day, tenant, model, category and currency."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import astuple, fields
from pathlib import Path

from radixway.storage import open_sqlite
from radixway.tenants.book import UsageKey, UsageTotals

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
        """Open the file, or make it. Raises OSError, sqlite3.Error, ValueError for another version's."""
        self._db = open_sqlite(path, _MIGRATIONS)

    def read_rows(self, since: str) -> Iterator[tuple[UsageKey, UsageTotals]]:
        """The rows of the days from `since` on, the oldest first."""
        width = len(UsageKey._fields)
        for row in self._db.execute("SELECT * FROM usage WHERE day >= ? ORDER BY day", (since,)):
            yield UsageKey(*row[:width]), UsageTotals(*row[width:])

    def add_deltas(self, deltas: Mapping[UsageKey, UsageTotals]) -> None:
        """Add to rows, in one transaction. Raises sqlite3.Error, and then none of it was added."""
        self._db.execute("BEGIN IMMEDIATE")
        with self._db:
            self._db.executemany(_ADD, [(*key, *astuple(figures)) for key, figures in deltas.items()])

    def forget_before(self, day: str) -> None:
        """Let go of the days before that one."""
        self._db.execute("DELETE FROM usage WHERE day < ?", (day,))

    def close(self) -> None:
        """Close the file."""
        self._db.close()
