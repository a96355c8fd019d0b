"""`/v1/conversations` with OpenAI's own client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, ScriptedWorker, scripted_worker


async def talk(exchange: Exchange) -> None:
    """An answer that tells how many messages it was asked with; none to `fail`."""
    messages = exchange.json()["messages"]
    if messages[-1]["content"] == "fail":
        await exchange.reply(400, b'{"error": {"message": "no"}}')
        return
    answer = {"choices": [{"message": {"content": f"of {len(messages)}"}, "finish_reason": "stop"}]}
    await exchange.reply(200, json.dumps(answer).encode())


@pytest.fixture
async def worker() -> AsyncIterator[ScriptedWorker]:
    async with scripted_worker(talk) as worker:
        yield worker


@pytest.fixture
async def client(
    worker: ScriptedWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[AsyncOpenAI]:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    async with running_gateway(worker.url) as gateway:
        async with AsyncOpenAI(
            base_url=f"{gateway.url}/v1", api_key="any", max_retries=0, timeout=120
        ) as client:
            yield client


def said(items: list[Any]) -> list[str]:
    return [item.content[0].text for item in items]


async def test_responses_are_added_one_after_another(client: AsyncOpenAI, worker: ScriptedWorker) -> None:
    begun: Any = [{"role": "user", "content": "One"}]
    conversation = await client.conversations.create(items=begun, metadata={"about": "trees"})
    await client.conversations.items.create(conversation.id, items=[{"role": "user", "content": "Two"}])
    first = await client.responses.create(model="m", input="Three", conversation=conversation.id)
    assert first.output_text == "of 3"
    assert first.conversation is not None and first.conversation.id == conversation.id
    branch = await client.responses.create(model="m", input="Aside", previous_response_id=first.id)
    assert branch.output_text == "of 5"
    with pytest.raises(openai.BadRequestError):
        await client.responses.create(model="m", input="fail", conversation=conversation.id)
    second = await client.responses.create(
        model="m", input="Four", conversation={"id": conversation.id}, instructions="Be brief."
    )
    assert second.output_text == "of 6"
    items = [item async for item in client.conversations.items.list(conversation.id, order="asc", limit=2)]
    assert said(items) == ["One", "Two", "Three", "of 3", "Four", "of 6"]
    assert await client.conversations.items.retrieve(items[3].id, conversation_id=conversation.id) == items[3]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_that_is_not_kept_knows_its_conversation_and_adds_nothing(
    client: AsyncOpenAI, stream: bool
) -> None:
    conversation = await client.conversations.create(items=[{"role": "user", "content": "One"}])
    await client.responses.create(model="m", input="Two", conversation=conversation.id)
    asked: Any = {"model": "m", "input": "Aside", "conversation": conversation.id, "store": False}
    if stream:
        events = [event async for event in await client.responses.create(**asked, stream=True)]
        aside = events[-1].response
    else:
        aside = await client.responses.create(**asked)
    assert aside.output_text == "of 4", "it was asked with what was said before"
    assert aside.conversation.id == conversation.id
    items = [item async for item in client.conversations.items.list(conversation.id, order="asc")]
    assert said(items) == ["One", "Two", "of 2"]
    empty = await client.conversations.create()
    assert (await client.responses.create(**asked | {"conversation": empty.id})).output_text == "of 1"
    with pytest.raises(openai.NotFoundError) as missing:
        await client.responses.create(**asked | {"conversation": "conv_" + "0" * 32})
    assert missing.value.param == "conversation"


async def test_a_conversation_is_labelled_emptied_and_deleted(client: AsyncOpenAI) -> None:
    begun: Any = [{"role": "user", "content": "One"}, {"role": "user", "content": "Two"}]
    conversation = await client.conversations.create(items=begun, metadata={"a": "1"})
    assert (await client.conversations.retrieve(conversation.id)).metadata == {"a": "1"}
    changed = await client.conversations.update(conversation.id, metadata={"b": "2"})
    assert changed.metadata == {"b": "2"}
    listed = await client.conversations.items.list(conversation.id)
    assert said(listed.data) == ["Two", "One"]
    await client.conversations.items.delete(listed.data[0].id, conversation_id=conversation.id)
    assert said((await client.conversations.items.list(conversation.id)).data) == ["One"]
    response = await client.responses.create(model="m", input="?", conversation=conversation.id)
    assert response.output_text == "of 2"
    answer = response.output[0].id
    with pytest.raises(openai.BadRequestError, match="delete its response"):
        await client.conversations.items.delete(answer or "", conversation_id=conversation.id)
    await client.responses.delete(response.id)
    assert said((await client.conversations.items.list(conversation.id)).data) == ["One"]
    assert (await client.conversations.delete(conversation.id)).deleted
    for call in (client.conversations.retrieve, client.conversations.delete, client.conversations.items.list):
        with pytest.raises(openai.NotFoundError):
            await call(conversation.id)
    with pytest.raises(openai.NotFoundError):
        await client.responses.create(model="m", input="?", conversation=conversation.id)


async def test_a_field_that_makes_no_sense_is_named(client: AsyncOpenAI) -> None:
    conversation = await client.conversations.create()
    nonsense: list[tuple[str, dict[str, Any], str]] = [
        ("", {"items": [{"type": "image_generation_call"}]}, "items[0].type"),
        ("", {"metadata": {"a": 1}}, "metadata.a"),
        ("", {"metadata": {"a": "\0"}}, "metadata.a"),
        ("", {"itmes": []}, "itmes"),
        (f"/{conversation.id}/items", {"items": []}, "items"),
        (f"/{conversation.id}/items", {}, "items"),
    ]
    for path, body, param in nonsense:
        with pytest.raises(openai.BadRequestError) as refused:
            await client.post(f"/conversations{path}", body=body, cast_to=object)
        assert refused.value.param == param, body
