"""Rewrites the database's files, so that deleted data is gone from them too.

SQLite overwrites what it deletes (`secure_delete`), but pages keep copies of cells that moved elsewhere when
the tree was balanced, FTS5 keeps words till its segments are merged, and the write-ahead log keeps pages as
they were. PostgreSQL's VACUUM frees dead rows; their bytes stay until their place is used again.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

from sqlalchemy import delete, select, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from radixway.chat.database import ChatDatabase
from radixway.chat.ids import new_id
from radixway.chat.privacy.row_owners import OWNERS
from radixway.chat.schema import unscrubbed
from radixway.core.component import CannotErase

log = logging.getLogger(__name__)

_SHARE = 0.05
"""Largest share of time spent on rewriting files."""
_MAX_WAIT_S = 5.0
"""Time to wait for a turn before the caller must ask again."""


class FileScrubber:
    """Scrubs one database, in one event loop. Transactions that delete announce it by `owe_scrub`."""

    def __init__(
        self,
        database: ChatDatabase,
        *,
        largest_bytes: int = 1 << 29,
        checkpoint_ms: int = 2_000,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`largest_bytes`: larger files of SQLite are not rewritten, since that blocks all writers.
        `checkpoint_ms`: how long writers stand still for readers of old pages. `clock`: seconds.
        """
        self._database = database
        self._largest_bytes = largest_bytes
        self._checkpoint_ms = checkpoint_ms
        self._clock = clock
        self._rested_at = clock()
        self._scrubbing: asyncio.Task[None] | None = None

    async def owe_scrub(self, write: AsyncConnection, now: float) -> None:
        """Note in the transaction `write` that something is deleted in it, so that a crash cannot lose the
        scrub. `now`: seconds since 1970.
        """
        await write.execute(unscrubbed.insert().values(id=new_id(), erased_at=now))

    async def scrub_owed(self) -> None:
        """Scrub everything that was deleted before this call. Raises CannotErase: try again later."""
        try:
            mine = set(await self._list_owed())
            while mine:
                if self._scrubbing is None or self._scrubbing.done():
                    self._scrubbing = asyncio.create_task(self._scrub_files())
                await asyncio.shield(self._scrubbing)  # a cancelled caller does not stop it
                mine &= set(await self._list_owed())
        except SQLAlchemyError as error:
            raise CannotErase(f"the chats' database: {type(error).__name__}") from error

    async def force_scrub(self) -> None:
        """Scrub though nothing was deleted. Raises CannotErase."""
        async with self._database.write_transaction() as write:
            await self.owe_scrub(write, 0.0)
        await self.scrub_owed()

    async def aclose(self) -> None:
        """Wait for the scrub in progress."""
        if self._scrubbing is not None:
            await asyncio.gather(self._scrubbing, return_exceptions=True)

    async def _list_owed(self) -> list[str]:
        return await self._database.fetch_scalars(select(unscrubbed.c.id))

    async def _scrub_files(self) -> None:
        wait_s = self._rested_at - self._clock()
        if wait_s > _MAX_WAIT_S:
            raise CannotErase(f"the chats' files are rewritten in {wait_s:.0f} s")
        await asyncio.sleep(max(wait_s, 0))
        owed, began = await self._list_owed(), self._clock()
        try:
            await (self._scrub_sqlite() if self._database.is_sqlite else self._scrub_postgresql())
        finally:
            now = self._clock()
            self._rested_at = now + (now - began) * (1 - _SHARE) / _SHARE
        await self._database.execute(delete(unscrubbed).where(unscrubbed.c.id.in_(owed)))

    async def _scrub_sqlite(self) -> None:
        await self._database.execute(text("INSERT INTO message_search (message_search) VALUES ('optimize')"))
        async with self._database.autocommit_runner() as run:
            size = await asyncio.to_thread(_file_size_bytes, self._database.url.database)
            if size <= self._largest_bytes:
                await run("VACUUM")
            else:
                log.warning(
                    "chats: %d bytes are too many to rewrite while others write; "
                    "use `radixway chat scrub` while no gateway runs",
                    size,
                )
            await run(f"PRAGMA busy_timeout = {self._checkpoint_ms}")
            try:
                (result,) = await run("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                await run(f"PRAGMA busy_timeout = {self._database.busy_ms}")
        if result[0]:
            raise CannotErase("a reader still uses old pages of the chats' database")

    async def _scrub_postgresql(self) -> None:
        names = ", ".join(table.name for table in OWNERS)
        async with self._database.autocommit_runner() as run:
            await run(f"VACUUM {names}")


def _file_size_bytes(path: Any) -> int:
    return Path(path).stat().st_size
