"""Our pull worker over engines that speak as vLLM and SGLang do, with the chats in each database."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from radixway.chat.worker import ChatWorker, ServedModel, detect_engine
from radixway.chat.worker.prompt_format import PromptTurn
from radixway.chat.worker.thread_truncation import ThreadTruncator
from radixway.chat.worker.upstream_engines import (
    EngineDescription,
    OpenAIEngine,
    TgiEngine,
    UpstreamEngineError,
)
from support.chat_user import ChatUser, login, words
from support.hand_driven_worker import CHAT, KEY
from support.modelled_engines import Kind, ModelledEngine, modelled_engine
from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, scripted_worker

KINDS: list[Kind] = ["vllm", "sglang"]


@pytest.fixture
async def eve(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ChatUser]:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    models = [{"name": "m", "model_id": "m", "max_input_length": 32, "max_total_length": 64}]
    async with running_gateway(chat=CHAT | {"database": database_url, "models": models}) as gateway:
        yield await login(gateway, "eve")


@asynccontextmanager
async def working(eve: ChatUser, engine: ModelledEngine, workers: int = 1) -> AsyncIterator[None]:
    async with aiohttp.ClientSession() as session:
        found = await detect_engine(session, engine.url)
        assert found.serving.longest_total == engine.context
        serves = ServedModel("m", 32, engine.context)
        several = [ChatWorker(session, eve.gateway.url, KEY, found, serves) for _ in range(workers)]
        running = [asyncio.create_task(each.run_until_drained()) for each in several]
        try:
            yield
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)


@pytest.mark.parametrize("kind", KINDS)
async def test_answers_come_whole_and_the_engine_is_never_asked_for_more_than_it_holds(
    eve: ChatUser, kind: Kind
) -> None:
    long = " ".join(f"word{number}" for number in range(200))
    async with modelled_engine(kind) as engine, working(eve, engine):
        for content in ("hello", long):
            heard = await eve.heard(await eve.asked(content, sampling_parameters={"max_new_tokens": 1000}))
            assert words(heard) == heard[-1]["message"]["content"] == "Grüße!"
        short, cut = engine.generated
        assert short["messages"] == [{"role": "user", "content": "hello"}] and short["max_tokens"] >= 50
        (kept,) = cut["messages"]
        assert long.endswith(kept["content"]) and len(kept["content"].split()) >= 20
        assert 20 <= cut["max_tokens"] <= engine.context - engine.prompt_tokens(cut["messages"])


async def test_each_of_several_connections_is_a_worker(eve: ChatUser) -> None:
    async with modelled_engine("vllm") as engine, working(eve, engine, workers=3):
        answers = [await eve.asked("hello") for _ in range(3)]
        assert [words(await eve.heard(answer)) for answer in answers] == ["Grüße!"] * 3
        root = {"Authorization": f"Bearer {root_token(eve)}"}
        _, sessions = await eve.gateway.get("/workers/sessions", headers=root)
        assert len(sessions) == 3


def root_token(eve: ChatUser) -> str:
    chats = eve.gateway.gateway.chats
    assert chats is not None and chats.service is not None
    return chats.service.secrets.root_token


@pytest.mark.parametrize("kind", KINDS)
async def test_old_turns_go_by_the_engines_own_count_and_are_counted_once(kind: Kind) -> None:
    turns = [PromptTurn("system", "be kind")]
    for number in range(30):
        turns += [
            PromptTurn("user", f"question number {number}"),
            PromptTurn("assistant", f"answer {number} is here"),
        ]
    turns.append(PromptTurn("user", "and now"))
    async with modelled_engine(kind) as engine, aiohttp.ClientSession() as session:
        lengths = ThreadTruncator(await detect_engine(session, engine.url), "engine", 48, 64)
        kept, used = await lengths.truncate_thread(turns, 10)
        assert kept[0] == turns[0] and kept[1:] == turns[-len(kept) + 1 :] and kept[1].role == "user"
        real = engine.prompt_tokens([{"content": turn.text} for turn in kept])
        assert 30 <= real <= 48 and used <= 48
        before = engine.tokenized
        again, _ = await lengths.truncate_thread(turns, 10)
        assert again == kept and engine.tokenized - before <= 9


async def tgi(exchange: Exchange) -> None:
    """A token is a word; `/tokenize` answers as `SimpleToken`s, the prompt's beginning among them."""
    if exchange.path == "/info":
        await exchange.reply(200, b'{"model_id": "m", "max_input_tokens": 48, "max_total_tokens": 64}')
        return
    words = ["<s>", *exchange.json()["inputs"].replace("<|", " <|").replace("|>", "|> ").split()]
    tokens = [{"id": n, "text": word, "start": n, "stop": n + 1} for n, word in enumerate(words)]
    await exchange.reply(200, json.dumps(tokens).encode())


async def test_tgi_counts_prompts_as_they_are_written_for_it() -> None:
    turns = [
        PromptTurn("user", "one two three"),
        PromptTurn("assistant", "four"),
        PromptTurn("user", "five " * 20),
    ] * 2
    async with scripted_worker(tgi, tokenizes=True) as engine, aiohttp.ClientSession() as session:
        found = await detect_engine(session, engine.url)
        assert await found.count_tokens("one two three") == 4
        kept, used = await ThreadTruncator(found, "v2", 48, 64).truncate_thread(turns, 10)
        assert kept == turns[-len(kept) :] and 24 <= used <= 48
        assert used == await found.count_prompt_tokens(kept, "v2")


async def test_an_engine_that_counts_nothing_is_asked_for_less() -> None:
    async with aiohttp.ClientSession() as session:
        async with modelled_engine("vllm") as engine:
            lengths = ThreadTruncator(await detect_engine(session, engine.url), "engine", 48, 64)
        kept, used = await lengths.truncate_thread([PromptTurn("user", "word " * 100)], 10)  # it is gone
    assert used <= 48 and 20 <= len(kept[0].text.split()) <= 30


async def test_where_there_is_plainly_room_nobody_is_asked() -> None:
    async with modelled_engine("vllm") as engine, aiohttp.ClientSession() as session:
        turns = [PromptTurn("user", "hello there")]
        kept, used = await ThreadTruncator(
            await detect_engine(session, engine.url), "engine", 48, 64
        ).truncate_thread(turns, 10)
        assert (kept, engine.tokenized) == (turns, 0) and used >= 2


@pytest.mark.parametrize("kind", ["openai", "tgi"])
async def test_an_answer_that_its_engine_does_not_finish_is_an_error(kind: str) -> None:
    async def cut(exchange: Exchange) -> None:
        await exchange.begin_stream()
        event = {"choices": [{"delta": {"content": "a"}}]} if kind == "openai" else {"token": {"text": "a"}}
        await exchange.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")
        await exchange.end_stream()

    async with scripted_worker(cut) as engine, aiohttp.ClientSession() as session:
        serving = EngineDescription("m")
        found = (
            OpenAIEngine(session, engine.url, serving)
            if kind == "openai"
            else TgiEngine(session, engine.url, serving)
        )
        said = []
        with pytest.raises(UpstreamEngineError, match="did not finish"):
            async for each in found.generate([PromptTurn("user", "hello")], found.formats[0], {}, ()):
                said.append(each.text)
        assert said == ["a"]
