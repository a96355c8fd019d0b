"""Which tenant made which file, batch or response: nobody else is shown it. One SQLite file for all
processes."""

import asyncio
import logging
import sqlite3
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, TypeVar

from radixway.core.component import Component, Subject
from radixway.core.pipeline import GatewayError
from radixway.core.storage import open_sqlite

log = logging.getLogger(__name__)

T = TypeVar("T")

FileKind = Literal["file", "batch", "response"]

OWNER_STORE_ERRORS = (sqlite3.Error, OSError, ValueError)
"""What a store that cannot be used raises: ValueError for a file of a later version."""

_MAX_RESPONSES = 10_000
"""Kept responses of a tenant that are known; the oldest are forgotten."""

_CREATE_FILES = """
CREATE TABLE IF NOT EXISTS files (
    tenant TEXT NOT NULL, id TEXT NOT NULL, worker TEXT NOT NULL, PRIMARY KEY (tenant, id)
) WITHOUT ROWID
"""
_ADD_KIND_AND_ORDER = (
    "ALTER TABLE files RENAME TO files_1",
    """
CREATE TABLE files (
    position INTEGER PRIMARY KEY, tenant TEXT NOT NULL, id TEXT NOT NULL, worker TEXT NOT NULL,
    kind TEXT NOT NULL, UNIQUE (tenant, id)
)
""",
    r"""
INSERT INTO files (tenant, id, worker, kind) SELECT tenant, id, worker, CASE
    WHEN id LIKE 'resp\_%' ESCAPE '\' THEN 'response' WHEN id LIKE 'batch%' THEN 'batch' ELSE 'file' END
FROM files_1
""",
    "DROP TABLE files_1",
    "CREATE INDEX kept_responses ON files (tenant) WHERE kind = 'response'",
)
_MIGRATIONS = ((_CREATE_FILES,), _ADD_KIND_AND_ORDER)

# What is known already is not written again: a batch is noted by each look at it.
_ADD = """
INSERT INTO files (tenant, id, worker, kind) VALUES (?, ?, ?, ?)
ON CONFLICT (tenant, id) DO UPDATE SET worker = excluded.worker, kind = excluded.kind
WHERE worker <> excluded.worker OR kind <> excluded.kind
"""
_PRUNE = """
DELETE FROM files WHERE position IN (
    SELECT position FROM files WHERE tenant = ? AND kind = 'response' ORDER BY position DESC LIMIT -1 OFFSET ?
)
"""


class FileOwnersUnreadableError(GatewayError):
    """Whose files are whose cannot be looked up now."""

    status = 503
    code = "files_unavailable"

    def __init__(self) -> None:
        super().__init__("the list of files cannot be read now")


class FileOwnerStore(Component):
    """Files, batches and responses by tenant. Opened by the first call; methods that write may raise
    `OWNER_STORE_ERRORS`, those that read FileOwnersUnreadableError.

    One thread does it all, a call after the other, so that the event loop waits for no disk and no other
    process, and whoever asks after a write finds it.
    """

    name = "files"
    erasable_by = frozenset({"tenant"})

    def __init__(self, path: Path, *, max_responses: int = _MAX_RESPONSES) -> None:
        """`max_responses`: kept responses per tenant; pruned at every hundredth part of it."""
        self._path = path
        self._max_responses = max_responses
        self._prune_every = max(1, max_responses // 100)
        self._num_added: Counter[str] = Counter()
        """Responses by tenant that this process has added."""
        self._opened: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(1, "radixway-files")

    @property
    def _db(self) -> sqlite3.Connection:
        if self._opened is None:
            self._opened = open_sqlite(self._path, _MIGRATIONS)
        return self._opened

    async def add_file(self, tenant: str, file_id: str, worker_url: str, kind: FileKind) -> None:
        """Note that `tenant` has `file_id`, of that kind, at the worker of that URL. Its oldest responses
        beyond the most are forgotten."""
        await self._in_thread(lambda: self._add_file(tenant, file_id, worker_url, kind))

    async def find_worker(self, tenant: str, file_id: str) -> str | None:
        """Return the URL of the worker that has the file, if it is one of `tenant`."""
        query = "SELECT worker FROM files WHERE tenant = ? AND id = ?"
        rows = await self._read_rows(query, tenant, file_id)
        return str(rows[0][0]) if rows else None

    async def list_files(self, tenant: str) -> frozenset[str]:
        """Return the ids of all files and batches of `tenant`."""
        query = "SELECT id FROM files WHERE tenant = ? AND kind <> 'response'"
        return frozenset(str(row[0]) for row in await self._read_rows(query, tenant))

    async def remove_file(self, tenant: str, file_id: str, kind: FileKind) -> None:
        """Forget that `tenant` has `file_id`, if it is of that kind."""
        query = "DELETE FROM files WHERE tenant = ? AND id = ? AND kind = ?"
        await self._in_thread(lambda: self._db.execute(query, (tenant, file_id, kind)))

    async def stop(self) -> None:
        """Close the file; everything is written. An interpreter that ends starts no more threads, so this
        waits for the one there is."""
        self._thread.shutdown()
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    async def erase(self, subject: Subject) -> int:
        """Forget which files `subject` has; workers keep their content."""
        return await self._in_thread(lambda: self._remove_all(subject.tenant))

    async def _read_rows(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        try:
            return await self._in_thread(lambda: self._db.execute(query, values).fetchall())
        except OWNER_STORE_ERRORS as error:
            log.warning("the list of tenants' files cannot be read: %s", error)
            raise FileOwnersUnreadableError from error

    def _add_file(self, tenant: str, file_id: str, worker_url: str, kind: FileKind) -> None:
        added = self._db.execute(_ADD, (tenant, file_id, worker_url, kind)).rowcount
        if kind == "response" and added:
            if self._num_added[tenant] % self._prune_every == 0:
                self._db.execute(_PRUNE, (tenant, self._max_responses))
            self._num_added[tenant] += 1

    def _remove_all(self, tenant: str) -> int:
        if not self._path.exists():
            return 0
        return self._db.execute("DELETE FROM files WHERE tenant = ?", (tenant,)).rowcount

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, run to its end though the caller be cancelled."""
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, work))
