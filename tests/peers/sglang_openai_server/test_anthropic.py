"""SGLang's cases of `/v1/messages` and `/v1/messages/count_tokens`."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx
import pytest

from support.ported_cases import ported

MODEL = "tutored"
SOURCE = "python/sglang/test/kits/anthropic_messages_kit.py"
CAPITAL = "What is the capital of France? Answer in a few words."
ENDS = ("end_turn", "max_tokens", "stop_sequence")


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


async def post(http: httpx.AsyncClient, **fields: Any) -> httpx.Response:
    asked = {"model": MODEL, "max_tokens": 64, "messages": [user(CAPITAL)]} | fields
    return await http.post("/v1/messages", json=asked)


async def message(http: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    """The message that answers; it has content."""
    response = await post(http, **fields)
    assert response.status_code == 200, response.text
    body = response.json()
    assert body["type"] == "message"
    assert len(body["content"]) > 0
    return body


def events_of(response: httpx.Response) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


async def stream(http: httpx.AsyncClient, **fields: Any) -> list[dict[str, Any]]:
    """The events of a stream, from its start to its stop."""
    response = await post(http, stream=True, **fields)
    assert response.status_code == 200, response.text
    events = events_of(response)
    assert {"message_start", "message_stop"} <= {event["type"] for event in events}
    return events


@ported(SOURCE, "test_simple_messages")
async def test_a_message(http: httpx.AsyncClient):
    body = await message(http)
    assert body["role"] == "assistant"
    assert body["content"][0]["type"] == "text"
    assert len(body["content"][0]["text"]) > 0
    assert body["stop_reason"] in ENDS
    for name in ("input_tokens", "output_tokens"):
        assert isinstance(body["usage"][name], int)
        assert body["usage"][name] > 0
    assert body["id"].startswith("msg_")
    assert "model" in body


@ported(SOURCE, "test_multi_turn_messages")
async def test_a_chat_of_several_turns(http: httpx.AsyncClient):
    said = {"role": "assistant", "content": "Hello Alice! Nice to meet you."}
    body = await message(http, messages=[user("My name is Alice."), said, user("What is my name?")])
    assert body["content"][0]["type"] == "text"
    assert isinstance(body["content"][0]["text"], str)


@ported(SOURCE, "test_system_message_string")
async def test_a_system_prompt(http: httpx.AsyncClient):
    await message(http, system="You are a helpful assistant. Always respond in French.")


@ported(SOURCE, "test_system_message_blocks")
async def test_a_system_prompt_in_blocks(http: httpx.AsyncClient):
    texts = ("You are a helpful assistant.", "Always be concise.")
    await message(http, system=[{"type": "text", "text": text} for text in texts])


@ported(SOURCE, "test_in_messages_system_role")
async def test_a_system_turn_among_the_messages(engine: str):
    async with anthropic.AsyncAnthropic(base_url=engine, auth_token="unused", max_retries=0) as client:
        turns = [
            user("What is the capital of France?"),
            {"role": "system", "content": "Always respond in French."},
            user("Answer in a few words."),
        ]
        answer = await client.messages.create(model=MODEL, max_tokens=64, messages=turns)
    assert answer.role == "assistant"
    assert len(answer.content) > 0
    assert answer.content[0].type == "text"


@ported(SOURCE, "test_max_tokens")
async def test_few_tokens(http: httpx.AsyncClient):
    response = await post(http, max_tokens=5, messages=[user("Tell me a long story about a dragon.")])
    assert response.status_code == 200, response.text
    body = response.json()
    assert body["type"] == "message"
    assert body["stop_reason"] in ("max_tokens", "end_turn")
    assert body["usage"]["output_tokens"] > 0


@ported(SOURCE, "test_temperature")
async def test_a_temperature(http: httpx.AsyncClient):
    await message(http, temperature=0.0)


@ported(SOURCE, "test_stop_sequences")
async def test_stop_sequences(http: httpx.AsyncClient):
    response = await post(http, stop_sequences=["\n"], max_tokens=128)
    assert response.status_code == 200, response.text
    assert response.json()["type"] == "message"


@ported(SOURCE, "test_top_p_and_top_k")
async def test_top_p_and_top_k(http: httpx.AsyncClient):
    await message(http, top_p=0.9, top_k=40)


@ported(SOURCE, "test_simple_messages_stream")
async def test_a_stream(http: httpx.AsyncClient):
    events = await stream(http)

    def of(kind: str) -> list[dict[str, Any]]:
        return [event for event in events if event["type"] == kind]

    start = of("message_start")[0]["message"]
    assert start["type"] == "message"
    assert start["role"] == "assistant"
    assert "usage" in start
    deltas = of("content_block_delta")
    assert len(deltas) > 0
    assert all(delta["delta"]["type"] == "text_delta" for delta in deltas)
    assert len("".join(delta["delta"]["text"] for delta in deltas)) > 0
    assert len(of("content_block_stop")) > 0
    assert of("content_block_start")[0]["content_block"]["type"] == "text"
    last = of("message_delta")[-1]
    assert last["delta"]["stop_reason"] in (*ENDS, "tool_use")
    assert isinstance(last["usage"]["output_tokens"], int)


@ported(SOURCE, "test_stream_multi_turn")
async def test_a_stream_of_a_later_turn(http: httpx.AsyncClient):
    said = {"role": "assistant", "content": "Hello!"}
    await stream(http, messages=[user("Say hello."), said, user("Say goodbye.")])


@ported(SOURCE, "test_stream_with_system")
async def test_a_stream_with_a_system_prompt(http: httpx.AsyncClient):
    await stream(http, system="You are a pirate. Respond in pirate speak.")


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"max_tokens": -1}, id="test_error_invalid_max_tokens"),
        pytest.param({"messages": []}, id="test_error_empty_messages"),
    ],
)
@ported(SOURCE, "errors")
async def test_bad_input(http: httpx.AsyncClient, fields: dict[str, Any]):
    assert (await post(http, **fields)).status_code in (400, 422)


@ported(SOURCE, "test_error_missing_content_type")
async def test_a_body_that_is_no_json(http: httpx.AsyncClient):
    response = await http.post("/v1/messages", content="not json")
    assert response.status_code in (400, 415, 422)


@ported(SOURCE, "test_raw_http_non_streaming")
async def test_the_fields_of_a_message(http: httpx.AsyncClient):
    response = await post(http, temperature=0)
    assert response.status_code == 200
    assert "application/json" in response.headers["content-type"]
    body = response.json()
    assert {"id", "type", "role", "content", "model", "usage"} <= body.keys()
    assert (body["type"], body["role"]) == ("message", "assistant")


@ported(SOURCE, "test_raw_http_streaming")
async def test_the_order_of_a_streams_events(http: httpx.AsyncClient):
    response = await post(http, stream=True, temperature=0)
    assert response.status_code == 200
    assert "text/event-stream" in response.headers["content-type"]
    events = events_of(response)
    assert events[0]["type"] == "message_start"
    assert [event for event in events if event["type"] != "ping"][-1]["type"] == "message_stop"


@ported(SOURCE, "test_content_blocks_message")
async def test_content_in_blocks(http: httpx.AsyncClient):
    body = await message(http, messages=[user([{"type": "text", "text": "What is 2+2?"}])])
    assert body["content"][0]["type"] == "text"


async def count_tokens(http: httpx.AsyncClient, content: str, **fields: Any) -> int:
    asked = {"model": MODEL, "messages": [user(content)]} | fields
    response = await http.post("/v1/messages/count_tokens", json=asked)
    assert response.status_code == 200, response.text
    tokens = response.json()["input_tokens"]
    assert isinstance(tokens, int)
    return tokens


@ported(SOURCE, "test_count_tokens")
async def test_tokens_are_counted(http: httpx.AsyncClient):
    assert await count_tokens(http, "Hello, how are you?") > 0


@ported(SOURCE, "test_count_tokens_with_system")
async def test_a_system_prompt_is_counted(http: httpx.AsyncClient):
    system = "You are a helpful assistant with a very long system prompt that adds tokens."
    assert await count_tokens(http, "Hello", system=system) > await count_tokens(http, "Hello")
