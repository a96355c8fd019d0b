"""Fixtures of the engine server's tests: a server of each kind for all, in the session's event loop."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest_asyncio
from tokenizers import AddedToken

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


THINKING_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)


class Says(ScriptedEngine):
    """Answers with whatever `say` was told, in a context of 1024 tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.model_info = replace(self.model_info, context_length=1024)

    def say(self, text: str) -> None:
        self.reset()
        self.script = self.tokenizer.encode(text, add_special_tokens=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def says() -> AsyncIterator[Served]:
    """A scripted engine whose template calls tools as Qwen's and does not think."""
    engine = Says()
    async with serving(build_app(engine, engine.tokenizer, engine.config)) as served:
        yield served


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def thinks() -> AsyncIterator[Served]:
    """A scripted engine whose template thinks; `<think>` and `</think>` are special tokens of it."""
    engine = Says()
    known = engine.tokenizer
    known.backend.add_special_tokens([AddedToken(t, special=True) for t in ("<think>", "</think>")])
    engine.tokenizer = Tokenizer(
        known.backend,
        special_tokens=known.special_tokens,
        eos_token_ids=known.eos_token_ids,
        chat_templates={"default": THINKING_TEMPLATE},
    )
    engine.model_info = replace(engine.model_info, vocab_size=engine.tokenizer.size)
    async with serving(build_app(engine, engine.tokenizer, EngineConfig(tool_parser="hermes"))) as served:
        yield served


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
