"""Hosted models as workers: real clients in front, providers that refuse what the real ones refuse behind."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import anthropic
import openai
import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from openai.types import CreateEmbeddingResponse
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from radixway.core.http.server_sent_events import iterate_data, write_event
from radixway.routing import WorkerState
from support.hosted_gateway import ASK, client, explain, fronted
from support.hosted_providers import KEY, PNG, error_body, hosted_provider
from support.hosted_shapes import (
    SIGNATURE,
    anthropic_events,
    bedrock_events,
    gemini_replies,
    write_frame,
)
from support.running_gateway import RunningGateway, running_gateway

CONVERTED = ["anthropic", "gemini", "bedrock"]
EVERY = [*CONVERTED, "openai", "azure", "openai-compatible"]
PROVIDERS = pytest.mark.parametrize("kind", EVERY)
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Says the weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


STREAMS = {
    "anthropic": lambda scene: [write_event(json.dumps(each).encode()) for each in anthropic_events(scene)],
    "gemini": lambda scene: [write_event(json.dumps(each).encode()) for each in gemini_replies(scene)],
    "bedrock": lambda scene: [write_frame(*each) for each in bedrock_events(scene)],
}


async def stream_events(gateway: RunningGateway, **fields: Any) -> list[dict[str, Any]]:
    """The events of a stream, each as the SDK's own type takes it."""
    body = {**ASK, "stream": True, **fields}
    async with gateway.client.post(gateway.url + "/v1/chat/completions", json=body) as response:
        raw = await response.read()
        assert response.status == 200, raw
    assert raw.endswith(b"data: [DONE]\n\n")
    events = [json.loads(data) for data in iterate_data(raw)]
    for event in events:
        ChatCompletionChunk.model_validate(event)
    return events


@PROVIDERS
async def test_a_whole_answer_is_a_chat_completion(kind):
    async with fronted(kind) as (_, gateway):
        status, answer, _ = await gateway.chat(max_tokens=50, temperature=0.5, stop=["END"])
        assert status == 200, answer
        told = ChatCompletion.model_validate(answer)
        assert told.choices[0].message.content == "Hello there"
        assert (told.choices[0].finish_reason, told.usage.completion_tokens) == ("stop", 5)
        assert (told.usage.prompt_tokens, told.usage.prompt_tokens_details.cached_tokens) == (129, 100)
        assert KEY not in json.dumps(answer)


async def test_each_provider_is_asked_at_its_own_address():
    paths = {
        "openai": "/v1/chat/completions",
        "openai-compatible": "/v1/chat/completions",
        "azure": "/openai/deployments/azure-model/chat/completions?api-version=2024-10-21",
        "anthropic": "/v1/messages",
        "gemini": "/models/gemini-model:generateContent",
        "bedrock": "/model/bedrock-model/converse",
    }
    for kind, path in paths.items():
        async with fronted(kind) as (provider, gateway):
            assert (await gateway.chat())[0] == 200
            assert provider.paths == [path]
            assert "traceparent" not in provider.headers[0]


@PROVIDERS
async def test_a_stream_is_one_of_chat_completions(kind):
    async with fronted(kind) as (_, gateway):
        events = await stream_events(gateway)
        deltas = [event["choices"][0]["delta"] for event in events]
        assert "".join(delta.get("content") or "" for delta in deltas) == "Hello there"
        assert events[-1]["choices"][0]["finish_reason"] == "stop"
        assert all(event.get("usage") is None for event in events)
        with_usage = await stream_events(gateway, stream_options={"include_usage": True})
        assert with_usage[-1]["choices"] == []
        assert with_usage[-1]["usage"]["prompt_tokens"] == 129


