"""Connections to the database, and transactions in it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import Executable, Row, Table, delete, event, make_url
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DisconnectionError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from radixway.chat import sqlite_driver
from radixway.chat.database_outages import connect_postgresql, describe_outage, translate_outages
from radixway.chat.ids import new_id
from radixway.chat.schema import used_logins

log = logging.getLogger(__name__)

_DRIVERS = {
    "sqlite": "sqlite+aiosqlite",
    "postgresql": "postgresql+asyncpg",
    "postgres": "postgresql+asyncpg",
}
_CHECK_INTERVAL_S = 1.0
"""Interval between checks while something is wrong."""
_BUSY_MS = 30_000
"""Time for which an SQLite writer waits for another process."""


def parse_database_url(given: str) -> URL:
    """Parse `sqlite:///chats.db` or `postgresql://user@host/name`, adding the driver that is used for it.

    Raises ValueError for other databases, without quoting the URL's password.
    """
    try:
        url = make_url(given)
    except (ArgumentError, ValueError):  # ValueError quotes the supposed port
        raise ValueError(
            "a database's URL is sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME"
        ) from None
    name = url.drivername.partition("+")[0]
    if name not in _DRIVERS:
        raise ValueError(f"chats are kept in SQLite or PostgreSQL, not in {name}")
    return url.set(drivername=_DRIVERS[name])


class ChatDatabase:
    """A database of chats, in one event loop."""

    busy_ms = _BUSY_MS

    def __init__(self, url: str, *, connections: int = 8) -> None:
        """`connections`: at most, of PostgreSQL; of SQLite, for reading."""
        self.url = parse_database_url(url)
        self.kind = self.url.get_backend_name()
        self.is_sqlite = self.kind == "sqlite"
        if self.is_sqlite:
            # One writer at a time is all that SQLite has: the others wait here and not in its lock.
            self._writer = _make_sqlite_engine(self.url, 1, "BEGIN IMMEDIATE")
            self._reader = _make_sqlite_engine(self.url, connections, None)
        else:
            self._writer = _make_postgresql_engine(self.url, connections)
            self._reader = self._writer.execution_options(isolation_level="AUTOCOMMIT")
        self._after: dict[AsyncConnection, list[Callable[[], None]]] = {}
        self.problem: str | None = None
        """The present problem in words without addresses; None: none is known."""
        self._failed = asyncio.Event()

    @asynccontextmanager
    async def write_transaction(self) -> AsyncIterator[AsyncConnection]:
        """A transaction: all of it, or, where the block raises, nothing."""
        after: list[Callable[[], None]] = []
        async with translate_outages(self._note_error), self._writer.begin() as connection:
            try:
                yield connection
            finally:
                after = self._after.pop(connection, after)
        for call in after:
            call()

    @asynccontextmanager
    async def write_statement(self) -> AsyncIterator[AsyncConnection]:
        """Open a connection for one statement, which saves PostgreSQL a BEGIN and a COMMIT."""
        async with self.write_transaction() if self.is_sqlite else self.read_connection() as connection:
            yield connection

    def call_after_commit(self, connection: AsyncConnection, call: Callable[[], None]) -> None:
        """Call `call` when the transaction on `connection` is committed, and not if it is rolled back."""
        self._after.setdefault(connection, []).append(call)

    @asynccontextmanager
    async def read_connection(self) -> AsyncIterator[AsyncConnection]:
        """Open a connection for reading: each statement sees the database as it is when it begins."""
        async with translate_outages(self._note_error), self._reader.connect() as connection:
            yield connection

    async def fetch_all(
        self, statement: Executable, parameters: Mapping[str, Any] | None = None
    ) -> Sequence[Row[*tuple[Any, ...]]]:
        """Return all rows of `statement`, which only reads."""
        async with self.read_connection() as read:
            return (await read.execute(statement, parameters)).all()

    async def fetch_first(
        self, statement: Executable, parameters: Mapping[str, Any] | None = None
    ) -> Row[*tuple[Any, ...]] | None:
        """Return the first row of `statement`, which only reads; None where it has none."""
        async with self.read_connection() as read:
            return (await read.execute(statement, parameters)).first()

    async def fetch_scalars(
        self, statement: Executable, parameters: Mapping[str, Any] | None = None
    ) -> list[Any]:
        """Return the first column of all rows of `statement`, which only reads."""
        return [row[0] for row in await self.fetch_all(statement, parameters)]

    async def execute(self, statement: Executable) -> int:
        """Execute `statement` in a transaction of its own. Returns how many rows it has changed."""
        async with self.write_transaction() as write:
            return (await write.execute(statement)).rowcount

    @asynccontextmanager
    async def autocommit_runner(self) -> AsyncIterator[Callable[[str], Awaitable[list[Any]]]]:
        """Runs statements outside of transactions, as VACUUM wants it. Of SQLite, it is the one writer."""
        if not self.is_sqlite:
            async with self._writer.connect() as connection:
                bare = await connection.execution_options(isolation_level="AUTOCOMMIT")

                async def run(statement: str) -> list[Any]:
                    result = await bare.exec_driver_sql(statement)
                    return list(result.all()) if result.returns_rows else []

                yield run
            return
        async with self._writer.connect() as connection:
            driver: Any = (await connection.get_raw_connection()).driver_connection

            async def run_bare(statement: str) -> list[Any]:
                return list(await driver.execute_fetchall(statement))

            yield run_bare

    async def watch_problems(self) -> None:
        """Until cancelled, try again and again to write while something is wrong.

        Reading is not enough: a full disk is read, and transactions that change nothing pass.
        """
        while True:
            await self._failed.wait()
            await asyncio.sleep(_CHECK_INTERVAL_S)
            row = {"state_hash": new_id(), "expires_at": 0.0}
            try:
                async with self.write_transaction() as write:
                    await write.execute(used_logins.insert().values(**row))
                    await write.execute(
                        delete(used_logins).where(used_logins.c.state_hash == row["state_hash"])
                    )
            except SQLAlchemyError:
                continue
            log.info("chats: the database is available again")
            self.problem = None
            self._failed.clear()

    def _note_error(self, error: SQLAlchemyError) -> None:
        problem = describe_outage(error)
        if problem is not None:
            self.problem = problem
            self._failed.set()

    async def aclose(self) -> None:
        """Close every connection."""
        for engine in (self._writer, self._reader):
            await asyncio.shield(engine.dispose())


def insert_into(connection: AsyncConnection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return an INSERT into `table` that can say what a conflict leads to, in the dialect of `connection`."""
    return (sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert)(table)


