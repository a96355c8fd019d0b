"""SQLite's write-ahead log, switched on by whoever comes first."""

from __future__ import annotations

import sqlite3
import time

_PAUSE_S = 0.005


def write_ahead(connection: sqlite3.Connection, timeout_s: float) -> None:
    """Let readers read while one writes (https://sqlite.org/wal.html). Blocks.

    Where several switch a new file to the log at once, SQLite tells all but one that it is locked without
    waiting, whatever `busy_timeout` says: so the waiting is done here.
    Raises sqlite3.OperationalError where the file stays locked for `timeout_s`.
    """
    given_up_at = time.monotonic() + timeout_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > given_up_at:
                raise
        time.sleep(_PAUSE_S)
