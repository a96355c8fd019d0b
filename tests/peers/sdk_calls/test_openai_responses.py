"""OpenAI's SDK on Responses, conversations, files and batches, through the gateway."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import openai
import pydantic
import pytest

from support.ported_cases import ported

MODEL = "tutored"
SDK = "openai"
PARIS = "What is the temperature in Paris in celsius?"
ARGUMENTS = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"type": "string"}},
    "required": ["city", "unit"],
    "additionalProperties": False,
}
WEATHER = {"type": "function", "name": "get_current_weather", "parameters": ARGUMENTS, "strict": True}


class Joke(pydantic.BaseModel):
    setup: str
    punchline: str


@pytest.fixture
async def client(gateway: str):
    async with openai.AsyncOpenAI(base_url=f"{gateway}/v1", api_key="unused", max_retries=0) as client:
        yield client


async def respond(client: openai.AsyncOpenAI, asked: Any = "Hello", **fields: Any) -> Any:
    return await client.responses.create(model=MODEL, input=asked, temperature=0, **fields)


@ported(SDK, "responses.create")
async def test_a_response(client: openai.AsyncOpenAI):
    response = await respond(client, instructions="Be kind.")
    assert response.status == "completed"
    assert response.output_text
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens


@ported(SDK, "responses.create(stream=True)")
async def test_a_response_as_events(client: openai.AsyncOpenAI):
    events = [event async for event in await respond(client, stream=True)]
    assert [event.sequence_number for event in events] == [*range(len(events))]
    assert events[0].type == "response.created"
    assert events[-1].type == "response.completed"
    said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert said == events[-1].response.output_text


@ported(SDK, "responses.stream")
async def test_a_response_as_a_helped_stream(client: openai.AsyncOpenAI):
    async with client.responses.stream(model=MODEL, input="Hello", temperature=0) as stream:
        async for _ in stream:
            pass
        assert (await stream.get_final_response()).output_text


@ported(SDK, "responses.parse")
async def test_a_parsed_response(client: openai.AsyncOpenAI):
    asked = {"model": MODEL, "input": "Tell me a joke about cats.", "temperature": 0}
    assert isinstance((await client.responses.parse(**asked, text_format=Joke)).output_parsed, Joke)


@ported(SDK, "responses.create(tools=…) and the tool's output")
async def test_a_tool(client: openai.AsyncOpenAI):
    response = await respond(client, PARIS, tools=[WEATHER])
    call = response.output[-1]
    assert call.type == "function_call"
    assert json.loads(call.arguments)["city"] == "Paris"
    told = {"type": "function_call_output", "call_id": call.call_id, "output": "mild"}
    turns = [{"role": "user", "content": PARIS}, call.model_dump(exclude_none=True), told]
    assert (await respond(client, turns, tools=[WEATHER])).output_text


@ported(SDK, "responses.create(tool_choice=…)")
async def test_a_tool_that_is_wanted(client: openai.AsyncOpenAI):
    for choice in ("required", {"type": "function", "name": "get_current_weather"}):
        response = await respond(client, tools=[WEATHER], tool_choice=choice)
        assert [item.name for item in response.output if item.type == "function_call"]


@ported(SDK, "responses.create(previous_response_id=…)")
async def test_a_response_that_goes_on(client: openai.AsyncOpenAI):
    first = await respond(client, "My name is Alice.")
    second = await respond(client, "What is my name?", previous_response_id=first.id)
    assert second.previous_response_id == first.id
    assert second.usage.input_tokens > first.usage.input_tokens


@ported(SDK, "responses.retrieve")
async def test_a_response_is_retrieved(client: openai.AsyncOpenAI):
    response = await respond(client)
    assert (await client.responses.retrieve(response.id)).output_text == response.output_text


@ported(SDK, "responses.input_items.list")
async def test_the_input_of_a_response(client: openai.AsyncOpenAI):
    response = await respond(client)
    items = [item async for item in client.responses.input_items.list(response.id)]
    assert items[0].content[0].text == "Hello"


@ported(SDK, "responses.delete")
async def test_a_response_is_deleted(client: openai.AsyncOpenAI):
    response = await respond(client)
    await client.responses.delete(response.id)
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(response.id)


@ported(SDK, "responses.create(background=True), responses.cancel")
async def test_a_response_in_the_background(client: openai.AsyncOpenAI):
    response = await respond(client, background=True)
    assert response.status in ("queued", "in_progress", "completed")
    cancelled = await client.responses.cancel(response.id)
    assert cancelled.status in ("cancelled", "completed")


@ported(SDK, "responses.input_tokens.count")
async def test_the_tokens_of_an_input(client: openai.AsyncOpenAI):
    counted = await client.responses.input_tokens.count(model=MODEL, input="Hello")
    assert counted.input_tokens == (await respond(client)).usage.input_tokens


@ported(SDK, "conversations.create, retrieve, items.list, delete")
async def test_a_conversation(client: openai.AsyncOpenAI):
    conversation = await client.conversations.create()
    await respond(client, conversation=conversation.id)
    assert (await client.conversations.retrieve(conversation.id)).id == conversation.id
    items = [item async for item in client.conversations.items.list(conversation.id)]
    assert {item.role for item in items} == {"user", "assistant"}
    assert (await client.conversations.delete(conversation.id)).deleted


def requests_of(*questions: str) -> io.BytesIO:
    lines = [
        {
            "custom_id": question,
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"model": MODEL, "messages": [{"role": "user", "content": question}]},
        }
        for question in questions
    ]
    file = io.BytesIO("\n".join(map(json.dumps, lines)).encode())
    file.name = "requests.jsonl"
    return file


@ported(SDK, "files.create, list, retrieve, content, delete")
async def test_a_file(client: openai.AsyncOpenAI):
    file = await client.files.create(file=requests_of("Hello"), purpose="batch")
    assert (await client.files.retrieve(file.id)).filename == "requests.jsonl"
    assert file.id in [each.id async for each in client.files.list()]
    assert (await client.files.content(file.id)).content == requests_of("Hello").getvalue()
    assert (await client.files.delete(file.id)).deleted


@ported(SDK, "batches.create, retrieve, list, cancel")
async def test_a_batch(client: openai.AsyncOpenAI):
    file = await client.files.create(file=requests_of("Hello", "hi"), purpose="batch")
    batch = await client.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
    )
    assert batch.id in [each.id async for each in client.batches.list()]
    async with asyncio.timeout(60):
        while (batch := await client.batches.retrieve(batch.id)).status != "completed":
            assert batch.status in ("validating", "in_progress", "finalizing")
            await asyncio.sleep(0.5)
    lines = (await client.files.content(batch.output_file_id)).text.splitlines()
    answers = {line["custom_id"]: line["response"]["body"] for line in map(json.loads, lines)}
    assert answers.keys() == {"Hello", "hi"}
    assert all(answer["choices"][0]["message"]["content"] for answer in answers.values())