@PROVIDERS
async def test_tools_are_called_in_parallel_and_answered(kind):
    async with fronted(kind) as (provider, gateway):
        provider.scene.text = ""
        provider.scene.calls = [("weather", {"city": "Oslo"}), ("weather", {"city": "Rom"})]
        fields = {"tools": [WEATHER], "tool_choice": "auto"}
        whole = ChatCompletion.model_validate((await gateway.chat(**fields))[1]).choices[0]
        events = await stream_events(gateway, **fields)
        told: dict[int, dict[str, Any]] = {}
        for event in events:
            for call in event["choices"][0]["delta"].get("tool_calls", ()):
                known = told.setdefault(call["index"], {"id": call.get("id"), "arguments": ""})
                known["arguments"] += call["function"].get("arguments") or ""
        assert [json.loads(call["arguments"])["city"] for call in told.values()] == ["Oslo", "Rom"]
        assert events[-1]["choices"][0]["finish_reason"] == whole.finish_reason == "tool_calls"
        calls = whole.message.tool_calls
        assert [json.loads(call.function.arguments)["city"] for call in calls] == ["Oslo", "Rom"]
        answer = whole.message.model_dump(exclude_none=True)
        results = [{"role": "tool", "tool_call_id": call.id, "content": "rain"} for call in calls]
        provider.scene.calls, provider.scene.text = [], "Rain."
        turns = [*ASK["messages"], answer, *results]
        status, reply, _ = await gateway.chat(messages=turns, **fields)
        assert status == 200, reply
        assert reply["choices"][0]["message"]["content"] == "Rain."


FORCED = {
    "anthropic": {"type": "tool", "name": "weather"},
    "gemini": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["weather"]}},
    "bedrock": {"tool": {"name": "weather"}},
}


@pytest.mark.parametrize("kind", CONVERTED)
async def test_a_tool_may_be_forced(kind):
    async with fronted(kind) as (provider, gateway):
        choice = {"type": "function", "function": {"name": "weather"}}
        assert (await gateway.chat(tools=[WEATHER], tool_choice=choice))[0] == 200
        body = provider.bodies[-1]
        where = {"anthropic": "tool_choice", "gemini": "toolConfig"}
        asked = body[where[kind]] if kind in where else body["toolConfig"]["toolChoice"]
        assert asked == FORCED[kind]


@pytest.mark.parametrize("kind", CONVERTED)
async def test_images_are_shown(kind):
    async with fronted(kind) as (provider, gateway):
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
        content = [{"type": "text", "text": "What is it?"}, image]
        assert (await gateway.chat(messages=[{"role": "user", "content": content}]))[0] == 200
        body = provider.bodies[-1]
        shown = (body.get("messages") or body["contents"])[0]
        assert PNG in json.dumps(shown.get("content") or shown["parts"])


@pytest.mark.parametrize("kind", CONVERTED)
async def test_thoughts_are_told_and_taken_back(kind):
    async with fronted(kind) as (provider, gateway):
        provider.scene.thinks, provider.scene.text = "Let me see", ""
        provider.scene.calls = [("weather", {"city": "Oslo"})]
        fields = {"tools": [WEATHER], "reasoning_effort": "low", "temperature": 0.2}
        status, answer, _ = await gateway.chat(**fields)
        assert status == 200, answer
        message = answer["choices"][0]["message"]
        assert message["reasoning_content"] == "Let me see"
        events = await stream_events(gateway, **fields)
        deltas = [event["choices"][0]["delta"] for event in events]
        assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "Let me see"
        assert SIGNATURE in json.dumps(deltas)
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "rain"}
        status, reply, _ = await gateway.chat(messages=[*ASK["messages"], message, result], **fields)
        assert status == 200, reply
        assert SIGNATURE in json.dumps(provider.bodies[-1])


async def test_a_converted_message_is_of_the_version_that_it_is_written_in():
    async with fronted("anthropic") as (_, gateway):
        headers = {"anthropic-version": "2026-10-21"}
        status, answer, _ = await gateway.post(
            "/v1/chat/completions", {**ASK, "temperature": 0.5}, headers=headers
        )
        assert status == 200, answer


