"""Pull workers that are admitted, by keys of which only hashes are stored."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import Row, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from radixway.chat.database import ChatDatabase
from radixway.chat.ids import hash_secret, new_id
from radixway.chat.records import PullWorkerRecord
from radixway.chat.schema import workers


class PullWorkerStore:
    """The admitted workers, connected or not."""

    def __init__(self, database: ChatDatabase, clock: Callable[[], float]) -> None:
        """`clock`: seconds since 1970."""
        self._database = database
        self._clock = clock

    async def create_worker(self, name: str, *, trusted: bool = False) -> tuple[PullWorkerRecord, str]:
        """Create a worker called `name`; returns it with its key, which is not stored."""
        key, row = str(uuid.uuid4()), self._make_row(name, trusted)
        async with self._database.write_transaction() as write:
            await write.execute(workers.insert().values(**row, key_hash=hash_secret(key)))
        return PullWorkerRecord(**row), key

    async def list_workers(self) -> list[PullWorkerRecord]:
        """In the order in which they were made."""
        async with self._database.read_connection() as read:
            rows = await read.execute(select(workers).order_by(workers.c.id))
            return [_from_row(row) for row in rows]

    async def find_by_key(self, key: str) -> PullWorkerRecord | None:
        """Return the worker that `key` belongs to."""
        async with self._database.read_connection() as read:
            row = (await read.execute(select(workers).where(workers.c.key_hash == hash_secret(key)))).first()
            return None if row is None else _from_row(row)

    async def delete_worker(self, worker_id: str) -> None:
        """Delete `worker_id` and its key, if there is such a worker."""
        async with self._database.write_transaction() as write:
            await write.execute(delete(workers).where(workers.c.id == worker_id))

    async def admit_workers(self, name: str, keys: Iterable[str]) -> None:
        """Admit workers with the configured `keys`; known ones stay as they are."""
        insert = sqlite.insert if self._database.is_sqlite else postgresql.insert
        async with self._database.write_transaction() as write:
            for key in keys:
                row = self._make_row(name, False) | {"key_hash": hash_secret(key)}
                await write.execute(insert(workers).values(**row).on_conflict_do_nothing())

    def _make_row(self, name: str, trusted: bool) -> dict[str, Any]:
        return {"id": new_id(), "name": name, "trusted": trusted, "created_at": self._clock()}


def _from_row(row: Row[Any]) -> PullWorkerRecord:
    return PullWorkerRecord(row.id, row.name, row.trusted, row.created_at)
