"""Responses outlive their clients, logs, workers and gateway; what the road and safety make of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from radixway.api.chats.responses.shapes import RESPONSE, internal_id
from support.guarded import ATTACK
from support.running_gateway import RunningGateway, running_gateway
from support.scripted_worker import Exchange, ScriptedWorker, scripted_worker

pytestmark = pytest.mark.usefixtures("chat_stores")

CHAT: dict[str, Any] = {"allow_debug_auth": True}


class Engine:
    """A worker that says a thought and a word, and ends when it may."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()
        self.dies_after_thought = False
        self.worker: ScriptedWorker

    async def __call__(self, exchange: Exchange) -> None:
        await exchange.begin_stream()
        await self._delta(exchange, reasoning_content="Hm.")
        self.begun.set()
        if self.dies_after_thought:
            await self.may_end.wait()
            self.dies_after_thought = False
            exchange.die()
            return
        await self.may_end.wait()
        await self._delta(exchange, content="A tree.")
        await exchange.chunk(b"data: [DONE]\n\n")
        await exchange.end_stream()

    @staticmethod
    async def _delta(exchange: Exchange, **delta: str) -> None:
        event = {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        await exchange.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")

    @property
    def asked(self) -> list[str]:
        """The last messages of every request."""
        return [exchange.json()["messages"][-1]["content"] for exchange in self.worker.requests]


@pytest.fixture
async def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Engine]:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    engine = Engine()
    async with scripted_worker(engine) as engine.worker:
        yield engine


def client_of(gateway: RunningGateway, api_key: str = "any") -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=api_key, max_retries=0, timeout=120)


async def events_of(client: AsyncOpenAI, response_id: str, after: int | None = None) -> list[Any]:
    given = {} if after is None else {"starting_after": after}
    stream = await client.responses.retrieve(response_id, stream=True, **given)
    return [event async for event in stream]


async def test_a_background_response_outlives_its_gateway(engine: Engine) -> None:
    async with running_gateway(engine.worker.url, chat=CHAT) as gateway, client_of(gateway) as client:
        made = await client.responses.create(model="m", input="What?", background=True)
        await engine.begun.wait()
    engine.may_end.set()
    async with running_gateway(engine.worker.url, chat=CHAT) as gateway, client_of(gateway) as client:
        events = await events_of(client, made.id)
        assert events[-1].type == "response.completed"
        done = await client.responses.retrieve(made.id)
        assert done.output_text == "A tree." and done.status == "completed"
    assert engine.asked == ["What?", "What?"]


async def test_a_response_is_told_again_when_its_log_is_forgotten(engine: Engine) -> None:
    engine.may_end.set()
    async with running_gateway(engine.worker.url, chat=CHAT) as gateway, client_of(gateway) as client:
        made = await client.responses.create(model="m", input="What?")
        before = await events_of(client, made.id)
        assert gateway.gateway.chats is not None and gateway.gateway.chats.service is not None
        await gateway.gateway.chats.service.answers.drop_answers([internal_id(RESPONSE, made.id)])
        again = await events_of(client, made.id)
        assert [event.type for event in again] == [event.type for event in before]
        [end] = await events_of(client, made.id, after=3)
        assert end.type == "response.completed" and end.sequence_number == 4
        assert end.response.output_text == "A tree."


async def test_who_heard_words_that_are_void_is_told_the_end_alone(engine: Engine) -> None:
    engine.dies_after_thought = True
    async with running_gateway(engine.worker.url, chat=CHAT) as gateway, client_of(gateway) as client:
        stream = await client.responses.create(model="m", input="What?", background=True, stream=True)
        heard: list[Any] = []
        async for event in stream:
            heard.append(event)
            if event.type == "response.reasoning_text.delta":
                engine.may_end.set()
        assert [event.sequence_number for event in heard] == list(range(len(heard)))
        assert [event.type for event in heard].count("response.reasoning_text.delta") == 1
        assert heard[-1].type == "response.completed"
        assert heard[-1].response.output_text == "A tree."
        assert [item.type for item in heard[-1].response.output] == ["reasoning", "message"]
        fresh = await events_of(client, heard[0].response.id)
        assert [event.sequence_number for event in fresh] == list(range(len(fresh)))
        [end] = await events_of(client, heard[0].response.id, after=5)
        assert end.type == "response.completed" and end.sequence_number == 6