@pytest.mark.parametrize(
    ("kind", "stop", "told"),
    [
        ("anthropic", "max_tokens", "length"),
        ("anthropic", "refusal", "content_filter"),
        ("gemini", "MAX_TOKENS", "length"),
        ("gemini", "SAFETY", "content_filter"),
        ("bedrock", "guardrail_intervened", "content_filter"),
        ("bedrock", "max_tokens", "length"),
    ],
)
async def test_why_an_answer_ends_is_told_in_openais_words(kind, stop, told):
    async with fronted(kind) as (provider, gateway):
        provider.scene.stop = stop
        assert (await gateway.chat())[1]["choices"][0]["finish_reason"] == told


@PROVIDERS
async def test_a_refusal_has_the_providers_status_in_openais_shape(kind):
    async with fronted(kind) as (provider, gateway):
        provider.scene.refusals = [
            (400, error_body(kind, 400, "prompt is too long", "invalid_request_error"), {})
        ]
        status, answer, _ = await gateway.chat()
        assert (status, answer["error"]["message"]) == (400, "prompt is too long")
        assert (await gateway.chat())[0] == 200


@PROVIDERS
async def test_a_wrong_key_takes_the_worker_out_and_says_why(kind):
    async with fronted(kind) as (provider, gateway):
        worker = next(iter(gateway.gateway.registry))
        told = error_body(kind, 401, f"invalid x-api-key {KEY}", "authentication_error")
        provider.scene.refusals = [(401, told, {})] * 5
        status, answer, _ = await gateway.chat()
        assert (status, answer["error"]["code"]) == (503, "provider_misconfigured")
        assert worker.state is WorkerState.DOWN
        listed = (await gateway.get("/workers"))[1]["workers"][0]
        assert listed["error_kind"] == "misconfigured"
        assert "invalid x-api-key" in listed["last_error"]
        assert KEY not in listed["last_error"] + json.dumps(answer)
        assert len(provider.bodies) == 1, "who refuses a key is left alone"


@pytest.mark.parametrize("kind", ["openai", "anthropic", "gemini", "bedrock"])
async def test_what_an_account_may_not_do_is_no_fault_of_the_key(kind):
    async with fronted(kind) as (provider, gateway):
        told = error_body(kind, 403, "You may not use this model", "permission_error")
        provider.scene.refusals = [(403, told, {})]
        status, answer, _ = await gateway.chat()
        assert (status, answer["error"]["message"]) == (403, "You may not use this model")
        assert (await gateway.chat())[0] == 200


PAGE = b"<html><body><h1>502 Bad Gateway</h1></body></html>"


@PROVIDERS
async def test_what_is_no_answer_of_an_api_is_an_error_in_openais_shape(kind):
    async with fronted(kind) as (provider, gateway):
        provider.scene.refusals = [(502, PAGE, {"content-type": "text/html"})] * 5
        status, answer, headers = await gateway.chat()
        assert (status, headers["content-type"]) == (502, "application/json")
        assert "502" in answer["error"]["message"]
        for told in (
            PAGE,
            b"[]",
            b"",
            b'{"choices": [',
            b'{"error": {"code": 503, "message": "Overloaded"}}',
        ):
            provider.scene.refusals = [(200, told, {"content-type": "application/json"})] * 5
            status, answer, headers = await gateway.chat()
            if kind in CONVERTED:
                assert (status >= 500, "error" in answer) == (True, True), told
                assert PAGE.decode() not in json.dumps(answer)
        assert gateway.in_flight() == 0


