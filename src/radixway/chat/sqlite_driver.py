"""SQLite in a thread of its own, with one hop into it for each statement.

aiosqlite hops for each call: to make a cursor, execute, fetch and close it. Hops, not SQL, are what small
transactions take their time for.
"""

import os
import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import aiosqlite

from radixway.core.storage import write_ahead


class FetchingCursor(aiosqlite.Cursor):
    """Fetches all rows as it executes."""

    _rows: list[Any]

    async def execute(self, sql: str, parameters: Iterable[Any] | None = None) -> aiosqlite.Cursor:
        """Execute `sql` and fetch all its rows in one hop into the thread."""
        self._rows = await self._execute(  # type: ignore[no-untyped-call]
            _fetch_all_rows, self._cursor, sql, parameters or ()
        )
        return self

    async def fetchall(self) -> list[Any]:
        """Return the rows of the statement."""
        return self._rows

    async def close(self) -> None:
        """Close without a hop: nothing is running any more."""
        self._cursor.close()


class ThreadedConnection(aiosqlite.Connection):
    """Goes to its thread for what may take time."""

    def cursor(self) -> FetchingCursor:  # type: ignore[override]  # theirs is made in the thread
        """A cursor that has executed nothing."""
        return FetchingCursor(self, self._conn.cursor())

    async def commit(self) -> None:
        """End the transaction, where there is one."""
        if self._conn.in_transaction:
            await super().commit()

    async def rollback(self) -> None:
        """Take back the transaction, where there is one."""
        if self._conn.in_transaction:
            await super().rollback()


def connect_sqlite(path: str, *, timeout: float, **given: Any) -> ThreadedConnection:
    """Return an awaitable connection, which waits `timeout` seconds for other writers."""

    def open_it() -> sqlite3.Connection:
        _create_file(path)
        opened: sqlite3.Connection = sqlite3.connect(
            path, timeout=timeout, **given | {"check_same_thread": False}
        )
        try:
            write_ahead(opened, timeout)
        except BaseException:
            opened.close()
            raise
        return opened

    connection = ThreadedConnection(open_it, 64)
    connection._thread.daemon = True  # a process may end without closing it
    return connection


def _create_file(path: str) -> None:
    """Create a missing file readable by its owner alone; its log and index inherit that.
    An existing file stays closed: closing it would drop the locks of other connections.
    """
    if path == ":memory:":
        return
    with suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _fetch_all_rows(cursor: sqlite3.Cursor, sql: str, parameters: Iterable[Any]) -> list[Any]:
    return cursor.execute(sql, parameters).fetchall()  # type: ignore[arg-type]
