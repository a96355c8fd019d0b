"""What chats ask the gateway's workers is HTTP to the letter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.chatting import Chatter, login
from support.running_gateway import RunningGateway, running_gateway
from support.strict_engine import StrictEngine, strict_engine

pytestmark = pytest.mark.usefixtures("chat_stores")


@pytest.fixture
async def engine() -> AsyncIterator[StrictEngine]:
    async with strict_engine() as engine:
        yield engine


@pytest.fixture
async def gateway(
    engine: StrictEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RunningGateway]:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    chat = {"allow_debug_auth": True, "titles": "model"}
    async with running_gateway(engine.url, chat=chat) as gateway:
        yield gateway


async def test_the_engine_refuses_a_header_that_comes_twice(engine: StrictEngine) -> None:
    host, port = engine.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n"
    writer.write((head + "content-type: application/json\r\n" * 2 + "\r\n{}").encode())
    assert b" 400 " in await reader.readline()
    writer.close()
    await writer.wait_closed()


async def test_a_chat_is_answered_and_given_a_title(gateway: RunningGateway) -> None:
    eve: Chatter = await login(gateway, "eve")
    chat = await eve.chat()
    turn = await eve.ask(chat, "What is a tree?")
    assert (turn["answer"]["state"], turn["answer"]["content"]) == ("complete", "Hi you")
    async with asyncio.timeout(10):
        while (await eve.call("GET", chat))[1]["title"] != "Hi you":  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_response_is_answered(gateway: RunningGateway, store: bool, stream: bool) -> None:
    body = {"model": "m", "input": "What is a tree?", "store": store, "stream": stream}
    async with gateway.client.post(f"{gateway.url}/v1/responses", json=body) as response:
        text = await response.text()
        assert response.status == 200 and "Hi you" in text, text