@PROVIDERS
async def test_an_error_in_place_of_an_answer_is_an_error(kind):
    async with fronted(kind) as (provider, gateway):
        for told in (
            {"error": {"code": 503, "message": f"Overloaded {KEY}", "metadata": KEY}, "user_id": "u"},
            {"type": "error", "error": {"type": "overloaded_error", "message": f"Overloaded {KEY}"}},
        ):
            provider.scene.refusals = [(200, told, {})] * 5
            status, answer, headers = await gateway.chat()
            assert (status >= 500, KEY in json.dumps(answer)) == (True, False), answer
            assert kind in ("anthropic", "bedrock") or "Overloaded" in answer["error"]["message"]
            assert KEY not in json.dumps(await explain(gateway, headers))
            as_json = {"content-type": "application/json"}
            provider.scene.refusals = [(200, json.dumps(told).encode(), as_json)] * 5
            assert (await gateway.chat(stream=True))[0] >= 500
        provider.scene.refusals = [(204, b"", {})] * 5
        assert (await gateway.chat())[0] == 502
        told = error_body(kind, 529, "Overloaded", "overloaded_error")
        provider.scene.refusals = [(529, told, {"retry-after": "7"})]
        status, _, headers = await gateway.chat()
        assert (status, headers["retry-after"]) == (529, "7")


@pytest.mark.parametrize("kind", CONVERTED)
async def test_a_stream_that_is_cut_ends_with_an_error(kind):
    async with fronted(kind) as (provider, gateway):
        provider.scene.thinks = "Let me see"
        events = STREAMS[kind](provider.scene)
        body = {**ASK, "stream": True}
        for cut in (b"".join(events[:-2]), b"".join(events[:-2]) + events[-2][:9], b"".join(events)[:-9]):
            provider.scene.refusals = [(200, cut, {"content-type": "text/event-stream"})] * 5
            async with gateway.client.post(gateway.url + "/v1/chat/completions", json=body) as response:
                raw = await response.read()
            if cut.endswith(events[-1][:-9]) and kind != "gemini":
                assert raw.endswith(b"data: [DONE]\n\n"), "its last event has usage alone"
            else:
                assert response.status == 502 or b'"code":"stream_broken"' in raw, raw
            assert gateway.in_flight() == 0


@pytest.mark.parametrize("kind", ["anthropic", "gemini"])
async def test_an_event_that_is_no_json_is_not_passed_over(kind):
    async with fronted(kind) as (provider, gateway):
        provider.scene.thinks = "Let me see"
        events = STREAMS[kind](provider.scene)
        broken = b"".join([*events[:-1], b'data: {"type": "content_block_del\n\n', events[-1]])
        provider.scene.refusals = [(200, broken, {"content-type": "text/event-stream"})] * 5
        status, _, _ = await gateway.chat(stream=True)
        assert status == 502, "all of it came at once, so nothing was said yet"


@PROVIDERS
async def test_characters_that_arrive_in_pieces_are_whole(kind):
    async with fronted(kind) as (provider, gateway):
        provider.scene.text = "Grüße \N{PARTY POPPER} \N{CJK UNIFIED IDEOGRAPH-4F60}"
        deltas = [event["choices"][0]["delta"] for event in await stream_events(gateway)]
        assert "".join(delta.get("content") or "" for delta in deltas) == provider.scene.text


@PROVIDERS
async def test_a_client_that_leaves_ends_the_providers_stream(kind):
    async with fronted(kind) as (provider, gateway):
        provider.scene.goes_on, provider.scene.calls = asyncio.Event(), [("weather", {})]
        body = {**ASK, "stream": True}
        async with gateway.client.post(gateway.url + "/v1/chat/completions", json=body) as response:
            assert b"Hello" in await response.content.readuntil(b"Hello")
            assert gateway.in_flight() == 1
        await asyncio.wait_for(provider.scene.left.wait(), 10)
        assert gateway.in_flight() == 0


