"""Every call of Anthropic's SDK that asks a model for text, through the gateway."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest

from support.ported_cases import ported

MODEL = "tutored"
SDK = "anthropic"
HELLO = [{"role": "user", "content": "Hello"}]
GREEDY = {"temperature": 0}
"""The SDK has no name for it any more, and sends it."""
SAMPLED = {"temperature": 0.5, "top_k": 5, "top_p": 0.9}
PARIS = [{"role": "user", "content": "What is the temperature in Paris in celsius?"}]
WEATHER = {
    "name": "get_current_weather",
    "description": "The weather of a city",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "unit": {"type": "string"}},
        "required": ["city", "unit"],
    },
}


@pytest.fixture
async def client(gateway: str):
    async with anthropic.AsyncAnthropic(base_url=gateway, api_key="unused", max_retries=0) as client:
        yield client


async def ask(client: anthropic.AsyncAnthropic, **fields: Any) -> Any:
    asked: dict[str, Any] = {"model": MODEL, "max_tokens": 64, "messages": HELLO, "extra_body": GREEDY}
    return await client.messages.create(**asked | fields)


@ported(SDK, "messages.create")
async def test_a_message(client: anthropic.AsyncAnthropic):
    message = await ask(client, system="Be kind.")
    assert message.id.startswith("msg_")
    assert message.content[0].text
    assert message.stop_reason == "end_turn"
    assert message.usage.input_tokens > 0
    assert message.usage.output_tokens > 0


@ported(SDK, "messages.create(stream=True)")
async def test_a_message_as_events(client: anthropic.AsyncAnthropic):
    kinds = [event.type async for event in await ask(client, stream=True)]
    assert kinds[0] == "message_start"
    assert kinds[-2:] == ["message_delta", "message_stop"]


@ported(SDK, "messages.stream")
async def test_a_helped_stream(client: anthropic.AsyncAnthropic):
    asked = {"model": MODEL, "max_tokens": 64, "messages": HELLO, "extra_body": GREEDY}
    async with client.messages.stream(**asked) as stream:
        texts = [text async for text in stream.text_stream]
        message = await stream.get_final_message()
    assert "".join(texts) == message.content[0].text == (await ask(client)).content[0].text


@ported(SDK, "messages.create(stop_sequences=…, max_tokens=…)")
async def test_stops(client: anthropic.AsyncAnthropic):
    assert (await ask(client, max_tokens=2)).stop_reason == "max_tokens"
    story = [{"role": "user", "content": "Tell me a long story about a dragon."}]
    stopped = await ask(client, messages=story, stop_sequences=["queen"])
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "queen")


@ported(SDK, "messages.create(tools=…) and the tool's result")
async def test_a_tool(client: anthropic.AsyncAnthropic):
    message = await ask(client, messages=PARIS, tools=[WEATHER])
    use = message.content[-1]
    assert message.stop_reason == "tool_use"
    assert (use.name, use.input["city"]) == ("get_current_weather", "Paris")
    result = {"type": "tool_result", "tool_use_id": use.id, "content": "mild"}
    turns = [
        *PARIS,
        {"role": "assistant", "content": [block.model_dump() for block in message.content]},
        {"role": "user", "content": [result]},
    ]
    assert (await ask(client, messages=turns, tools=[WEATHER])).content


@ported(SDK, "messages.create(tool_choice=…)")
@pytest.mark.parametrize("kind", ["any", "tool", "none"])
async def test_a_tool_that_is_wanted_or_not(client: anthropic.AsyncAnthropic, kind: str):
    choice = {"type": kind} | ({"name": WEATHER["name"]} if kind == "tool" else {})
    uses = [
        block
        for block in (await ask(client, tools=[WEATHER], tool_choice=choice)).content
        if block.type == "tool_use"
    ]
    assert bool(uses) is (kind != "none")


@ported(SDK, "messages.create(cache_control, metadata, top_k, …)")
async def test_fields_of_every_kind(client: anthropic.AsyncAnthropic):
    system = [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}]
    message = await ask(client, system=system, metadata={"user_id": "somebody"}, extra_body=SAMPLED)
    assert message.content[0].text


@ported(SDK, "messages.count_tokens")
async def test_tokens_are_counted(client: anthropic.AsyncAnthropic):
    counted = await client.messages.count_tokens(model=MODEL, messages=HELLO)
    assert counted.input_tokens == (await ask(client)).usage.input_tokens


@ported(SDK, "messages.create: BadRequestError, NotFoundError")
async def test_errors(client: anthropic.AsyncAnthropic):
    with pytest.raises(anthropic.BadRequestError) as refused:
        await ask(client, messages=[])
    assert refused.value.body["error"]["type"] == "invalid_request_error"
    with pytest.raises(anthropic.NotFoundError) as missing:
        await ask(client, model="nothing")
    assert missing.value.body["error"]["type"] == "not_found_error"


@ported(SDK, "models.list, models.retrieve")
async def test_models(client: anthropic.AsyncAnthropic):
    models = [model async for model in client.models.list()]
    assert MODEL in [model.id for model in models]
    assert (await client.models.retrieve(MODEL)).type == "model"
