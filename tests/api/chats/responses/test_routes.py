"""`/v1/responses` with OpenAI's own client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from radixway.chat.model_configs import ServedModelConfig
from support.running_gateway import RunningGateway, running_gateway
from support.scripted_worker import Exchange, ScriptedWorker, scripted_worker

pytestmark = pytest.mark.usefixtures("chat_stores")

TOOL: Any = {
    "type": "function",
    "name": "weather",
    "description": "The weather somewhere.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": None,
}


async def say(exchange: Exchange, *deltas: dict[str, Any], finish: str = "stop") -> None:
    """A streamed completion of these deltas; `logprobs` of one are its choice's."""
    await exchange.begin_stream()
    for delta in deltas:
        logprobs = {"logprobs": delta["logprobs"]} if "logprobs" in delta else {}
        delta = {name: value for name, value in delta.items() if name != "logprobs"}
        await send(exchange, {"choices": [{"index": 0, "delta": delta, "finish_reason": None, **logprobs}]})
    await send(exchange, {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    usage = {
        "prompt_tokens": 5,
        "completion_tokens": 4,
        "total_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 2},
    }
    await send(exchange, {"choices": [], "usage": usage})
    await exchange.chunk(b"data: [DONE]\n\n")
    await exchange.end_stream()


async def send(exchange: Exchange, event: dict[str, Any]) -> None:
    await exchange.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")


class Engine:
    """A worker that answers as the test has it."""

    def __init__(self) -> None:
        self.deltas: list[dict[str, Any]] = [{"content": "A radix "}, {"content": "tree."}]
        self.finish = "stop"
        self.status = 200
        self.may_end = asyncio.Event()
        """Answers stay open after their words until it is set."""
        self.may_end.set()
        self.left = asyncio.Event()
        self.worker: ScriptedWorker

    async def __call__(self, exchange: Exchange) -> None:
        if self.status != 200:
            error = {"message": "too long", "code": "context_length_exceeded", "param": "messages"}
            await exchange.reply(self.status, json.dumps({"error": error}).encode())
            return
        if self.may_end.is_set():
            await say(exchange, *self.deltas, finish=self.finish)
            return
        await exchange.begin_stream()
        for delta in self.deltas:
            await send(exchange, {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        leaving = asyncio.ensure_future(exchange.until_peer_leaves())
        ending = asyncio.ensure_future(self.may_end.wait())
        await asyncio.wait([leaving, ending], return_when=asyncio.FIRST_COMPLETED)
        if leaving.done():
            self.left.set()
            raise ConnectionError
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        await send(exchange, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        await exchange.end_stream()

    @property
    def asked(self) -> list[dict[str, Any]]:
        return [exchange.json() for exchange in self.worker.requests]


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    engine = Engine()
    async with scripted_worker(engine) as engine.worker:
        yield engine


@pytest.fixture
async def gateway(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RunningGateway]:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    async with running_gateway(engine.worker.url, chat={"allow_debug_auth": True}) as gateway:
        yield gateway


def files_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


def client_of(gateway: RunningGateway, api_key: str = "any") -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=api_key, max_retries=0, timeout=120)


@pytest.fixture
async def client(gateway: RunningGateway) -> AsyncIterator[AsyncOpenAI]:
    async with client_of(gateway) as client:
        yield client


async def test_any_key_will_do_where_there_are_no_keys(client: AsyncOpenAI, engine: Engine) -> None:
    response = await client.responses.create(
        model="m", input="What is a radix tree?", instructions="Be brief.", max_output_tokens=16
    )
    assert response.status == "completed"
    assert response.output_text == "A radix tree."
    assert response.usage is not None and response.usage.input_tokens == 5
    assert response.usage.input_tokens_details.cached_tokens == 2
    assert response.instructions == "Be brief."
    [asked] = engine.asked
    assert asked["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is a radix tree?"},
    ]
    assert asked["max_tokens"] == 16
    read = await client.responses.retrieve(response.id)
    assert read == response


@pytest.mark.parametrize("key", [None, "a-key"])
async def test_what_is_nested_too_deeply_to_be_kept_is_refused(
    gateway: RunningGateway, key: str | None
) -> None:
    """Between what can just be written and what can no more be read there are some levels."""
    headers = {"content-type": "application/json"} | ({} if key is None else {"idempotency-key": key})
    statuses = []
    for levels in range(780, 1000, 4):
        deep = '{"a":' * levels + "1" + "}" * levels
        tool = f'{{"type": "function", "name": "f", "parameters": {deep}}}'
        body = f'{{"model": "m", "input": "{levels}", "background": true, "tools": [{tool}]}}'
        own = headers if key is None else headers | {"idempotency-key": f"{key}-{levels}"}
        async with gateway.client.post(f"{gateway.url}/v1/responses", data=body, headers=own) as reply:
            statuses.append(reply.status)
            if reply.status != 200:
                assert "nested too deeply" in (await reply.json())["error"]["message"]
    assert set(statuses) == {200, 400} and statuses == sorted(statuses)


async def test_a_response_goes_on_from_another(client: AsyncOpenAI, engine: Engine) -> None:
    first = await client.responses.create(model="m", input="One?", instructions="Be brief.")
    second = await client.responses.create(model="m", input="Two?", previous_response_id=first.id)
    branch = await client.responses.create(model="m", input="Or?", previous_response_id=first.id)
    before = [{"role": "user", "content": "One?"}, {"role": "assistant", "content": "A radix tree."}]
    assert engine.asked[1]["messages"] == [*before, {"role": "user", "content": "Two?"}]
    assert engine.asked[2]["messages"] == [*before, {"role": "user", "content": "Or?"}]
    assert second.previous_response_id == branch.previous_response_id == first.id


async def test_a_stream_is_numbered_and_ends_with_the_whole_response(
    client: AsyncOpenAI, engine: Engine
) -> None:
    engine.deltas = [{"reasoning_content": "Hm. "}, {"content": "A radix "}, {"content": "tree."}]
    events = [event async for event in await client.responses.create(model="m", input="?", stream=True)]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events] == [
        *("response.created", "response.in_progress"),
        *("response.output_item.added", "response.content_part.added", "response.reasoning_text.delta"),
        *("response.reasoning_text.done", "response.content_part.done", "response.output_item.done"),
        *("response.output_item.added", "response.content_part.added"),
        *("response.output_text.delta", "response.output_text.delta"),
        *("response.output_text.done", "response.content_part.done", "response.output_item.done"),
        "response.completed",
    ]
    assert events[-1].type == "response.completed"
    assert events[-1].response.output_text == "A radix tree."
    assert await client.responses.retrieve(events[-1].response.id) == events[-1].response


async def test_a_background_response_is_polled(client: AsyncOpenAI, engine: Engine) -> None:
    engine.may_end.clear()
    response = await client.responses.create(model="m", input="?", background=True)
    assert response.status in ("queued", "in_progress") and response.background
    engine.may_end.set()
    async for _ in await client.responses.retrieve(response.id, stream=True):
        pass
    done = await client.responses.retrieve(response.id)
    assert done.status == "completed" and done.output_text == "A radix tree."


async def test_a_stream_is_resumed_after_the_last_event_heard(client: AsyncOpenAI, engine: Engine) -> None:
    engine.may_end.clear()
    heard: list[Any] = []
    stream = await client.responses.create(model="m", input="?", background=True, stream=True)
    async for event in stream:
        heard.append(event)
        if event.type == "response.output_text.delta":
            break
    await stream.close()
    engine.may_end.set()
    response_id, last = heard[0].response.id, heard[-1].sequence_number
    resumed = await client.responses.retrieve(response_id, stream=True, starting_after=last)
    heard += [event async for event in resumed]
    assert [event.sequence_number for event in heard] == list(range(len(heard)))
    words = [event.delta for event in heard if event.type == "response.output_text.delta"]
    assert "".join(words) == "A radix tree."
    assert heard[-1].type == "response.completed"
    late = [event async for event in await client.responses.retrieve(response_id, stream=True)]
    assert [event.model_dump() for event in late[3:]] == [event.model_dump() for event in heard[3:]]


async def test_a_cancelled_response_keeps_its_words_and_frees_its_worker(
    client: AsyncOpenAI, engine: Engine
) -> None:
    engine.may_end.clear()
    stream = await client.responses.create(model="m", input="?", background=True, stream=True)
    cancelled, response_id = None, ""
    async for event in stream:
        if event.type == "response.created":
            response_id = event.response.id
        if event.type == "response.output_text.delta" and cancelled is None:
            cancelled = await client.responses.cancel(response_id)
    assert cancelled is not None and cancelled.status == "cancelled"
    assert cancelled.completed_at is not None and cancelled.completed_at >= cancelled.created_at
    assert event.type == "response.incomplete" and event.response.status == "cancelled"
    assert event.response.output_text.startswith("A radix")
    async with asyncio.timeout(10):
        await engine.left.wait()
    assert (await client.responses.cancel(response_id)).status == "cancelled"


async def test_what_is_whole_cannot_be_cancelled(client: AsyncOpenAI) -> None:
    response = await client.responses.create(model="m", input="?")
    with pytest.raises(openai.BadRequestError, match="completed") as refused:
        await client.responses.cancel(response.id)
    assert refused.value.code == "response_already_completed"


async def test_tools_are_called_and_their_results_go_on(client: AsyncOpenAI, engine: Engine) -> None:
    call = {"index": 0, "id": "call_7", "type": "function"}
    engine.deltas = [
        {"tool_calls": [call | {"function": {"name": "weather", "arguments": '{"city":'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ' "Ulm"}'}}]},
    ]
    engine.finish = "tool_calls"
    first = await client.responses.create(model="m", input="Rain?", tools=[TOOL], tool_choice="required")
    assert engine.asked[0]["tools"][0]["function"]["name"] == "weather"
    assert engine.asked[0]["tool_choice"] == "required"
    [asked] = first.output
    assert asked.type == "function_call" and first.status == "completed"
    assert (asked.call_id, asked.name, asked.arguments) == ("call_7", "weather", '{"city": "Ulm"}')
    engine.deltas, engine.finish = [{"content": "Yes."}], "stop"
    second = await client.responses.create(
        model="m",
        previous_response_id=first.id,
        input=[{"type": "function_call_output", "call_id": asked.call_id, "output": "rain"}],
        tools=[TOOL],
    )
    assert second.output_text == "Yes."
    assert [message["role"] for message in engine.asked[1]["messages"]] == ["user", "assistant", "tool"]
    assert engine.asked[1]["messages"][1]["tool_calls"][0]["id"] == "call_7"
    assert engine.asked[1]["messages"][2] == {
        "role": "tool",
        "tool_call_id": "call_7",
        "content": "rain",
    }


async def test_a_schema_reaches_the_worker(client: AsyncOpenAI, engine: Engine) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    form: Any = {"type": "json_schema", "name": "count", "schema": schema, "strict": True}
    await client.responses.create(model="m", input="?", text={"format": form})
    assert engine.asked[0]["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "count", "schema": schema, "strict": True},
    }


async def test_nothing_is_kept_of_what_is_not_to_be_stored(
    client: AsyncOpenAI, engine: Engine, tmp_path: Path
) -> None:
    response = await client.responses.create(model="m", input="a secret question", store=False)
    assert response.output_text == "A radix tree."
    events = [e async for e in await client.responses.create(model="m", input="q2", store=False, stream=True)]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].type == "response.completed"
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(response.id)
    assert b"secret question" not in files_in(tmp_path)


async def test_an_answer_that_reached_its_length_is_incomplete(client: AsyncOpenAI, engine: Engine) -> None:
    engine.finish = "length"
    response = await client.responses.create(model="m", input="?", max_output_tokens=4)
    assert response.status == "incomplete" and response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"


async def test_a_foreground_response_ends_with_its_client(
    gateway: RunningGateway, client: AsyncOpenAI, engine: Engine
) -> None:
    engine.may_end.clear()
    stream = await client.responses.create(model="m", input="?", stream=True)
    async for event in stream:
        if event.type == "response.created":
            response_id = event.response.id
        if event.type == "response.output_text.delta":
            break
    await stream.close()
    async with asyncio.timeout(10):
        await engine.left.wait()
    assert (await client.responses.retrieve(response_id)).status == "cancelled"


@pytest.mark.parametrize("stream", [False, True])
async def test_what_the_worker_refuses_is_an_exception_and_leaves_nothing(
    client: AsyncOpenAI, engine: Engine, gateway: RunningGateway, stream: bool
) -> None:
    engine.status = 400
    with pytest.raises(openai.BadRequestError) as refused:
        await client.responses.create(model="m", input="?", stream=stream)
    assert refused.value.code == "context_length_exceeded"
    assert gateway.gateway.chats is not None and gateway.gateway.chats.service is not None
    async with gateway.gateway.chats.service.database.read_connection() as read:
        counted = await read.exec_driver_sql("SELECT count(*) FROM messages")
        assert counted.scalar_one() == 0


def scored(*tokens: str, **delta: str) -> dict[str, Any]:
    """A delta whose tokens each have two alternatives."""
    entries = [
        {"token": token, "logprob": -0.25, "bytes": list(token.encode())}
        | {"top_logprobs": [{"token": top, "logprob": -0.25, "bytes": None} for top in (token, "x")]}
        for token in tokens
    ]
    return delta | {"logprobs": {"content": entries}}


LOGPROBS: Any = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}