async def test_a_key_that_is_not_there_is_told_without_a_call(monkeypatch):
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    async with hosted_provider("openai") as provider:
        entry = provider.worker(api_key_env="NO_SUCH_KEY")
        del entry["api_key"]
        async with running_gateway(workers=[entry]) as gateway:
            worker = next(iter(gateway.gateway.registry))
            await gateway.gateway.upstream.health.wait_first_probe(worker)
            assert (worker.error_kind, provider.bodies) == ("misconfigured", [])
            assert "NO_SUCH_KEY is not set" in worker.last_error
            assert (await gateway.chat())[0] == 503
            monkeypatch.setenv("NO_SUCH_KEY", KEY)
            await gateway.until(worker.url, WorkerState.READY)
            assert (await gateway.chat())[0] == 200


async def test_retry_after_is_respected_and_another_worker_asked():
    async with hosted_provider("openai") as first, hosted_provider("anthropic") as second:
        workers = [first.worker(), second.worker()]
        told = error_body("openai", 429, "Rate limit reached", "rate_limit_exceeded")
        first.scene.refusals = [(429, told, {"retry-after": "30"})] * 9
        refused = error_body("anthropic", 429, "Too many", "rate_limit_error")
        async with running_gateway(workers=workers, routing={"policy": "round_robin"}) as gateway:
            for worker in gateway.gateway.config.workers:
                await gateway.until(worker.url, WorkerState.READY)
            for _ in range(4):
                assert (await gateway.chat())[0] == 200
            assert len(first.bodies) == 1, "it is not asked again before its time"
            second.scene.refusals = [(429, refused, {"retry-after": "20"})]
            status, answer, headers = await gateway.chat()
            assert (status, answer["error"]["message"]) == (429, "Too many")
            status, answer, headers = await gateway.chat()
            assert (status, answer["error"]["code"]) == (429, "provider_rate_limited")
            assert 15 <= int(headers["retry-after"]) <= 20
            assert len(first.bodies) == 1


async def test_a_failing_provider_opens_the_breaker():
    breaker = {"least_requests": 2, "failure_share": 0.5, "open_s": 60}
    async with fronted("openai", routing={"breaker": breaker}) as (provider, gateway):
        told = error_body("openai", 500, "The server had an error", "server_error")
        provider.scene.refusals = [(500, told, {})] * 20
        status, answer, _ = await gateway.chat()
        assert (status, answer["error"]["message"]) == (500, "The server had an error")
        await gateway.chat()
        assert (await gateway.get("/workers"))[1]["workers"][0]["breaker"] == "open"


@pytest.mark.parametrize("kind", CONVERTED)
async def test_an_error_in_the_middle_of_a_stream_is_told_there(kind):
    async with fronted(kind) as (provider, gateway):
        name = "overloaded_error" if kind == "anthropic" else "throttlingException"
        told = f"Overloaded {KEY}"
        provider.scene.breaks_with = error_body(kind, 503, told, name) | {"type": "error"}
        if kind == "bedrock":
            provider.scene.breaks_with = {"type": "throttlingException", "message": told}
        body = {**ASK, "stream": True}
        with pytest.raises(openai.APIError, match=r"Overloaded \(the key\)"):
            async for _ in await client(gateway).chat.completions.create(**body):
                pass
        provider.scene.breaks_with, provider.scene.text = provider.scene.breaks_with, ""
        async with gateway.client.post(gateway.url + "/v1/chat/completions", json=body) as response:
            assert response.status >= 429, "nothing was said yet, so it is an error of its own"
            assert KEY not in await response.text()


@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [
        ("n", 2, "anthropic"),
        ("logprobs", True, "gemini"),
        ("stop", 5, "bedrock"),
        ("messages", [{"role": "robot", "content": "x"}], "anthropic"),
        ("tools", [{"type": "function"}], "gemini"),
        ("response_format", {"type": "xml"}, "anthropic"),
        ("max_tokens", "many", "gemini"),
    ],
)
async def test_what_a_provider_cannot_say_is_refused_by_its_field(field, value, kind):
    async with fronted(kind) as (provider, gateway):
        status, answer, _ = await gateway.chat(**{field: value})
        assert (status, answer["error"]["param"].partition("[")[0]) == (400, field)
        assert (provider.bodies, gateway.in_flight()) == ([], 0)


