"""Fixtures of the engine server's tests. One server serves them all, in the session's event loop."""

from collections.abc import AsyncIterator

import pytest_asyncio

from engine.server.scripted_engine import ScriptedEngine
from engine.server.served import Served, serving
from radixway.engine.server import build_app


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def scripted_server() -> AsyncIterator[Served]:
    engine = ScriptedEngine()
    async with serving(build_app(engine, engine.tokenizer, engine.config, max_body_bytes=200_000)) as served:
        yield served


@pytest_asyncio.fixture(loop_scope="session")
async def served(scripted_server: Served) -> AsyncIterator[Served]:
    """The scripted engine behind its server, as if new."""
    scripted_server.engine.reset()
    yield scripted_server
    assert not scripted_server.engine.running