def _make_engine(url: URL, connections: int, connect_args: dict[str, Any]) -> AsyncEngine:
    return create_async_engine(
        url,
        hide_parameters=True,
        pool_size=connections,
        max_overflow=0,
        pool_timeout=_BUSY_MS / 1000,
        connect_args=connect_args,
    )


def _make_postgresql_engine(url: URL, connections: int) -> AsyncEngine:
    engine = _make_engine(url, connections, {"async_creator_fn": connect_postgresql})

    @event.listens_for(engine.sync_engine, "checkout")
    def _look(connection: Any, *_: Any) -> None:
        """Replace a connection that PostgreSQL closed; unlike a ping this costs nothing."""
        if connection.driver_connection.is_closed():
            raise DisconnectionError

    return engine


def _make_sqlite_engine(url: URL, connections: int, begin: str | None) -> AsyncEngine:
    """Create an SQLite engine; `begin` opens a transaction, None makes each statement its own."""
    connect = {"async_creator_fn": sqlite_driver.connect_sqlite, "timeout": _BUSY_MS / 1000}
    engine = _make_engine(url, connections, connect)

    @event.listens_for(engine.sync_engine, "connect")
    def _prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # transactions begin where we say so
        cursor = connection.cursor()
        for pragma in ("synchronous = FULL", "foreign_keys = ON", "secure_delete = ON"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    if begin is not None:

        @event.listens_for(engine.sync_engine, "begin")
        def _begin(connection: Any) -> None:
            connection.exec_driver_sql(begin)

    return engine
