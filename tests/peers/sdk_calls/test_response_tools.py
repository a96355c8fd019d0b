"""OpenAI's SDK on tools of Responses, and on one in the background, through the gateway."""

from __future__ import annotations

import json
from typing import Any

import openai
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


@pytest.fixture
async def client(gateway: str):
    async with openai.AsyncOpenAI(base_url=f"{gateway}/v1", api_key="unused", max_retries=0) as client:
        yield client


async def respond(client: openai.AsyncOpenAI, asked: Any = "Hello", **fields: Any) -> Any:
    return await client.responses.create(model=MODEL, input=asked, temperature=0, **fields)


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


@ported(SDK, "responses.create(background=True), responses.cancel")
async def test_a_response_in_the_background(client: openai.AsyncOpenAI):
    response = await respond(client, background=True)
    assert response.status in ("queued", "in_progress", "completed")
    cancelled = await client.responses.cancel(response.id)
    assert cancelled.status in ("cancelled", "completed")
