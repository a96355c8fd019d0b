"""Calls of Anthropic's client to the gateway."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import anthropic
import pytest
from pydantic import BaseModel

from support.ported_cases import ported

MODEL = "tutored"
ASKED: dict[str, Any] = {
    "model": MODEL,
    "max_tokens": 100,
    "extra_body": {"temperature": 0},  # the client has no argument for it
    "messages": [{"role": "user", "content": "Hello"}],
}
ARGUMENTS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
ADD = {"name": "add", "description": "Adds two numbers", "input_schema": ARGUMENTS}
SUM = ASKED | {"messages": [{"role": "user", "content": "Compute (3+5)"}], "tools": [ADD]}
COUNTING = ASKED | {"messages": [{"role": "user", "content": "Count from 1 to 20."}]}


class Sum(BaseModel):
    result: int


def called(message: Any) -> tuple[str, object]:
    """The one tool that is called, with what."""
    assert message.stop_reason == "tool_use"
    (call,) = [block for block in message.content if block.type == "tool_use"]
    assert call.id
    return call.name, call.input


@ported("anthropic", "messages.create")
async def test_a_message(claude: anthropic.AsyncAnthropic):
    answer = await claude.messages.create(**ASKED, system="Be kind.")
    assert (answer.type, answer.role, answer.model) == ("message", "assistant", MODEL)
    assert (answer.stop_reason, answer.stop_sequence) == ("end_turn", None)
    assert answer.id.startswith("msg_")
    (block,) = answer.content
    assert block.type == "text" and block.text
    assert answer.usage.input_tokens + (answer.usage.cache_read_input_tokens or 0) > 0
    assert answer.usage.output_tokens > 0


@ported("anthropic", "messages.create(stream=True)")
async def test_a_streamed_message(claude: anthropic.AsyncAnthropic):
    whole = await claude.messages.create(**ASKED)
    events = [event async for event in await claude.messages.create(**ASKED, stream=True)]
    kinds = [event.type for event in events]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(kinds[2:-3]) == {"content_block_delta"}
    text = "".join(event.delta.text for event in events if event.type == "content_block_delta")
    assert text == whole.content[0].text
    assert events[-2].delta.stop_reason == "end_turn"
    assert events[-2].usage.output_tokens == whole.usage.output_tokens


@ported("anthropic", "messages.stream")
async def test_the_stream_helper(claude: anthropic.AsyncAnthropic):
    whole = await claude.messages.create(**ASKED)
    async with claude.messages.stream(**ASKED) as stream:
        text = "".join([piece async for piece in stream.text_stream])
        final = await stream.get_final_message()
    assert text == whole.content[0].text == final.content[0].text
    assert (final.stop_reason, final.usage.output_tokens) == ("end_turn", whole.usage.output_tokens)


@ported("anthropic", "messages.parse")
async def test_a_parsed_message(claude: anthropic.AsyncAnthropic):
    asked = 'what is 1+1? please respond with a JSON object, the format is {"result": 2}'
    answer = await claude.messages.parse(
        **ASKED | {"messages": [{"role": "user", "content": asked}]}, output_format=Sum
    )
    assert answer.parsed_output == Sum(result=2)


@ported("anthropic", "messages.create(tools)")
@pytest.mark.parametrize("choice", [{"type": "auto"}, {"type": "any"}, {"type": "tool", "name": "add"}])
async def test_a_tool_is_called(claude: anthropic.AsyncAnthropic, choice: dict[str, str]):
    answer = await claude.messages.create(**SUM, tool_choice=choice)
    assert called(answer) == ("add", {"a": 3, "b": 5})


@ported("anthropic", "messages.create(tool_choice=none)")
async def test_no_tool_is_called(claude: anthropic.AsyncAnthropic):
    answer = await claude.messages.create(**SUM, tool_choice={"type": "none"})
    assert {block.type for block in answer.content} == {"text"}
    assert answer.stop_reason in ("end_turn", "max_tokens")


@ported("anthropic", "messages.stream(tools)")
async def test_a_tool_is_called_in_a_stream(claude: anthropic.AsyncAnthropic):
    async with claude.messages.stream(**SUM) as stream:
        events = [event async for event in stream]
        final = await stream.get_final_message()
    assert called(final) == ("add", {"a": 3, "b": 5})
    assert [event.snapshot for event in events if event.type == "input_json"][-1] == {"a": 3, "b": 5}


@ported("anthropic", "messages.create(tool_result)")
async def test_a_tools_result(claude: anthropic.AsyncAnthropic):
    asked = await claude.messages.create(**SUM)
    (call,) = [block for block in asked.content if block.type == "tool_use"]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "8"}
    messages = [
        *SUM["messages"],
        {"role": "assistant", "content": asked.content},
        {"role": "user", "content": [result]},
    ]
    answer = await claude.messages.create(**(SUM | {"messages": messages}))
    assert answer.stop_reason == "end_turn"
    assert answer.content[0].text


@ported("anthropic", "messages.create(stop_sequences)")
async def test_a_stop_sequence(claude: anthropic.AsyncAnthropic):
    answer = await claude.messages.create(**COUNTING, stop_sequences=[", 5"])
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", ", 5")
    assert answer.content[0].text == "1, 2, 3, 4"


@ported("anthropic", "messages.create(max_tokens)")
async def test_a_message_that_is_cut(claude: anthropic.AsyncAnthropic):
    answer = await claude.messages.create(**COUNTING | {"max_tokens": 3})
    assert (answer.stop_reason, answer.usage.output_tokens) == ("max_tokens", 3)


@ported("anthropic", "messages.create(cache_control, metadata, thinking, …)")
async def test_fields_of_every_kind(claude: anthropic.AsyncAnthropic):
    text = {"type": "text", "text": "Hello", "cache_control": {"type": "ephemeral"}}
    answer = await claude.messages.create(
        **ASKED | {"messages": [{"role": "user", "content": [text]}]},
        system=[{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}],
        metadata={"user_id": "somebody"},
        service_tier="auto",
        thinking={"type": "disabled"},
    )
    assert answer.content[0].text


@ported("anthropic", "messages.with_raw_response.create")
async def test_a_raw_response(claude: anthropic.AsyncAnthropic):
    raw = await claude.messages.with_raw_response.create(**ASKED)
    message = await raw.parse()
    assert (raw.http_response.status_code, message.stop_reason) == (200, "end_turn")
    assert raw.headers["x-request-id"]


@ported("anthropic", "messages.create: the id of the request")
async def test_the_id_of_a_request(claude: anthropic.AsyncAnthropic):
    answer = await claude.messages.create(**ASKED)
    assert answer._request_id, "the SDK reads it from request-id"


@ported("anthropic", "messages.with_streaming_response.create")
async def test_a_streaming_response(claude: anthropic.AsyncAnthropic):
    async with claude.messages.with_streaming_response.create(**ASKED, stream=True) as response:
        lines = [line async for line in response.iter_lines() if line]
    assert lines[0] == "event: message_start"
    assert lines[-2:] == ["event: message_stop", 'data: {"type":"message_stop"}']


@ported("anthropic", "messages.create, without async")
def test_a_blocking_client(gateway: str):
    with anthropic.Anthropic(
        base_url=gateway, api_key="unused", max_retries=0, _strict_response_validation=True
    ) as client:
        whole = client.messages.create(**ASKED).content[0].text
        with client.messages.stream(**ASKED) as stream:
            assert "".join(stream.text_stream) == whole
        assert MODEL in [model.id for model in client.models.list()]


@ported("anthropic", "messages.count_tokens")
@pytest.mark.parametrize(
    "asked", [ASKED, ASKED | {"system": "Be kind."}, SUM], ids=["text", "system", "tools"]
)
async def test_tokens_are_counted(claude: anthropic.AsyncAnthropic, asked: dict[str, Any]):
    counted = await claude.messages.count_tokens(
        **{name: asked[name] for name in ("model", "messages", "system", "tools") if name in asked}
    )
    usage = (await claude.messages.create(**asked)).usage
    assert counted.input_tokens == usage.input_tokens + (usage.cache_read_input_tokens or 0)


@ported("anthropic", "beta.messages.create(betas)")
async def test_a_message_with_betas(claude: anthropic.AsyncAnthropic):
    whole = await claude.messages.create(**ASKED)
    answer = await claude.beta.messages.create(**ASKED, betas=["fine-grained-tool-streaming-2025-05-14"])
    assert answer.content[0].text == whole.content[0].text


@ported("anthropic", "beta.messages.stream")
async def test_a_beta_stream(claude: anthropic.AsyncAnthropic):
    async with claude.beta.messages.stream(**SUM) as stream:
        assert called(await stream.get_final_message()) == ("add", {"a": 3, "b": 5})


@ported("anthropic", "beta.messages.count_tokens")
async def test_a_beta_count(claude: anthropic.AsyncAnthropic):
    asked = {"model": MODEL, "messages": ASKED["messages"]}
    counted = await claude.messages.count_tokens(**asked)
    assert (await claude.beta.messages.count_tokens(**asked)).input_tokens == counted.input_tokens


@ported("anthropic", "beta.messages.tool_runner")
async def test_a_tool_is_run(claude: anthropic.AsyncAnthropic):
    heard: list[tuple[int, int]] = []

    @anthropic.beta_async_tool
    async def add(a: int, b: int) -> str:
        """Adds two numbers"""
        heard.append((a, b))
        return str(a + b)

    asked = {name: SUM[name] for name in ("model", "max_tokens", "messages", "extra_body")}
    final = await claude.beta.messages.tool_runner(**asked, tools=[add]).until_done()
    assert heard == [(3, 5)]
    assert (final.stop_reason, final.content[0].type) == ("end_turn", "text")


@ported("anthropic", "beta.models.list, retrieve")
async def test_beta_models(claude: anthropic.AsyncAnthropic):
    listed = {model.id: model async for model in claude.beta.models.list()}
    assert await claude.beta.models.retrieve(MODEL) == listed[MODEL]


@ported("anthropic", "models.list")
async def test_models_are_listed(claude: anthropic.AsyncAnthropic):
    page = await claude.models.list()
    (model,) = [model for model in page.data if model.id == MODEL]
    assert (model.type, model.lifecycle) == ("model", "active")
    assert model.display_name
    assert datetime(2020, 1, 1, tzinfo=UTC) < model.created_at < datetime.now(UTC)
    assert (page.first_id, page.last_id) == (page.data[0].id, page.data[-1].id)
    assert page.has_more is False


@ported("anthropic", "models.list(limit), page by page")
async def test_models_are_listed_by_pages(claude: anthropic.AsyncAnthropic):
    everything = [model.id for model in (await claude.models.list()).data]
    assert [model.id async for model in claude.models.list(limit=1)] == everything
    with pytest.raises(anthropic.BadRequestError, match="limit"):
        await claude.models.list(limit=0)


@ported("anthropic", "models.retrieve")
async def test_a_model_is_shown(claude: anthropic.AsyncAnthropic):
    listed = {model.id: model async for model in claude.models.list()}
    assert await claude.models.retrieve(MODEL) == listed[MODEL]


@ported("anthropic", "models.retrieve: NotFoundError")
async def test_an_unknown_model_is_not_shown(claude: anthropic.AsyncAnthropic):
    with pytest.raises(anthropic.NotFoundError) as missing:
        await claude.models.retrieve("nobody")
    assert missing.value.body["error"]["type"] == "not_found_error"


@ported("anthropic", "messages.create: BadRequestError")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_tokens", 0),
        ("messages", []),
        ("tools", [{"input_schema": {}}]),
        ("tool_choice", {"type": "some"}),
    ],
)
async def test_bad_requests_name_the_field(claude: anthropic.AsyncAnthropic, field: str, value: object):
    with pytest.raises(anthropic.BadRequestError, match=field) as refused:
        await claude.messages.create(**(ASKED | {field: value}))
    assert refused.value.body["type"] == "error"
    assert refused.value.body["error"]["type"] == "invalid_request_error"


@ported("anthropic", "messages.create: NotFoundError")
async def test_an_unknown_model_is_not_found(claude: anthropic.AsyncAnthropic):
    with pytest.raises(anthropic.NotFoundError) as refused:
        await claude.messages.create(**(ASKED | {"model": "nobody"}))
    assert refused.value.body["error"]["type"] == "not_found_error"


@ported("anthropic", "messages.create(timeout): APITimeoutError")
async def test_a_timeout(claude: anthropic.AsyncAnthropic):
    with pytest.raises(anthropic.APITimeoutError):
        await claude.messages.create(
            **ASKED | {"max_tokens": 4000, "extra_body": {"ignore_eos": True}}, timeout=0.2
        )


@ported("anthropic", "messages.batches.create, retrieve, list, results, cancel")
async def test_batches(claude: anthropic.AsyncAnthropic):
    asked = {name: ASKED[name] for name in ("model", "max_tokens", "messages")}
    batch = await claude.messages.batches.create(requests=[{"custom_id": "one", "params": asked}])
    assert (await claude.messages.batches.retrieve(batch.id)).id == batch.id
