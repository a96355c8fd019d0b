"""Which tenant made which file, batch or response: nobody else is shown it. One SQLite file for all
processes."""

import sqlite3
from pathlib import Path

from radixway.core.component import Component, Subject
from radixway.core.storage import open_sqlite

_CREATE_FILES = """
CREATE TABLE IF NOT EXISTS files (
    tenant TEXT NOT NULL, id TEXT NOT NULL, worker TEXT NOT NULL, PRIMARY KEY (tenant, id)
) WITHOUT ROWID
"""
_MIGRATIONS = ((_CREATE_FILES,),)


class FileOwnerStore(Component):
    """Files, batches and responses by tenant. Opened by the first call; methods may raise sqlite3.Error."""

    name = "files"
    erasable_by = frozenset({"tenant"})

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened: sqlite3.Connection | None = None

    @property
    def _db(self) -> sqlite3.Connection:
        if self._opened is None:
            self._opened = open_sqlite(self._path, _MIGRATIONS)
        return self._opened

    def add_file(self, tenant: str, file_id: str, worker_url: str) -> None:
        """Note that `tenant` has `file_id` at the worker of that URL."""
        self._db.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", (tenant, file_id, worker_url))

    def find_worker(self, tenant: str, file_id: str) -> str | None:
        """Return the URL of the worker that has the file, if it is one of `tenant`."""
        query = "SELECT worker FROM files WHERE tenant = ? AND id = ?"
        row = self._db.execute(query, (tenant, file_id)).fetchone()
        return None if row is None else str(row[0])

    def list_files(self, tenant: str) -> frozenset[str]:
        """Return the ids of all files and batches of `tenant`."""
        rows = self._db.execute("SELECT id FROM files WHERE tenant = ?", (tenant,))
        return frozenset(str(row[0]) for row in rows)

    async def stop(self) -> None:
        """Close the file."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    async def erase(self, subject: Subject) -> int:
        """Forget which files `subject` has; workers keep their content."""
        if not self._path.exists():
            return 0
        return self._db.execute("DELETE FROM files WHERE tenant = ?", (subject.tenant,)).rowcount
