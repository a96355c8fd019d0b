"""`/v1/messages`: passed on to a worker that has it, else answered by a chat completion."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anthropic
import pytest
from aiohttp import web

from support.guarded import ATTACK, guarded
from support.running_gateway import RunningGateway, running_gateway
from support.surface_worker import SurfaceWorker, surface_worker

MESSAGES, COUNT, CHAT = "/v1/messages", "/v1/messages/count_tokens", "/v1/chat/completions"
ASKED = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hello"}], "odd": 1e-5}
ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "hi"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 7, "output_tokens": 2, "cache_read_input_tokens": 4},
}
TOOL = {"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}


def event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


EVENTS = [
    event(
        "message_start", message=ANSWER | {"content": [], "usage": {"input_tokens": 7, "output_tokens": 0}}
    ),
    event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
    event("content_block_delta", index=0, delta={"type": "text_delta", "text": "hi"}),
    event("content_block_stop", index=0),
    event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2}),
    event("message_stop"),
]


async def stream(request: web.Request, pieces: list[bytes]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for piece in pieces:
        await response.write(piece)
    return response


async def answer_messages(request: web.Request, body: bytes) -> web.StreamResponse:
    if json.loads(body).get("stream"):
        return await stream(request, EVENTS)
    return web.json_response(ANSWER)


def completion(delta: dict, reason: str | None = None, usage: dict | None = None) -> dict:
    choice = {"index": 0, "message": delta, "delta": delta, "finish_reason": reason}
    return {"model": "m", "choices": [choice], **({"usage": usage} if usage else {})}


async def answer_chat(request: web.Request, body: bytes) -> web.StreamResponse:
    """A thought and a call of a tool where there is one, else a greeting that a stop string ends."""
    asked = json.loads(body)
    usage = {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 8}}
    call = {"index": 0, "id": "call_1", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
    said = (
        {"reasoning_content": "hm", "tool_calls": [call]} if asked.get("tools") else {"content": "hi there"}
    )
    reason = "tool_calls" if asked.get("tools") else "stop"
    if not asked.get("stream"):
        whole = completion(said, reason, usage)
        whole["choices"][0]["stop_reason"] = "END" if asked.get("stop") else None
        return web.json_response(whole)
    parts = [completion(said), completion({}, reason), {"choices": [], "usage": usage}]
    return await stream(
        request, [b"data: %b\n\n" % json.dumps(part).encode() for part in parts] + [b"data: [DONE]\n\n"]
    )


@asynccontextmanager
async def serving(
    *paths: str, **more
) -> AsyncIterator[tuple[SurfaceWorker, RunningGateway, anthropic.AsyncAnthropic]]:
    answers = {MESSAGES: answer_messages, CHAT: answer_chat}
    async with surface_worker(*paths, answers=answers) as worker:
        async with running_gateway(worker.url, **more) as gateway:
            client = anthropic.AsyncAnthropic(base_url=gateway.url, api_key="none", max_retries=0)
            yield worker, gateway, client


async def test_it_is_passed_on_byte_for_byte_to_a_worker_that_has_it() -> None:
    raw = json.dumps(ASKED, indent=1).encode()
    async with serving(MESSAGES, CHAT) as (worker, gateway, _):
        headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "tools", "x-api-key": "none"}
        status, told, given = await gateway.post(f"{MESSAGES}?beta=true", raw, headers=headers)
        assert given["request-id"] == given["x-request-id"]
        assert (status, told) == (200, ANSWER)
        (call,) = worker.seen
        assert (call.target, call.body) == (f"{MESSAGES}?beta=true", raw)
        assert call.headers["anthropic-beta"] == "tools" and "x-api-key" not in call.headers
        _, journal = await gateway.get(f"/explain/{given['x-request-id']}")
        row = journal["row"]
        assert (row["surface"], row["prompt_tokens"], row["completion_tokens"]) == (
            "anthropic.messages",
            11,
            2,
        )
        assert row["cached_tokens"] == 4


async def test_events_are_passed_on_as_they_are_and_counted() -> None:
    async with serving(MESSAGES) as (_, gateway, _client):
        async with gateway.client.post(gateway.url + MESSAGES, json=ASKED | {"stream": True}) as answer:
            assert await answer.read() == b"".join(EVENTS)
            request_id = answer.headers["x-request-id"]
        _, journal = await gateway.get(f"/explain/{request_id}")
        assert (journal["row"]["prompt_tokens"], journal["row"]["completion_tokens"]) == (7, 2)


@pytest.mark.parametrize("paths", [(MESSAGES,), (CHAT,)])
async def test_the_anthropic_client_is_answered_either_way(paths: tuple[str, ...]) -> None:
    async with serving(*paths) as (worker, _, client):
        message = await client.messages.create(
            model="claude-sonnet-4-5", max_tokens=5, messages=[{"role": "user", "content": "hello"}]
        )
        assert message.content[0].text.startswith("hi") and message.stop_reason == "end_turn"
        assert worker.seen[-1].json()["model"] == "m"
        async with client.messages.stream(
            model="m", max_tokens=5, messages=[{"role": "user", "content": "hello"}]
        ) as events:
            final = await events.get_final_message()
        assert final.content[0].text.startswith("hi") and final.usage.output_tokens in (2, 4)
        with pytest.raises(anthropic.NotFoundError) as refused:
            await client.messages.create(
                model="unknown", max_tokens=5, messages=[{"role": "user", "content": "a"}]
            )
        assert refused.value.body["type"] == "error"


async def test_what_is_translated_keeps_tools_system_sampling_and_thoughts() -> None:
    async with serving(CHAT) as (worker, _, client):
        message = await client.messages.create(
            model="m",
            max_tokens=50,
            system="Be short.",
            messages=[{"role": "user", "content": "weather?"}],
            tools=[TOOL],
            tool_choice={"type": "any"},
            stop_sequences=["END"],
            metadata={"user_id": "ann"},
            extra_body={"min_p": 0.1, "temperature": 0.5},
        )
        sent = worker.seen[-1].json()
        assert sent["messages"] == [
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": "weather?"},
        ]
        names = ("max_tokens", "temperature", "stop", "tool_choice", "user", "min_p", "model", "stream")
        assert {name: sent[name] for name in names} == {
            "max_tokens": 50,
            "temperature": 0.5,
            "stop": ["END"],
            "tool_choice": "required",
            "user": "ann",
            "min_p": 0.1,
            "model": "m",
            "stream": False,
        }
        assert sent["tools"][0]["function"]["name"] == "weather"
        assert [block.type for block in message.content] == ["thinking", "tool_use"]
        assert message.content[1].input == {"city": "Oslo"} and message.stop_reason == "tool_use"
        usage = message.usage
        assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (1, 8, 4)


PNG = {"type": "base64", "media_type": "image/png", "data": "aGk="}


async def test_images_become_parts_of_the_chat_completion() -> None:
    text, image = {"type": "text", "text": "What is that?"}, {"type": "image", "source": PNG}
    linked = {"type": "image", "source": {"type": "url", "url": "http://127.0.0.1/a.png"}}
    use = {"type": "tool_use", "id": "t1", "name": "camera", "input": {}}
    results = [
        {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "seen"}, image]},
        {"type": "tool_result", "tool_use_id": "t2", "content": [image]},
    ]
    async with serving(CHAT) as (worker, _, client):
        await client.messages.create(
            model="m",
            max_tokens=5,
            messages=[
                {"role": "user", "content": [linked, text]},
                {"role": "assistant", "content": [use, use | {"id": "t2"}]},
                {"role": "user", "content": [*results, text]},
            ],
        )
        asked, called, *rest = worker.seen[-1].json()["messages"]
        shown = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
        assert asked["content"] == [
            {"type": "image_url", "image_url": {"url": "http://127.0.0.1/a.png"}},
            text,
        ]
        assert [call["id"] for call in called["tool_calls"]] == ["t1", "t2"]
        assert rest == [
            {"role": "tool", "tool_call_id": "t1", "content": [{"type": "text", "text": "seen"}, shown]},
            {"role": "tool", "tool_call_id": "t2", "content": [shown]},
            {"role": "user", "content": "What is that?"},
        ]


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ({"type": "file", "file_id": "f"}, "messages[0].content[0].source"),
        ({"type": "base64", "data": "aGk="}, "messages[0].content[0].source"),
        ("a.png", "messages[0].content[0].source"),
        ({"type": "url", "url": "file:///etc/passwd"}, "messages[0].content[0].source.url"),
        ({"type": "url", "url": "/etc/passwd.png"}, "messages[0].content[0].source.url"),
        ({"type": "url", "url": ""}, "messages[0].content[0].source.url"),
        (PNG | {"media_type": "text/html"}, "messages[0].content[0].source.media_type"),
        (PNG | {"media_type": "image/png,x"}, "messages[0].content[0].source.media_type"),
    ],
)
async def test_an_image_that_cannot_be_passed_on_is_refused_by_its_field(source, named) -> None:
    async with serving(CHAT) as (worker, gateway, _):
        image = {"type": "image", "source": source}
        result = {"type": "tool_result", "tool_use_id": "t1", "content": [image]}
        for block, field in ((image, named), (result, named.replace(".source", ".content[0].source"))):
            body = ASKED | {"messages": [{"role": "user", "content": [block]}]}
            status, told, _ = await gateway.post(MESSAGES, body)
            assert (status, worker.seen) == (400, []) and told["error"]["message"].startswith(f"{field}: ")


async def test_tokens_of_images_are_counted_by_a_worker_alone() -> None:
    async with serving(CHAT, "/tokenize") as (_, gateway, _client):
        image = {"role": "user", "content": [{"type": "image", "source": PNG}]}
        status, told, _ = await gateway.post(COUNT, ASKED | {"messages": [image]})
        assert (status, told["type"]) == (400, "error") and "content[0].type" in told["error"]["message"]


async def test_what_is_translated_keeps_its_query() -> None:
    async with serving(CHAT) as (worker, gateway, _):
        assert (await gateway.post(f"{MESSAGES}?beta=true", ASKED))[0] == 200
        assert worker.calls == [("POST", f"{CHAT}?beta=true")]


@pytest.mark.parametrize("path", [MESSAGES, CHAT])
async def test_a_stream_that_breaks_ends_with_anthropics_error(path: str) -> None:
    said = b"data: %b\n\n" % json.dumps(completion({"content": "hi"})).encode()
    pieces = EVENTS[:3] if path == MESSAGES else [said]

    was_read = asyncio.Event()

    async def break_off(request: web.Request, body: bytes) -> web.StreamResponse:
        response = await stream(request, pieces)
        await was_read.wait()
        return response

    async with (
        surface_worker(path, answers={path: break_off}) as worker,
        running_gateway(worker.url) as gateway,
    ):
        async with gateway.client.post(gateway.url + MESSAGES, json=ASKED | {"stream": True}) as answer:
            first = await answer.content.readuntil(b"\n\n")
            assert answer.status == 200 and first.startswith(b"event: message_start")
            was_read.set()
            kind, data = (await answer.text()).strip().split("\n\n")[-1].split("\n")
        assert kind == "event: error"
        assert json.loads(data.removeprefix("data: "))["type"] == "error"


async def test_a_stop_string_is_told() -> None:
    async with serving(CHAT) as (_, _gateway, client):
        message = await client.messages.create(
            model="m", max_tokens=5, stop_sequences=["END"], messages=[{"role": "user", "content": "a"}]
        )
        assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "END")


async def test_a_streamed_call_of_a_tool_is_translated() -> None:
    async with serving(CHAT) as (_, _gateway, client):
        async with client.messages.stream(
            model="m", max_tokens=5, tools=[TOOL], messages=[{"role": "user", "content": "weather?"}]
        ) as events:
            final = await events.get_final_message()
        assert [block.type for block in final.content] == ["thinking", "tool_use"]
        assert final.content[1].input == {"city": "Oslo"} and final.usage.output_tokens == 4


@pytest.mark.parametrize("paths", [(MESSAGES,), (CHAT,)])
@pytest.mark.parametrize(
    ("fields", "named"),
    [({"messages": []}, "messages"), ({"messages": "hello"}, "messages"), ({"max_tokens": 0}, "max_tokens")],
)
async def test_a_bad_body_is_refused_in_anthropics_shape(paths, fields, named) -> None:
    async with serving(*paths) as (worker, gateway, _):
        status, told, _ = await gateway.post(MESSAGES, ASKED | fields)
        assert (status, told["type"], told["error"]["type"]) == (400, "error", "invalid_request_error")
        assert named in told["error"]["message"] and worker.seen == []


async def test_max_tokens_is_needed_where_it_is_translated() -> None:
    async with serving(CHAT) as (worker, gateway, _):
        status, told, _ = await gateway.post(MESSAGES, {"model": "m", "messages": ASKED["messages"]})
        assert (status, worker.seen) == (400, []) and "max_tokens" in told["error"]["message"]


async def test_a_refusal_of_the_worker_is_passed_on_in_anthropics_shape() -> None:
    async def refuse(request: web.Request, body: bytes) -> web.Response:
        return web.json_response({"error": {"message": "too long", "param": "messages"}}, status=400)

    async with surface_worker(CHAT, answers={CHAT: refuse}) as worker, running_gateway(worker.url) as gateway:
        status, told, _ = await gateway.post(MESSAGES, ASKED)
        assert (status, told["error"]["message"]) == (400, "too long")


async def test_a_guard_has_it_translated_and_judges_question_and_answer(monkeypatch) -> None:
    async with surface_worker(
        MESSAGES, CHAT, answers={MESSAGES: answer_messages, CHAT: answer_chat}
    ) as worker:
        blocks = {"jailbreak": {"action": "block"}}
        async with guarded(monkeypatch, worker.url, guard=blocks) as gateway:
            assert (await gateway.post(MESSAGES, ASKED))[0] == 200
            assert worker.calls == [("POST", CHAT)]
            attack = ASKED | {"messages": [{"role": "user", "content": ATTACK}]}
            status, told, headers = await gateway.post(MESSAGES, attack)
            assert (status, told["type"], len(worker.seen)) == (200, "message", 1)
            assert headers["x-vsr-jailbreak-blocked"] == "true"


async def test_tokens_are_counted_by_a_worker_that_does_else_by_the_prompt() -> None:
    def count(request: web.Request, body: bytes) -> web.Response:
        return web.json_response({"input_tokens": 12})

    def tokenize(request: web.Request, body: bytes) -> web.Response:
        messages = json.loads(body)["messages"]
        return web.json_response({"count": len(messages), "tokens": [1] * len(messages), "max_model_len": 99})

    asked = {"model": "m", "system": "Be short.", "messages": ASKED["messages"]}
    async with (
        surface_worker(COUNT, answers={COUNT: count}) as worker,
        running_gateway(worker.url) as gateway,
    ):
        client = anthropic.AsyncAnthropic(base_url=gateway.url, api_key="none", max_retries=0)
        assert (await client.messages.count_tokens(**asked)).input_tokens == 12
        assert worker.calls == [("POST", COUNT)]
    async with surface_worker(CHAT, "/tokenize", answers={"/tokenize": tokenize}, tokenizes=True) as worker:
        async with running_gateway(worker.url) as gateway:
            client = anthropic.AsyncAnthropic(base_url=gateway.url, api_key="none", max_retries=0)
            assert (await client.messages.count_tokens(**asked)).input_tokens == 2
    async with surface_worker(CHAT) as worker, running_gateway(worker.url) as gateway:
        status, told, _ = await gateway.post(COUNT, asked)
        assert (status, told["type"]) == (501, "error")
        assert (await gateway.post(COUNT, asked | {"model": "unknown"}))[0] == 404


async def test_a_tenant_whose_workers_lack_it_is_answered_by_a_chat_completion() -> None:
    tenants = {"acme": {"keys": [{"key": "acme-key"}], "pools": ["mine"]}}
    answers = {MESSAGES: answer_messages, CHAT: answer_chat}
    async with (
        surface_worker(MESSAGES, answers=answers) as other,
        surface_worker(CHAT, answers=answers) as own,
    ):
        workers = [{"url": other.url}, {"url": own.url, "pools": ["mine"]}]
        async with running_gateway(workers=workers, tenants=tenants) as gateway:
            for worker in gateway.gateway.registry:
                await gateway.gateway.upstream.health.wait_first_probe(worker)
            key = {"x-api-key": "acme-key"}
            assert (await gateway.post(MESSAGES, ASKED, headers=key))[0] == 200
            assert (other.seen, own.calls) == ([], [("POST", CHAT)])
            _, usage = await gateway.get("/usage", headers=key)
            assert usage["usage"][0]["completion_tokens"] == 4
            status, told, _ = await gateway.post(MESSAGES, ASKED)
            assert (status, told["error"]["type"]) == (401, "authentication_error")


async def test_a_tenant_counts_tokens_of_its_own_models_alone() -> None:
    tenants = {"acme": {"keys": [{"key": "acme-key"}], "models": ["other"]}}
    async with surface_worker(CHAT, tokenizes=True) as worker:
        async with running_gateway(worker.url, tenants=tenants) as gateway:
            asked = {"model": "m", "messages": ASKED["messages"]}
            status, told, _ = await gateway.post(COUNT, asked, headers={"x-api-key": "acme-key"})
            assert (status, told["error"]["type"], worker.seen) == (404, "not_found_error", [])