@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("stream", [False, True])
async def test_log_probabilities_are_told_where_they_are_asked_for(
    client: AsyncOpenAI, engine: Engine, store: bool, stream: bool
) -> None:
    engine.deltas = [
        scored("A", " tree", reasoning_content="A tree"),
        scored("\n\n"),
        scored("A", " radix", content="A radix"),
        scored(" tree", "<end>", content=" tree"),
    ]

    async def ask(**fields: Any) -> Any:
        asked = {"model": "m", "input": "?", "store": store, **fields}
        if not stream:
            return await client.responses.create(**asked)
        events = [event async for event in await client.responses.create(**asked, stream=True)]
        (done,) = (event for event in events if event.type == "response.output_text.done")
        completed = events[-1].response
        last = completed.output[-1].content[0].logprobs
        assert [each.token for each in done.logprobs or ()] == [each.token for each in last or ()]
        return completed

    response = await ask(**LOGPROBS)
    (thought, message) = response.output
    assert response.output_text == "A radix tree" and thought.type == "reasoning"
    told = message.content[0].logprobs
    assert [(each.token, each.logprob) for each in told] == [
        ("A", -0.25),
        (" radix", -0.25),
        (" tree", -0.25),
    ]
    assert [top.token for top in told[1].top_logprobs] == [" radix", "x"]
    asked = engine.worker.requests[-1].json()
    assert (asked["logprobs"], asked["top_logprobs"]) == (True, 2)
    if store:
        assert (await client.responses.retrieve(response.id)).output == response.output
    plain = await ask()
    assert not plain.output[-1].content[0].logprobs
    assert "logprobs" not in engine.worker.requests[-1].json()


