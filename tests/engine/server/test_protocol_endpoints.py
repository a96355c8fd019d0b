"""`/v1/messages` and `/v1/responses` of the engine, as the `anthropic` and `openai` SDKs see them."""

import asyncio
import json
from typing import Any

import anthropic
import openai
import pydantic
import pytest

from support.scripted_engine import ANSWER
from support.server_served import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")

MODEL = "radixway-guide"
HI: list[Any] = [{"role": "user", "content": "What is the weather?"}]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 10}},
    "required": ["city"],
    "additionalProperties": False,
}
NO_SCHEMA = {"type": "no"}
BAD_TOOL = {"properties": {"a": NO_SCHEMA}}
MESSAGE_TOOLS: list[Any] = [{"name": "get_weather", "description": "d", "input_schema": SCHEMA}]
RESPONSE_TOOLS: list[Any] = [
    {"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": None}
]
CALL = '{"city": "北京"}'
CALLS = f'I will look.\n<tool_call>\n{{"name": "get_weather", "arguments": {CALL}}}\n</tool_call>'
REASONED = "<think>\nWarm, I guess.\n</think>\n\nSunny."


def anthropic_sdk(served: Served) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=served.url, api_key="none", max_retries=0)


def events_of(text: str) -> list[dict[str, Any]]:
    """The data of each event; its name is its type."""
    events = []
    for event in text.strip().split("\n\n"):
        name, data = event.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    return events


async def test_a_message_has_text_stop_reason_and_usage(served: Served) -> None:
    async with anthropic_sdk(served) as client:
        message = await client.messages.create(
            model=MODEL,
            max_tokens=99,
            messages=HI,
            system="Be brief.",
            extra_body={"temperature": 0.5, "top_k": 4},
        )
    assert [block.type for block in message.content] == ["text"] and message.content[0].text == ANSWER
    assert (message.role, message.model, message.stop_reason) == ("assistant", MODEL, "end_turn")
    prompt, params, *_ = served.engine.submitted[0]
    assert message.usage.cache_read_input_tokens == len(prompt) // 2
    assert message.usage.input_tokens == len(prompt) - len(prompt) // 2
    assert message.usage.output_tokens == len(served.engine.script) + 1
    assert (params.temperature, params.top_k, params.max_tokens) == (0.5, 4, 99)
    assert "Be brief." in served.engine.tokenizer.decode(prompt, skip_special_tokens=False)


async def test_a_message_streams_as_its_whole(served: Served) -> None:
    body = {"model": MODEL, "max_tokens": 99, "messages": HI, "stream": True}
    response = await served.post("/v1/messages", body, **{"x-request-id": "mine"})
    assert response.headers["x-request-id"] == "mine"
    kinds = [event["type"] for event in events_of(response.text)]
    steps = [kind for kind in kinds if kind != "content_block_delta"]
    assert steps == [
        *("message_start", "content_block_start", "content_block_stop", "message_delta", "message_stop")
    ]
    async with (
        anthropic_sdk(served) as client,
        client.messages.stream(model=MODEL, max_tokens=99, messages=HI) as stream,
    ):
        text = "".join([piece async for piece in stream.text_stream])
        message = await stream.get_final_message()
    assert text == message.content[0].text == ANSWER
    assert message.usage.output_tokens == len(served.engine.script) + 1


@pytest.mark.parametrize("stream", [False, True])
async def test_a_message_calls_tools(says: Served, stream: bool) -> None:
    says.engine.say(CALLS)
    asked: dict[str, Any] = {"model": MODEL, "max_tokens": 99, "messages": HI, "tools": MESSAGE_TOOLS}
    async with anthropic_sdk(says) as client:
        if stream:
            async with client.messages.stream(**asked) as events:
                message = await events.get_final_message()
        else:
            message = await client.messages.create(**asked)
        text, call = message.content
        assert (text.text, call.name, call.input) == ("I will look.", "get_weather", {"city": "北京"})
        assert message.stop_reason == "tool_use"

        says.engine.say("Sunny.")
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "20 °C"}
        turns = [
            *HI,
            {"role": "assistant", "content": message.content},
            {"role": "user", "content": [result]},
        ]
        done = await client.messages.create(**asked | {"messages": turns})
    assert done.content[0].text == "Sunny."
    prompt = says.engine.tokenizer.decode(says.engine.submitted[0][0], skip_special_tokens=False)
    assert "<|im_start|>tool\n20 °C" in prompt


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "get_weather"}])
async def test_a_forced_tool_is_called(guide: Served, choice: Any) -> None:
    async with anthropic_sdk(guide) as client:
        message = await client.messages.create(
            model=MODEL, max_tokens=64, messages=HI, tools=MESSAGE_TOOLS, tool_choice=choice
        )
    assert [block.type for block in message.content] == ["tool_use"]
    assert isinstance(message.content[0].input["city"], str) and message.stop_reason == "tool_use"