async def test_a_response_waits_for_the_one_that_it_goes_on_from(engine: Engine) -> None:
    async with running_gateway(engine.worker.url, chat=CHAT) as gateway, client_of(gateway) as client:
        first = await client.responses.create(model="m", input="One?", background=True)
        second = await client.responses.create(
            model="m", input="Two?", background=True, previous_response_id=first.id
        )
        assert second.status == "queued"
        await engine.begun.wait()
        assert engine.asked == ["One?"]
        engine.may_end.set()
        assert (await events_of(client, second.id))[-1].type == "response.completed"
        told = engine.worker.requests[1].json()["messages"]
        assert told[1] == {"role": "assistant", "content": "A tree.", "reasoning_content": "Hm."}


@pytest.mark.parametrize("store", [True, False])
async def test_what_the_guard_blocks_is_incomplete_or_an_exception(engine: Engine, store: bool) -> None:
    guard: dict[str, Any] = {"jailbreak": {"action": "block"}}
    async with running_gateway(engine.worker.url, chat=CHAT, guard=guard) as gateway:
        async with client_of(gateway) as client:
            told = await client.responses.create(model="m", input=ATTACK, store=store)
            assert told.status == "incomplete" and told.incomplete_details is not None
            assert told.incomplete_details.reason == "content_filter"
    guard["block"] = {"status": 403}
    async with running_gateway(engine.worker.url, chat=CHAT, guard=guard) as gateway:
        async with client_of(gateway) as client:
            for stream in (False, True):
                with pytest.raises(openai.PermissionDeniedError) as blocked:
                    await client.responses.create(model="m", input=ATTACK, store=store, stream=stream)
                assert blocked.value.code == "jailbreak_block"
    assert engine.asked == []


@pytest.mark.parametrize("store", [True, False])
async def test_an_unsafe_question_is_made_safe_whether_or_not_it_is_kept(engine: Engine, store: bool) -> None:
    engine.may_end.set()
    chat = CHAT | {"safety": {"level": 1}}
    async with running_gateway(engine.worker.url, chat=chat) as gateway, client_of(gateway) as client:
        first = await client.responses.create(model="m", input=ATTACK, store=store)
        assert first.output_text == "A tree."
        assert engine.asked[0].startswith("Answer the following request with intervention")
        if store:
            await client.responses.create(model="m", input="Why?", previous_response_id=first.id)
            told = engine.worker.requests[1].json()["messages"]
            assert told[0]["content"] == engine.asked[0] and told[-1]["content"].endswith("Why?")
            items = await client.responses.input_items.list(first.id)
            assert items.data[0].content[0].text == ATTACK


async def test_tenants_keys_keep_responses_apart_and_their_limits_count(engine: Engine) -> None:
    engine.may_end.set()
    tenants: dict[str, Any] = {
        "acme": {"keys": [{"key": "acme-key-0123456789", "user": "ann"}], "models": ["m"]},
        "rival": {"keys": [{"key": "rival-key-0123456789"}], "models": ["other"]},
    }
    async with running_gateway(engine.worker.url, chat=CHAT, tenants=tenants) as gateway:
        ann, rival, nobody = (
            client_of(gateway, key) for key in ("acme-key-0123456789", "rival-key-0123456789", "any")
        )
        made = [await ann.responses.create(model="m", input="What?") for _ in range(5)]
        assert (await ann.responses.retrieve(made[0].id)).output_text == "A tree."
        with pytest.raises(openai.NotFoundError):
            await rival.responses.retrieve(made[0].id)
        for store in (True, False):
            with pytest.raises(openai.NotFoundError) as missing:
                await rival.responses.create(model="m", input="What?", store=store)
            assert missing.value.code == "model_not_found"
            with pytest.raises(openai.AuthenticationError):
                await nobody.responses.create(model="m", input="What?", store=store)
        for client in (ann, rival, nobody):
            await client.close()
    assert len(engine.asked) == 5
