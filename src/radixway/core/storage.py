"""SQLite files of ours: opened, checked for their version and brought up to date in one place.

The version of a file is its `user_version`: the number of migrations that it has had.
"""

import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

Migration = Sequence[str]
"""The statements that bring a file from one version to the next."""

_BUSY_TIMEOUT_S = 30.0
"""Time to wait for another process that writes."""
_PAUSE_S = 0.005


def open_sqlite(
    path: Path,
    migrations: Sequence[Migration],
    *,
    overwrites_deleted: bool = False,
    has_write_ahead_log: bool = True,
) -> sqlite3.Connection:
    """Open the file, or make it, and bring it up to date. Blocks; one thread at a time may use it.

    `migrations`: all there have been since the first version, the oldest first. `overwrites_deleted`: nothing
    of what is deleted is left in the file. `has_write_ahead_log`: readers read while one writes, and a crash
    of the machine may cost the last seconds; without it every write is on the disk when it returns.
    Raises OSError, sqlite3.Error, ValueError for a file of a later version.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    try:
        version = _read_version(db)
        if version > len(migrations):
            raise ValueError(f"{path} was written by another version of Radixway (format {version})")
        if has_write_ahead_log:
            write_ahead(db, _BUSY_TIMEOUT_S)
            db.execute("PRAGMA synchronous = NORMAL")
        if overwrites_deleted:
            db.execute("PRAGMA secure_delete = ON")
        if version < len(migrations):
            _migrate(db, migrations)
    except BaseException:
        db.close()
        raise
    return db


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


def _migrate(db: sqlite3.Connection, migrations: Sequence[Migration]) -> None:
    """Run the missing migrations in one transaction: another process may have come first."""
    db.execute("BEGIN IMMEDIATE")
    with db:
        version = _read_version(db)
        for migration in migrations[version:]:
            for statement in migration:
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {max(version, len(migrations))}")


def _read_version(db: sqlite3.Connection) -> int:
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    return version
