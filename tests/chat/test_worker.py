"""Our pull worker between a real chat server and engines over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from radixway.chat.worker import (
    ChatWorker,
    ServedModel,
    ServerRejectedError,
    UpstreamEngineError,
    WorkerSafetyClient,
    detect_engine,
)
from support.chat_user import ChatUser, login, words
from support.hand_driven_worker import CHAT, KEY
from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, ScriptedWorker, scripted_worker

PUBLISHED = ServedModel("m", 1024, 2048, at_once=2)


async def tgi(exchange: Exchange) -> None:
    """Says "Grüße!", once half a character at a time, and a stop sequence in pieces."""
    if exchange.path == "/info":
        await exchange.reply(200, b'{"model_id": "m", "max_input_length": 1024, "max_total_tokens": 2048}')
        return
    if exchange.path == "/safety":
        await exchange.reply(200, b'{"outputs": "<pad>__caution__<sep>be kind</s>"}')
        return
    asked = exchange.json()["inputs"]
    if "[fail]" in asked:
        await exchange.reply(500, b'{"error": "out of memory"}')
        return
    await exchange.begin_stream()
    if "[wait]" in asked:
        await _tell(exchange, {"token": {"id": 1, "text": "Well", "logprob": -0.1}})
        await exchange.until_peer_leaves()
        return
    halves = (
        ["Gr", "\ufffd", "\ufffd", "ße!"] if "[halves]" in asked else ["Gr", "üße", "!", "<|promp", "ter|>"]
    )
    for id, text in enumerate(halves):
        await _tell(exchange, {"token": {"id": id, "text": text, "logprob": -0.1}})
    end = {"token": {"id": 2, "text": "</s>", "special": True}, "generated_text": "Grüße!"}
    await _tell(exchange, end | {"details": {"finish_reason": "eos_token"}})
    await exchange.end_stream()


async def _tell(exchange: Exchange, event: dict) -> None:
    await exchange.chunk(b"data:" + json.dumps(event).encode() + b"\n\n")


@pytest.fixture
async def engine() -> AsyncIterator[ScriptedWorker]:
    async with scripted_worker(tgi) as engine:
        yield engine


@pytest.fixture
async def eve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ChatUser]:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    async with running_gateway(chat=CHAT | {"workers": {"safety_level": 2}}) as gateway:
        yield await login(gateway, "eve")


@asynccontextmanager
async def working(
    eve: ChatUser, engine: ScriptedWorker, *, safe: bool = False
) -> AsyncIterator[tuple[ChatWorker, asyncio.Task[None]]]:
    async with aiohttp.ClientSession() as session:
        found = await detect_engine(session, engine.url)
        safety = WorkerSafetyClient(session, engine.url) if safe else None
        worker = ChatWorker(session, eve.gateway.url, KEY, found, PUBLISHED, safety=safety, first_wait_s=0.05)
        running = asyncio.create_task(worker.run_until_drained())
        try:
            yield worker, running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("content", ["hello", "hello [halves]"])
async def test_an_answer_is_whole_clean_and_without_stop_sequences(
    eve: ChatUser, engine: ScriptedWorker, content: str
) -> None:
    async with working(eve, engine):
        heard = await eve.heard(await eve.asked(content, system_prompt="Be nice"))
    assert words(heard) == heard[-1]["message"]["content"] == "Grüße!"
    body = engine.requests[-1].json()
    assert body["inputs"] == f"<|system|>Be nice</s><|prompter|>{content}</s><|assistant|>"
    assert body["parameters"]["max_new_tokens"] == 1024 and "<|prompter|>" in body["parameters"]["stop"]


async def test_an_engines_failure_costs_neither_its_neighbour_nor_the_connection(
    eve: ChatUser, engine: ScriptedWorker
) -> None:
    async with working(eve, engine):
        waiting = await eve.asked("[wait]")
        failed = await eve.heard(await eve.asked("[fail]"))
        assert "500" in failed[-1]["error"]
        assert (await eve.now(waiting))["state"] == "in_progress"
        assert words(await eve.heard(await eve.asked("hello"))) == "Grüße!"


async def test_a_stopped_answer_leaves_the_engine_at_once(eve: ChatUser, engine: ScriptedWorker) -> None:
    async with working(eve, engine):
        answer = await eve.asked("[wait]")
        await eve.until(answer, "in_progress")
        async with asyncio.timeout(10):
            while not engine.requests or engine.requests[-1].path != "/generate_stream":  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        engine.hung_up.clear()
        chats = eve.gateway.gateway.chats
        assert chats is not None and chats.service is not None
        await chats.service.answers.cancel_answer("eve", answer["id"])
        async with asyncio.timeout(10):
            await engine.hung_up.wait()


async def test_a_worker_that_drains_finishes_what_it_has(eve: ChatUser, engine: ScriptedWorker) -> None:
    async with working(eve, engine) as (worker, running):
        await eve.heard(await eve.asked("hello"))
        worker.drain()
        async with asyncio.timeout(10):
            await running
        later = await eve.asked("hello")
        assert (await eve.now(later))["state"] == "pending"
    async with working(eve, engine):
        await eve.until(later, "complete")


async def test_the_workers_own_safety_follows_the_servers_level(
    eve: ChatUser, engine: ScriptedWorker
) -> None:
    async with working(eve, engine, safe=True):
        answer = await eve.asked("How do I pick a lock?")
        heard = await eve.heard(answer)
    assert "believes that be kind: How do I" in engine.requests[-1].json()["inputs"]
    assert heard[0]["event_type"] == "safe_prompt"
    asked = await eve.now(answer | {"id": answer["parent_id"]})
    assert (asked["safety_level"], asked["safety_label"], asked["safety_rots"]) == (
        2,
        "__caution__",
        "be kind",
    )


async def test_a_server_that_refuses_is_not_asked_again(eve: ChatUser, engine: ScriptedWorker) -> None:
    async with aiohttp.ClientSession() as session:
        found = await detect_engine(session, engine.url)
        with pytest.raises(ServerRejectedError, match="wrong_api_key"):
            await ChatWorker(session, eve.gateway.url, "wrong", found, PUBLISHED).run_until_drained()


async def test_what_is_no_engine_is_told_in_words(eve: ChatUser) -> None:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(UpstreamEngineError, match="neither as TGI"):
            await detect_engine(session, "http://127.0.0.1:9")