async def test_a_model_that_nobody_serves_is_not_found(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        await client.responses.create(model="none", input="?")
    assert missing.value.code == "model_not_found"


NONSENSE: list[tuple[dict[str, Any], str]] = [
    ({"input": ""}, "input"),
    ({"input": "a\0b"}, "input"),
    ({"input": [{"type": "web_search_call"}]}, "input[0].type"),
    ({"temperature": "hot"}, "temperature"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
    ({"truncation": "auto"}, "truncation"),
    ({"include": ["message.output_text.odds"]}, "include[0]"),
    ({"include": ["message.output_text.logprobs"], "top_logprobs": 21}, "top_logprobs"),
    ({"prompt": {"id": "pmpt_1"}}, "prompt"),
    ({"temprature": 1}, "temprature"),
    ({"metadata": {"a": 1}}, "metadata.a"),
    ({"background": True, "store": False}, "background"),
    ({"conversation": "conv_1", "previous_response_id": "resp_1"}, "conversation"),
    ({"previous_response_id": "resp_1"}, "previous_response_id"),
    ({"previous_response_id": "resp_1", "store": False}, "previous_response_id"),
    ({"reasoning": {"effort": "extreme"}}, "reasoning.effort"),
]


async def test_a_field_that_makes_no_sense_is_named(client: AsyncOpenAI) -> None:
    for fields, param in NONSENSE:
        with pytest.raises(openai.BadRequestError) as refused:
            await client.post("/responses", body={"model": "m", "input": "?"} | fields, cast_to=object)
        assert refused.value.param == param


async def test_what_is_another_users_is_not_found(gateway: RunningGateway, client: AsyncOpenAI) -> None:
    _, tokens = await gateway.get("/auth/callback/debug?code=eve")
    response = await client.responses.create(model="m", input="?")
    async with client_of(gateway, tokens["access_token"]["access_token"]) as eve:
        own = await eve.responses.create(model="m", input="?")
        assert (await eve.responses.retrieve(own.id)).output_text == "A radix tree."
        for call in (eve.responses.retrieve, eve.responses.cancel, eve.responses.delete):
            with pytest.raises(openai.NotFoundError):
                await call(response.id)
        with pytest.raises(openai.BadRequestError) as missing:
            await eve.responses.create(model="m", input="?", previous_response_id=response.id)
        assert missing.value.code == "previous_response_not_found"
    async with client_of(gateway, "a.b.c.d.e") as nobody:
        with pytest.raises(openai.AuthenticationError):
            await nobody.responses.retrieve(response.id)


async def test_a_deleted_response_is_gone_and_its_texts_with_the_last_that_needs_them(
    client: AsyncOpenAI, engine: Engine, gateway: RunningGateway
) -> None:
    first = await client.responses.create(model="m", input="One?")
    second = await client.responses.create(model="m", input="Two?", previous_response_id=first.id)
    await client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(first.id)
    third = await client.responses.create(model="m", input="Three?", previous_response_id=second.id)
    assert engine.asked[2]["messages"][0] == {"role": "user", "content": "One?"}
    await client.responses.delete(second.id)
    await client.responses.delete(third.id)
    assert gateway.gateway.chats is not None and gateway.gateway.chats.service is not None
    async with gateway.gateway.chats.service.database.read_connection() as read:
        for table in ("messages", "chats", "responses", "question_items"):
            assert (await read.exec_driver_sql(f"SELECT count(*) FROM {table}")).scalar_one() == 0


async def test_what_a_response_was_asked_with_is_listed(client: AsyncOpenAI) -> None:
    asked: Any = [{"role": "user", "content": "One"}, {"role": "user", "content": "Two"}]
    response = await client.responses.create(model="m", input=asked)
    newest = await client.responses.input_items.list(response.id, limit=1)
    assert newest.data[0].content[0].text == "Two" and newest.has_more
    texts = [item.content[0].text async for item in client.responses.input_items.list(response.id, limit=1)]
    assert texts == ["Two", "One"]


async def test_a_repeated_call_with_its_key_is_the_same_response(client: AsyncOpenAI, engine: Engine) -> None:
    key = {"Idempotency-Key": "k"}
    first = await client.responses.create(model="m", input="?", extra_headers=key)
    again = await client.responses.create(model="m", input="?", extra_headers=key)
    assert again == first and len(engine.asked) == 1
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        await client.responses.create(model="m", input="!", extra_headers=key)
    assert refused.value.code == "idempotency_key_reused" and len(engine.asked) == 1


async def test_without_chats_it_says_so(engine: Engine) -> None:
    async with running_gateway(engine.worker.url, chat={"enabled": False}) as gateway:
        async with client_of(gateway) as client:
            with pytest.raises(openai.NotFoundError, match="switched off"):
                await client.responses.create(model="m", input="?")


async def test_a_model_that_only_workers_who_fetch_serve_is_refused_at_once(
    gateway: RunningGateway, client: AsyncOpenAI
) -> None:
    await client.responses.create(model="m", input="?")
    assert gateway.gateway.chats is not None and gateway.gateway.chats.service is not None
    gateway.gateway.chats.service.models.pulled = lambda: [ServedModelConfig("theirs", "org/theirs", 8, 16)]
    for model in ("theirs", "org/theirs"):
        with pytest.raises(openai.BadRequestError, match="fetch") as refused:
            await client.responses.create(model=model, input="?")
        assert refused.value.param == "model"


async def test_its_paths_are_in_openapi(gateway: RunningGateway) -> None:
    status, told = await gateway.get("/openapi/responses.json")
    assert status == 200
    assert {"/v1/responses", "/v1/responses/{response_id}/cancel", "/v1/conversations"} <= set(told["paths"])