async def test_thinking_is_a_block_of_its_own(thinks: Served) -> None:
    thinks.engine.say(REASONED)
    async with anthropic_sdk(thinks) as client:
        message = await client.messages.create(model=MODEL, max_tokens=99, messages=HI)
        assert [block.type for block in message.content] == ["thinking", "text"]
        assert (message.content[0].thinking, message.content[1].text) == ("Warm, I guess.", "Sunny.")
        thinks.engine.say("Sunny.")
        off: Any = {"type": "disabled"}
        message = await client.messages.create(model=MODEL, max_tokens=99, messages=HI, thinking=off)
    assert [block.type for block in message.content] == ["text"]
    prompt = thinks.engine.tokenizer.decode(thinks.engine.submitted[0][0], skip_special_tokens=False)
    assert prompt.endswith("<think>\n\n</think>\n\n")


async def test_why_a_message_stopped(served: Served) -> None:
    async with anthropic_sdk(served) as client:
        cut = await client.messages.create(model=MODEL, max_tokens=2, messages=HI)
        stopped = await client.messages.create(model=MODEL, max_tokens=99, messages=HI, stop_sequences=["42"])
    assert (cut.stop_reason, cut.usage.output_tokens) == ("max_tokens", 2)
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "42")
    assert stopped.content[0].text == "The answer is "


async def test_tokens_of_a_message_are_counted_as_they_are_prompted(served: Served) -> None:
    asked: dict[str, Any] = {"model": MODEL, "messages": HI, "system": "Be brief.", "tools": MESSAGE_TOOLS}
    async with anthropic_sdk(served) as client:
        count = await client.messages.count_tokens(**asked)
        message = await client.messages.create(**asked, max_tokens=2)
        longer = await client.messages.count_tokens(
            model=MODEL, messages=[{"role": "user", "content": "hello " * 900}]
        )
    usage = message.usage
    assert count.input_tokens == usage.input_tokens + (usage.cache_read_input_tokens or 0)
    assert longer.input_tokens > 900  # more than the context holds


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "messages[0].content[0]"),
        ({"temperature": -1}, "temperature"),
        ({"stop_sequences": ["x"] * 99}, "stop_sequences"),
        ({"messages": [{"role": "user", "content": "hello " * 900}]}, "a prompt of 2711 tokens"),
        ({"tools": [{"name": "f", "input_schema": BAD_TOOL}], "tool_choice": {"type": "any"}}, "tools[0]."),
        ({"n": 2}, "n "),
        ({"mcp_servers": [{"type": "url", "url": "http://x"}]}, "mcp_servers"),
        ({"output_config": {"format": {"type": "json_schema", "schema": NO_SCHEMA}}}, "output_config.format"),
    ],
)  # fmt: skip
async def test_errors_of_messages_have_their_shape_and_name_the_field(
    served: Served, more: dict[str, Any], named: str
) -> None:
    response = await served.post("/v1/messages", {"max_tokens": 9, "messages": HI} | more)
    assert response.status_code == 400
    told = response.json()
    assert told["type"] == "error" and told["error"]["type"] == "invalid_request_error"
    assert told["error"]["message"].startswith(named)


