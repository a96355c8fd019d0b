"""Titles made by the model that answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.chatting import Chatter, login
from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, scripted_worker

Titling = Callable[[Exchange], Awaitable[None]]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))


def is_for_a_title(exchange: Exchange) -> bool:
    return "Write a title" in exchange.json()["messages"][-1]["content"]


async def reply(exchange: Exchange, content: str) -> None:
    body = {"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}
    await exchange.reply(200, json.dumps(body).encode())


@asynccontextmanager
async def chatter(titling: Titling, **chat: Any) -> AsyncIterator[Chatter]:
    async def talk(exchange: Exchange) -> None:
        await (titling(exchange) if is_for_a_title(exchange) else reply(exchange, "A trie with long edges."))

    config = {"allow_debug_auth": True, "titles": "model"} | chat
    async with scripted_worker(talk) as worker, running_gateway(worker.url, chat=config) as gateway:
        yield await login(gateway, "eve")


async def until_titled(eve: Chatter, chat: str, wanted: str) -> None:
    async with asyncio.timeout(20):
        while (await eve.call("GET", chat))[1]["title"] != wanted:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_chat_is_named_after_its_first_answer_by_the_model(tmp_path: Path) -> None:
    asked: list[dict] = []

    async def titling(exchange: Exchange) -> None:
        asked.append(exchange.json())
        await reply(exchange, '"Radix trees explained"\n')

    async with chatter(titling) as eve:
        chat = await eve.chat()
        turn = await eve.ask(chat, "What is a radix tree?", model="m")
        assert turn["answer"]["content"] == "A trie with long edges."
        await until_titled(eve, chat, "Radix trees explained")
        await eve.ask(chat, "And a trie?")
        shown = asked[0]["messages"][0]["content"]
        assert "What is a radix tree?" in shown and "A trie with long edges." in shown
        assert len(asked) == 1 and asked[0]["max_tokens"] == 64


async def test_an_answer_does_not_wait_for_a_title_and_a_user_s_own_stays() -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def titling(exchange: Exchange) -> None:
        asked.set()
        await go_on.wait()
        await reply(exchange, "Too late")

    async with chatter(titling) as eve:
        chat = await eve.chat()
        await eve.ask(chat, "What is a radix tree?", model="m")
        await asyncio.wait_for(asked.wait(), 20)
        turn = await eve.ask(chat, "And a trie?")
        assert turn["answer"]["state"] == "complete"
        await eve.call("PATCH", chat, {"title": "Mine"})
        go_on.set()
        other = await eve.chat()
        await eve.ask(other, "What is a radix tree?", model="m")
        await until_titled(eve, other, "Too late")
        assert (await eve.call("GET", chat))[1]["title"] == "Mine"


async def test_without_titles_a_chat_has_none() -> None:
    async def titling(exchange: Exchange) -> None:
        raise AssertionError("nobody asked for a title")

    async with chatter(titling, titles="off") as eve:
        chat = await eve.chat()
        await eve.ask(chat, "What is a radix tree?", model="m")
        assert (await eve.call("GET", chat))[1]["title"] is None
