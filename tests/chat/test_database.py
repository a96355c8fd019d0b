"""The database and its tables."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, select, text
from sqlalchemy.exc import IntegrityError

from radixway.chat.database import ChatDatabase, parse_database_url
from radixway.chat.migrations import migrate
from radixway.chat.schema import metadata, users

OF_SEARCH = ("message_search", "search_rows", "ix_messages_search")
"""What each database has for itself, and `metadata` cannot say."""


async def test_the_migrations_make_the_tables_as_they_are_to_be(database: ChatDatabase) -> None:
    def differences(connection: Connection) -> list[object]:
        opts = {"include_object": lambda _, name, *__: not str(name).startswith(OF_SEARCH)}
        return compare_metadata(MigrationContext.configure(connection, opts=opts), metadata)

    async with database.read_connection() as read:
        assert await read.run_sync(differences) == []


async def test_processes_that_start_together_make_them_once(database_url: str) -> None:
    several = [ChatDatabase(database_url) for _ in range(3)]
    await asyncio.gather(*(migrate(each) for each in several))
    for each in several:
        await each.aclose()


@pytest.mark.parametrize(
    "url", ["mysql://a:hush@b/c", "redis://a", "not a url hush", "", "postgresql://b:hush"]
)
def test_other_databases_are_refused_without_telling_their_passwords(url: str) -> None:
    with pytest.raises(ValueError, match="SQLite|sqlite") as refused:
        parse_database_url(url)
    assert "hush" not in str(refused.value)


async def test_a_connection_that_the_server_closed_is_replaced(database: ChatDatabase) -> None:
    if database.is_sqlite:
        pytest.skip("SQLite closes none")
    async with database.read_connection() as read, database.read_connection() as other:
        closed = (await read.execute(text("SELECT pg_backend_pid()"))).scalar_one()
        terminated = await other.execute(
            text("SELECT pg_terminate_backend(:closed, 5000)"), {"closed": closed}
        )
        assert terminated.scalar_one()
    async with database.read_connection() as first, database.read_connection() as second:
        pids = [
            (await each.execute(text("SELECT pg_backend_pid()"))).scalar_one() for each in (first, second)
        ]
    assert closed not in pids


async def test_what_was_begun_in_vain_leaves_no_trace_and_no_transaction(database: ChatDatabase) -> None:
    row = {"id": "u", "tenant": "t", "provider": "p", "provider_account_id": "a", "display_name": "Eve"}
    with pytest.raises(ZeroDivisionError):
        async with database.write_transaction() as write:
            await write.execute(users.insert().values(**row, created_at=0.0))
            raise ZeroDivisionError
    async with database.write_transaction() as write:
        assert (await write.execute(select(users.c.id))).first() is None
        await write.execute(users.insert().values(**row, created_at=0.0))
    async with database.read_connection() as read:
        assert (await read.execute(select(users.c.id))).scalar_one() == "u"


async def test_errors_do_not_quote_what_was_to_be_written(database: ChatDatabase) -> None:
    row = {"id": "u", "tenant": "t", "provider": "p", "provider_account_id": "a", "created_at": 0.0}
    with pytest.raises(IntegrityError) as told:
        async with database.write_transaction() as write:
            await write.execute(users.insert().values(**row, display_name="first secret"))
            await write.execute(users.insert().values(**row, display_name="second secret"))
    assert "secret" not in str(told.value)


async def test_only_their_owner_reads_the_files_of_sqlite(tmp_path: Path) -> None:
    opened = ChatDatabase(f"sqlite:///{tmp_path / 'chats.db'}")
    await migrate(opened)
    names = ("chats.db", "chats.db-wal", "chats.db-shm")
    modes = await asyncio.to_thread(lambda: [(tmp_path / name).stat().st_mode & 0o777 for name in names])
    await opened.aclose()
    assert modes == [0o600] * 3