async def test_statuses_of_messages_become_anthropics_errors(served: Served) -> None:
    async with anthropic_sdk(served) as client:
        with pytest.raises(anthropic.NotFoundError, match="other"):
            await client.messages.create(model="other", max_tokens=9, messages=HI)
        with pytest.raises(anthropic.NotFoundError, match="other"):
            await client.messages.count_tokens(model="other", messages=HI)
        served.engine.room = 0
        with pytest.raises(anthropic.RateLimitError):
            await client.messages.create(model=MODEL, max_tokens=9, messages=HI)
    refused = await served.http.get("/v1/messages")
    assert refused.status_code == 405 and refused.json()["type"] == "error"


async def test_a_stream_that_fails_ends_in_its_protocols_error(served: Served) -> None:
    served.engine.fails_after = 3
    body = {"max_tokens": 99, "messages": HI, "stream": True}
    *_, last = events_of((await served.post("/v1/messages", body)).text)
    assert last == {"type": "error", "error": {"type": "api_error", "message": "the model caught fire"}}
    *_, error, failed = events_of((await served.post("/v1/responses", {"input": "x", "stream": True})).text)
    assert (error["type"], failed["type"]) == ("error", "response.failed")
    assert failed["sequence_number"] == error["sequence_number"] + 1


async def test_a_message_is_aborted_by_its_rid(served: Served) -> None:
    served.engine.hold_after = 1
    body = {"max_tokens": 99, "messages": HI, "rid": "mine"}
    asked = asyncio.create_task(served.post("/v1/messages", body))
    await served.engine.holding.wait()
    assert served.app.service.abort_request("mine") == 1
    assert (await asked).json()["stop_reason"] == "pause_turn"


async def test_a_response_has_text_status_and_usage(served: Served) -> None:
    response = await served.openai.responses.create(
        model=MODEL, input="hi", instructions="Be brief.", max_output_tokens=99, temperature=0.5, store=True
    )
    assert (response.output_text, response.status) == (ANSWER, "completed")
    assert response.id.startswith("resp_") and response.model == MODEL
    assert response.to_dict()["store"] is False
    prompt, params, *_ = served.engine.submitted[0]
    assert response.usage is not None
    assert response.usage.input_tokens == len(prompt)
    assert response.usage.input_tokens_details.cached_tokens == len(prompt) // 2
    assert response.usage.output_tokens == len(served.engine.script) + 1
    assert (params.temperature, params.max_tokens) == (0.5, 99)
    assert "Be brief." in served.engine.tokenizer.decode(prompt, skip_special_tokens=False)


async def test_a_response_streams_as_its_whole(served: Served) -> None:
    whole = await served.openai.responses.create(model=MODEL, input=HI)
    events = [each async for each in await served.openai.responses.create(model=MODEL, input=HI, stream=True)]
    assert [each.sequence_number for each in events] == list(range(len(events)))
    steps = [each.type for each in events if not each.type.endswith(".delta")]
    assert steps == [
        *("response.created", "response.in_progress"),
        *("response.output_item.added", "response.content_part.added", "response.output_text.done"),
        *("response.content_part.done", "response.output_item.done", "response.completed"),
    ]
    last: Any = events[-1]
    assert last.response.output_text == whole.output_text == ANSWER
    assert last.response.usage == whole.usage


@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_calls_tools(says: Served, stream: bool) -> None:
    says.engine.say(CALLS)
    asked: dict[str, Any] = {"model": MODEL, "input": HI, "tools": RESPONSE_TOOLS}
    if stream:
        async with says.openai.responses.stream(**asked) as events:
            response = await events.get_final_response()
    else:
        response = await says.openai.responses.create(**asked)
    text, call = response.output
    assert (text.type, call.type, call.name, call.arguments) == (
        "message",
        "function_call",
        "get_weather",
        CALL,
    )
    says.engine.say("Sunny.")
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "20 °C"}
    history = [*HI, *(item.to_dict() for item in response.output), output]
    done = await says.openai.responses.create(**asked | {"input": history})
    assert done.output_text == "Sunny."
    prompt = says.engine.tokenizer.decode(says.engine.submitted[0][0], skip_special_tokens=False)
    assert "<|im_start|>tool\n20 °C" in prompt and "I will look." in prompt