async def test_fields_of_engines_do_not_reach_openai():
    async with fronted("openai") as (provider, gateway):
        turn = {"role": "assistant", "content": "hi", "reasoning_content": "hm"}
        fields = {"top_k": 5, "cache_salt": "secret", "max_tokens": 7, "chat_template_kwargs": {"a": 1}}
        status, answer, _ = await gateway.chat(messages=[*ASK["messages"], turn, *ASK["messages"]], **fields)
        assert status == 200, answer
        assert provider.bodies[-1]["max_completion_tokens"] == 7
        assert "secret" not in json.dumps(provider.bodies[-1])


async def test_a_json_schema_reaches_each_provider():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    for kind in CONVERTED:
        async with fronted(kind) as (provider, gateway):
            assert (await gateway.chat(response_format=form))[0] == 200
            assert "integer" in json.dumps(provider.bodies[-1])


@PROVIDERS
async def test_real_clients_read_the_answers(kind):
    async with fronted(kind) as (_, gateway):
        chat = client(gateway).chat.completions
        assert (await chat.create(**ASK)).choices[0].message.content == "Hello there"
        async with chat.stream(**ASK) as stream:
            final = await stream.get_final_completion()
        assert final.choices[0].message.content == "Hello there"
        messages = anthropic.AsyncAnthropic(base_url=gateway.url, api_key="none", max_retries=0).messages
        asked = {"model": "m", "max_tokens": 9, "messages": ASK["messages"]}
        assert (await messages.create(**asked)).content[0].text == "Hello there"
        async with messages.stream(**asked) as events:
            assert "".join([text async for text in events.text_stream]) == "Hello there"


@pytest.mark.parametrize("kind", CONVERTED)
async def test_langchains_agents_call_tools_of_hosted_models(kind):
    """Both drop what a provider has signed: Gemini must take their calls all the same."""

    def weather(city: str) -> str:
        """Say the weather."""
        return f"rain in {city}"

    async with fronted(kind) as (provider, gateway):
        asked = {"model": "m", "api_key": "none", "max_retries": 0}
        for model in (
            ChatOpenAI(base_url=f"{gateway.url}/v1", **asked),
            ChatAnthropic(base_url=gateway.url, **asked),
        ):
            provider.scene.calls, provider.scene.text = [("weather", {"city": "Oslo"})], ""
            able = model.bind_tools([weather])
            turns = [HumanMessage("How is it in Oslo?")]
            called = await able.ainvoke(turns)
            assert [call["args"] for call in called.tool_calls] == [{"city": "Oslo"}]
            result = ToolMessage(weather("Oslo"), tool_call_id=called.tool_calls[0]["id"])
            provider.scene.calls, provider.scene.text = [], "Rain."
            chunks = [chunk.text async for chunk in able.astream([*turns, called, result])]
            assert "".join(chunks) == "Rain."


async def test_anthropics_own_surface_passes_as_it_is():
    async with fronted("anthropic") as (provider, gateway):
        messages = anthropic.AsyncAnthropic(base_url=gateway.url, api_key="none", max_retries=0).messages
        asked = {"model": "m", "messages": ASK["messages"]}
        assert (await messages.count_tokens(**asked)).input_tokens == 129
        provider.scene.thinks = "hm"
        thinking = {"type": "enabled", "budget_tokens": 1024}
        answer = await messages.create(max_tokens=2000, thinking=thinking, **asked)
        assert answer.content[0].signature == SIGNATURE
        assert provider.paths == ["/v1/messages/count_tokens", "/v1/messages"]
        assert provider.bodies[-1]["model"] == "anthropic-model"
        with pytest.raises(anthropic.BadRequestError, match="budget_tokens"):
            await messages.create(max_tokens=9, thinking=thinking, **asked)
        provider.scene.refusals = [(502, PAGE, {"content-type": "text/html"})] * 5
        with pytest.raises(anthropic.InternalServerError) as failed:
            await messages.create(max_tokens=9, **asked)
        assert (failed.value.body["type"], failed.value.body["error"]["type"]) == ("error", "api_error")


