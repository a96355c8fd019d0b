"""`/v1/responses` is passed on to a worker that has it, unless the gateway is to keep it."""

from __future__ import annotations

import json

import openai
import pytest
from aiohttp import web

from support.guarded import guarded
from support.running_gateway import running_gateway
from support.surface_worker import surface_worker

PATH, CHAT = "/v1/responses", "/v1/chat/completions"
ASKED = {"model": "m", "input": "hello", "store": False, "odd": 1e-5}
COUNT = "/v1/responses/input_tokens"
OUTPUT = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "hi", "annotations": []}],
}
ANSWER = {
    "id": "resp_of_the_worker",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "m",
    "output": [OUTPUT],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "usage": {
        "input_tokens": 7,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 9,
    },
}


async def answer(request: web.Request, body: bytes) -> web.StreamResponse:
    if not json.loads(body).get("stream"):
        return web.json_response(ANSWER)
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for kind, fields in (("response.created", {}), ("response.completed", {"response": ANSWER})):
        data = json.dumps({"type": kind, "sequence_number": 0, **fields})
        await response.write(f"event: {kind}\ndata: {data}\n\n".encode())
    return response


def chat(request: web.Request, body: bytes) -> web.Response:
    choice = {"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}
    return web.json_response({"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1}})


ANSWERS = {PATH: answer, CHAT: chat}


async def test_one_that_is_not_kept_is_passed_on_byte_for_byte() -> None:
    raw = json.dumps(ASKED, indent=2).encode()
    async with surface_worker(PATH, CHAT, answers=ANSWERS) as worker, running_gateway(worker.url) as gateway:
        status, told, headers = await gateway.post(f"{PATH}?a=b", raw)
        assert (status, told) == (200, ANSWER)
        assert [(call.target, call.body) for call in worker.seen] == [(f"{PATH}?a=b", raw)]
        _, journal = await gateway.get(f"/explain/{headers['x-request-id']}")
        row = journal["row"]
        assert (row["surface"], row["prompt_tokens"], row["completion_tokens"]) == ("openai.responses", 7, 2)


async def test_events_are_passed_on_and_counted() -> None:
    async with surface_worker(PATH, answers=ANSWERS) as worker, running_gateway(worker.url) as gateway:
        client = openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0)
        events = await client.responses.create(model="default", input="hello", store=False, stream=True)
        assert [each.type async for each in events] == ["response.created", "response.completed"]
        assert worker.seen[0].json()["model"] == "m"
        _, listed = await gateway.get("/requests")
        assert (listed["requests"][0]["prompt_tokens"], listed["requests"][0]["completion_tokens"]) == (7, 2)


@pytest.mark.parametrize(
    "fields",
    [{"store": True}, {"store": None}, {"model": "auto"}, {"previous_response_id": "resp_" + "a" * 32}],
)
async def test_what_the_gateway_keeps_or_chooses_is_answered_by_a_chat_completion(fields: dict) -> None:
    async with surface_worker(PATH, CHAT, answers=ANSWERS) as worker, running_gateway(worker.url) as gateway:
        asked = {name: value for name, value in (ASKED | fields).items() if value is not None}
        asked.pop("odd")
        status, told, _ = await gateway.post(PATH, asked)
        assert status == (400 if "previous_response_id" in fields else 200), told
        assert all(target == CHAT for _, target in worker.calls)


async def test_a_worker_without_it_answers_by_a_chat_completion() -> None:
    async with surface_worker(CHAT, answers=ANSWERS) as worker, running_gateway(worker.url) as gateway:
        asked = {"model": "m", "input": "hello", "store": False}
        status, told, _ = await gateway.post(PATH, asked)
        assert (status, told["output"][0]["content"][0]["text"]) == (200, "hi")
        assert worker.calls == [("POST", CHAT)]


async def test_without_chats_everything_goes_to_a_worker_that_has_it() -> None:
    async with surface_worker(PATH, answers=ANSWERS) as worker:
        async with running_gateway(worker.url, chat={"enabled": False}) as gateway:
            assert (await gateway.post(PATH, {"model": "m", "input": "hello"}))[1] == ANSWER
            status, told, _ = await gateway.post(PATH, {"model": "m", "input": 5})
            assert (status, told["error"]["param"]) == (400, "input")
    async with surface_worker(CHAT, answers=ANSWERS) as worker:
        async with running_gateway(worker.url, chat={"enabled": False}) as gateway:
            assert (await gateway.post(PATH, ASKED))[1]["error"]["code"] == "chats_disabled"


async def test_a_guard_has_it_translated(monkeypatch) -> None:
    async with surface_worker(PATH, CHAT, answers=ANSWERS) as worker:
        async with guarded(monkeypatch, worker.url, guard={"jailbreak": {"action": "block"}}) as gateway:
            asked = {"model": "m", "input": "hello", "store": False}
            assert (await gateway.post(PATH, asked))[0] == 200
            assert worker.calls == [("POST", CHAT)]


async def test_a_failed_worker_is_left_for_another_that_has_it() -> None:
    async with surface_worker(PATH, answers=ANSWERS) as one, surface_worker(PATH, answers=ANSWERS) as two:
        async with running_gateway(one.url, two.url) as gateway:
            one.failures = two.failures = 1
            assert (await gateway.post(PATH, ASKED))[0] == 200
            assert len(one.seen) + len(two.seen) == 3


def count(request: web.Request, body: bytes) -> web.Response:
    return web.json_response({"object": "response.input_tokens", "input_tokens": 12})


def tokenize(request: web.Request, body: bytes) -> web.Response:
    messages = json.loads(body)["messages"]
    return web.json_response({"count": len(messages), "tokens": [1] * len(messages), "max_model_len": 99})


def sdk(url: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


@pytest.mark.parametrize("chats", [True, False])
async def test_tokens_are_counted_by_a_worker_that_does_else_by_the_prompt(chats: bool) -> None:
    more = {"chat": {"enabled": chats}}
    asked = {"model": "default", "instructions": "Be short.", "input": "hello"}
    async with surface_worker(COUNT, answers={COUNT: count}) as worker:
        async with running_gateway(worker.url, **more) as gateway:
            assert (await sdk(gateway.url).responses.input_tokens.count(**asked)).input_tokens == 12
            assert (worker.calls, worker.seen[0].json()["model"]) == ([("POST", COUNT)], "m")
    async with surface_worker(CHAT, "/tokenize", answers={"/tokenize": tokenize}, tokenizes=True) as worker:
        async with running_gateway(worker.url, **more) as gateway:
            counted = await sdk(gateway.url).responses.input_tokens.count(**asked)
            assert (counted.object, counted.input_tokens) == ("response.input_tokens", 2)
            assert worker.calls == [("POST", "/tokenize")]
            status, told, _ = await gateway.post(COUNT, asked | {"previous_response_id": "resp_1"})
            assert (status, told["error"]["param"]) == (400, "previous_response_id")
    async with surface_worker(CHAT) as worker, running_gateway(worker.url, **more) as gateway:
        assert (await gateway.post(COUNT, asked))[0] == 501
        status, told, _ = await gateway.post(COUNT, asked | {"model": "unknown"})
        assert (status, told["error"]["param"]) == (404, "model")
        status, told, _ = await gateway.post(COUNT, asked | {"tools": [{"type": "nothing"}]})
        assert (status, told["error"]["param"]) == (400, "tools[0].type")


async def test_the_tokens_of_what_was_said_before_are_counted_too() -> None:
    answers = ANSWERS | {"/tokenize": tokenize}
    async with surface_worker(CHAT, "/tokenize", answers=answers, tokenizes=True) as worker:
        async with running_gateway(worker.url) as gateway:
            client = sdk(gateway.url)
            first = await client.responses.create(model="m", input="hello")
            asked = {"model": "default", "input": "and then?"}
            counted = await client.responses.input_tokens.count(**asked, previous_response_id=first.id)
            assert counted.input_tokens == 3
            conversation = await client.conversations.create(items=[{"role": "user", "content": "hello"}])
            counted = await client.responses.input_tokens.count(**asked, conversation=conversation.id)
            assert counted.input_tokens == 2
            with pytest.raises(openai.BadRequestError) as refused:
                await client.responses.input_tokens.count(**asked, previous_response_id="resp_none")
            assert refused.value.param == "previous_response_id"


async def test_a_tenant_counts_the_tokens_of_its_own_models_alone() -> None:
    tenants = {"acme": {"keys": [{"key": "acme-key"}], "models": ["other"]}}
    async with surface_worker(CHAT, tokenizes=True) as worker:
        async with running_gateway(worker.url, tenants=tenants) as gateway:
            asked = {"model": "m", "input": "hello"}
            status, _, _ = await gateway.post(COUNT, asked, headers={"authorization": "Bearer acme-key"})
            assert (status, worker.seen) == (404, [])
            assert (await gateway.post(COUNT, asked))[0] == 401