async def test_a_forced_function_is_called(guide: Served) -> None:
    response = await guide.openai.responses.create(
        model=MODEL, input="hi", tools=RESPONSE_TOOLS, tool_choice="required", max_output_tokens=64
    )
    (call,) = response.output
    assert call.type == "function_call" and set(json.loads(call.arguments)) == {"city"}


async def test_a_response_is_parsed_by_its_schema(guide: Served) -> None:
    class Town(pydantic.BaseModel):
        age: bool

    response = await guide.openai.responses.parse(
        model=MODEL, input="Is Paris old?", text_format=Town, max_output_tokens=64
    )
    assert isinstance(response.output_parsed, Town)


async def test_reasoning_is_an_item_whose_tokens_are_counted(thinks: Served) -> None:
    thinks.engine.say(REASONED)
    closes = thinks.engine.tokenizer.backend.token_to_id("</think>")
    tokens = thinks.engine.script.index(closes) + 1
    whole = await thinks.openai.responses.create(model=MODEL, input="hi")
    events = [
        each async for each in await thinks.openai.responses.create(model=MODEL, input="hi", stream=True)
    ]
    last: Any = events[-1]
    for response in (whole, last.response):
        assert [item.type for item in response.output] == ["reasoning", "message"]
        assert response.output[0].content[0].text == "Warm, I guess."
        assert response.usage.output_tokens_details.reasoning_tokens == tokens > 0


async def test_log_probabilities_come_with_the_text_that_they_are_of(thinks: Served) -> None:
    asked: Any = {
        "model": MODEL,
        "input": "hi",
        "include": ["message.output_text.logprobs"],
        "top_logprobs": 2,
    }
    thinks.engine.say(REASONED)
    whole = await thinks.openai.responses.create(**asked)
    part = whole.output[1].content[0]
    assert "".join(entry.token for entry in part.logprobs) == "Sunny."
    assert all(len(entry.top_logprobs) == 2 for entry in part.logprobs)
    events = [each async for each in await thinks.openai.responses.create(**asked, stream=True)]
    deltas = [each for each in events if each.type == "response.output_text.delta"]
    assert "".join(entry.token for each in deltas for entry in each.logprobs) == "Sunny."
    assert all(each.logprobs for each in deltas)


async def test_what_needs_a_store_is_refused_by_name(served: Served) -> None:
    for name, value in {
        "previous_response_id": "resp_1",
        "background": True,
        "conversation": "conv_1",
    }.items():
        with pytest.raises(openai.BadRequestError) as refused:
            await served.openai.responses.create(model=MODEL, input="x", **{name: value})
        assert refused.value.param == name
        count = await served.post("/v1/responses/input_tokens", {"model": MODEL, "input": "x", name: value})
        assert (count.status_code, count.json()["error"]["param"]) == (400, name)
    assert (await served.http.get("/v1/responses/resp_1")).status_code == 404


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"input": ""}, "input"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0].type"),
        ({"max_output_tokens": 10_000}, "max_output_tokens"),
        ({"input": "hello " * 900}, "input"),
        ({"text": {"format": {"type": "json_schema", "schema": NO_SCHEMA}}}, "text.format.schema"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"model": 5}, "model"),
        ({"top_p": 7}, "top_p"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"cache_salt": "a\0b"}, "cache_salt"),
    ],
)  # fmt: skip
async def test_bad_input_of_responses_names_its_field(
    served: Served, more: dict[str, Any], param: str
) -> None:
    response = await served.post("/v1/responses", {"input": "hi"} | more)
    assert response.status_code == 400
    assert response.json()["error"]["param"].startswith(param)


async def test_tokens_of_a_response_are_counted(served: Served) -> None:
    counted = await served.post(
        "/v1/responses/input_tokens", {"model": MODEL, "input": HI, "instructions": "Be brief."}
    )
    response = await served.openai.responses.create(model=MODEL, input=HI, instructions="Be brief.")
    assert counted.json() == {"object": "response.input_tokens", "input_tokens": response.usage.input_tokens}
    body = {"model": MODEL, "input": HI, "previous_response_id": "resp_1"}
    error = (await served.post("/v1/responses/input_tokens", body)).json()["error"]
    assert (error["param"], error["code"]) == ("previous_response_id", "unsupported"), "none is kept"