async def test_openai_counts_the_tokens_of_a_response():
    async with fronted("openai") as (provider, gateway):
        counted = await client(gateway).responses.input_tokens.count(model="m", input="hello")
        assert counted.input_tokens == 129
        assert provider.bodies == [{"model": "openai-model", "input": "hello"}]
    async with fronted("azure") as (provider, gateway):
        with pytest.raises(openai.APIStatusError) as refused:
            await client(gateway).responses.input_tokens.count(model="m", input="hello")
        assert (refused.value.status_code, refused.value.code) == (501, "tokenizer_missing")
        assert provider.bodies == []


@pytest.mark.parametrize("kind", CONVERTED)
async def test_providers_count_the_tokens_of_their_models(kind):
    """`forbid` also has the guard read them, which keeps Anthropic's own surface from passing as it is."""
    guard = {"pii": {"hosted": "forbid"}, "audit": {"enabled": False}}
    async with fronted(kind, guard=guard) as (provider, gateway):
        counted = await client(gateway).responses.input_tokens.count(
            model="m", input="hello", instructions="Be brief"
        )
        assert counted.input_tokens == 129
        messages = anthropic.AsyncAnthropic(base_url=gateway.url, api_key="none", max_retries=0).messages
        tool = {"name": "weather", "input_schema": {"type": "object", "properties": {}}}
        asked = {"model": "m", "system": "Be brief", "tools": [tool]}
        assert (await messages.count_tokens(messages=ASK["messages"], **asked)).input_tokens == 129
        assert len(provider.bodies) == 2
        mail = [{"role": "user", "content": "Write to anna.lind@example.org please"}]
        with pytest.raises(anthropic.PermissionDeniedError):
            await messages.count_tokens(messages=mail, **asked)
        assert len(provider.bodies) == 2
        provider.scene.refusals = [(200, {"total": 5}, {}), (200, PAGE, {})] * 5
        with pytest.raises(anthropic.InternalServerError):
            await messages.count_tokens(messages=ASK["messages"], **asked)


EMBEDDING_MODELS = {
    "gemini-embedding-001": "gemini",
    "amazon.titan-embed-text-v2:0": "bedrock",
    "eu.cohere.embed-v4:0": "bedrock",
}


