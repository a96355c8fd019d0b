"""Fixtures of the engine server's tests."""

from collections.abc import AsyncIterator

import pytest

from engine.server.scripted_engine import ScriptedEngine
from engine.server.served import Served, serving
from radixway.engine.server.app import build_app


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    """The scripted engine behind its server."""
    engine = ScriptedEngine()
    async with serving(build_app(engine, engine.tokenizer, engine.config, max_body_bytes=200_000)) as served:
        yield served
