"""The database and its tables."""

from __future__ import annotations

import asyncio

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection

from radixway.chat.database import Database, database_url
from radixway.chat.migrations import migrate
from radixway.chat.schema import metadata

OF_SEARCH = ("message_search", "search_rows", "ix_messages_search")
"""What each database has for itself, and `metadata` cannot say."""


async def test_the_migrations_make_the_tables_as_they_are_to_be(database: Database) -> None:
    def differences(connection: Connection) -> list[object]:
        opts = {"include_object": lambda _, name, *__: not str(name).startswith(OF_SEARCH)}
        return compare_metadata(MigrationContext.configure(connection, opts=opts), metadata)

    async with database.read() as read:
        assert await read.run_sync(differences) == []


async def test_processes_that_start_together_make_them_once(database_url: str) -> None:
    several = [Database(database_url) for _ in range(3)]
    await asyncio.gather(*(migrate(each) for each in several))
    for each in several:
        await each.aclose()


@pytest.mark.parametrize("url", ["mysql://a:hush@b/c", "redis://a", "not a url hush", ""])
def test_other_databases_are_refused_without_telling_their_passwords(url: str) -> None:
    with pytest.raises(ValueError, match="SQLite|sqlite") as refused:
        database_url(url)
    assert "hush" not in str(refused.value)