@pytest.mark.parametrize("model", EMBEDDING_MODELS)
async def test_embeddings_of_every_provider_are_openais(model):
    async with fronted(EMBEDDING_MODELS[model], worker={"models": {"m": model}}) as (provider, gateway):
        texts = ["hello there"] if "titan" in model else ["hello", "there"]
        for given in (texts, texts[0]):
            told = await client(gateway).embeddings.create(model="m", input=given, dimensions=256)
            expected = [[0.5, at] for at in range(len(texts) if given is texts else 1)]
            assert [each.embedding for each in told.data] == expected, "the client asks for base64"
            assert told.usage.prompt_tokens == (7 if "gemini" not in model else -(-len("".join(given)) // 4))
        plain = {"model": "m", "input": texts, "encoding_format": "float"}
        assert (await gateway.post("/v1/embeddings", plain))[1]["data"][0]["embedding"] == [0.5, 0]
        assert "256" in json.dumps(provider.bodies[0])
        sent = len(provider.bodies)
        for given in ([1, 2], [[1, 2]], [{"text": "x"}], *([["a", "b"]] if "titan" in model else [])):
            status, answer, _ = await gateway.post("/v1/embeddings", {"model": "m", "input": given})
            assert (status, answer["error"]["param"]) == (400, "input"), given
        assert len(provider.bodies) == sent
        asked = {"model": "m", "input": texts, "encoding_format": "base64"}
        odd = [
            {"embeddings": [{"values": vector}] * len(texts), "embedding": vector}
            for vector in ([1e300], "x", None, [], [[1]])
        ]
        short = {"embeddings": [], "error": {"message": "x", "code": 500}}
        for told in (PAGE, b"[]", b"5", b"null", b'{"embeddings": {"float": 5}}', *odd, short):
            provider.scene.refusals = [(200, told, {})] * 5
            status, answer, _ = await gateway.post("/v1/embeddings", asked)
            assert (status, "error" in answer) == (502, True), told


async def test_models_of_bedrock_without_embeddings_are_refused_by_name():
    async with fronted("bedrock") as (provider, gateway):
        status, answer, _ = await gateway.post("/v1/embeddings", {"model": "m", "input": "x"})
        assert (status, answer["error"]["param"], provider.bodies) == (400, "model", [])
    async with fronted("anthropic") as (provider, gateway):
        status, answer, _ = await gateway.post("/v1/embeddings", {"model": "m", "input": "x"})
        assert (status, answer["error"]["param"], provider.bodies) == (400, "model", [])


async def test_embeddings_pass_and_other_paths_are_refused_by_name():
    async with fronted("openai") as (provider, gateway):
        status, answer, _ = await gateway.post("/v1/embeddings", {"model": "m", "input": "x"})
        assert status == 200
        CreateEmbeddingResponse.model_validate(answer)
        status, answer, _ = await gateway.post("/generate", {"model": "m", "text": "x"})
        assert (status, answer["error"]["param"]) == (400, "model")
        assert len(provider.bodies) == 1


async def test_the_key_is_nowhere_to_be_read():
    async with fronted("openai") as (provider, gateway):
        _, _, headers = await gateway.chat()
        shown = [await explain(gateway, headers)]
        for path in ("/workers", "/list_workers", "/health", "/get_loads"):
            shown.append((await gateway.get(path))[1])
        assert KEY not in json.dumps(shown)
        assert KEY not in repr(gateway.gateway.config) + str(gateway.gateway.config.model_dump(mode="json"))
        assert len(provider.bodies) == 1, "no health check, no question costs money"


async def test_a_stream_of_bedrock_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "botocore.eventstream", None)
    async with fronted("bedrock") as (provider, gateway):
        status, answer, _ = await gateway.chat(stream=True)
        assert (status, provider.bodies, gateway.in_flight()) == (501, [], 0)
        assert "radixway[hosted]" in answer["error"]["message"]


async def test_a_role_that_aws_does_not_give_takes_the_worker_out(monkeypatch, tmp_path):
    path = tmp_path / "config"
    path.write_text(
        "[profile base]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = of-a-secret\n"
        "[profile gateway]\nrole_arn = arn:aws:iam::123456789012:role/x\nsource_profile = base\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(path))
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
    more = {"api_key": None, "profile": "gateway"}
    async with fronted("bedrock", worker=more) as (provider, gateway):
        status, answer, _ = await gateway.chat()
        assert (status, answer["error"]["code"]) == (503, "provider_misconfigured")
        listed = (await gateway.get("/workers"))[1]["workers"][0]
        assert "AWS's credentials" in listed["last_error"]
        assert (provider.bodies, gateway.in_flight()) == ([], 0)


async def test_bedrock_is_signed_where_it_has_no_key(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-a-secret")
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
    async with hosted_provider("bedrock") as provider:
        entry = provider.worker(models={"m": "eu.anthropic.claude-x:0"})
        del entry["api_key"]
        async with running_gateway(workers=[entry]) as gateway:
            await gateway.until(provider.url, WorkerState.READY)
            assert (await gateway.chat())[0] == 200
        assert "/eu-west-1/bedrock/aws4_request" in provider.headers[0]["Authorization"]
        assert provider.paths == ["/model/eu.anthropic.claude-x%3A0/converse"]
