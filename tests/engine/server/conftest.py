"""Fixtures of the engine server's tests: a server of each kind for all, in the session's event loop."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest_asyncio

from radixway.core.config.engine import EngineConfig
from radixway.core.tokenizer import Tokenizer
from radixway.engine.detokenizer import DetokenizedStream
from radixway.engine.engine import Engine
from radixway.engine.server import build_app
from support.scripted_engine import ScriptedEngine
from support.server_served import Served, serving


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


@asynccontextmanager
async def serving_guide(context_length: int) -> AsyncIterator[Served]:
    """The real engine with the bundled model, in fp32 and with a small pool."""
    config = EngineConfig(dtype="float32", threads=1, context_length=context_length, kv_tokens=16_384)
    tokenizers: list[Tokenizer] = []
    engine = Engine(config, text=lambda params: DetokenizedStream(tokenizers[0], params))
    tokenizers.append(Tokenizer.load(engine.model_info.path))
    engine.start()
    async with serving(build_app(engine, tokenizers[0], config, max_body_bytes=200_000)) as served:
        yield served
        await served.idle()
    engine.stop()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def guide_server() -> AsyncIterator[Served]:
    async with serving_guide(4096) as served:
        yield served


@pytest_asyncio.fixture(loop_scope="session")
async def guide(guide_server: Served) -> AsyncIterator[Served]:
    """The real engine behind its server, with nothing cached before and nothing left after."""
    await guide_server.idle()
    assert (await guide_server.http.post("/flush_cache")).status_code == 200
    yield guide_server
    await guide_server.idle()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cramped_guide() -> AsyncIterator[Served]:
    """The real engine with a context of 64 tokens, so that no answer is long."""
    async with serving_guide(64) as served:
        yield served
