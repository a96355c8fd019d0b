"""The semantic cache on the wire: what is answered from it, what never is, and how an answer goes away."""

from __future__ import annotations

import asyncio
import json

import openai
import pytest

from support.milvus_process import milvus_process
from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

ON = {"enabled": True}
NUMPY = {"backend": "numpy"}
LITERAL = "法国的首都是哪里？"
CAPITAL, SAME, OTHER = (
    "What is the capital of France?",
    "What's the capital city of France?",
    "What is the capital of Germany?",
)


def completion(text="Paris.", finish="stop", **message):
    return {
        "id": "chatcmpl-worker",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, **message},
                "finish_reason": finish,
            }
        ],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
        "odd": 1e-5,
    }


def events(text="Paris.", finish="stop", done=True):
    head = {"id": "chatcmpl-worker", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    deltas = [{"role": "assistant", "content": ""}, *({"content": piece} for piece in text.split("|"))]
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    told = [json.dumps(head | {"choices": [choice]}).encode() for choice in choices]
    return [b"data: " + data + b"\n\n" for data in (*told, *([b"[DONE]"] if done else ()))]


def answers(*replies, status=200):
    """A worker's behaviour: these bodies in turn, the last one again and again; a list is a stream."""
    left = list(replies)

    async def answer(exchange):
        reply = left.pop(0) if len(left) > 1 else left[0]
        if exchange.json().get("stream"):
            await exchange.begin_stream()
            for event in events() if isinstance(reply, dict) else reply:
                await exchange.chunk(event)
            await exchange.end_stream()
        else:
            await exchange.reply(status, json.dumps(reply).encode())

    return answer


class Asking:
    def __init__(self, gateway, worker):
        self.gateway, self.worker = gateway, worker

    async def ask(self, question=LITERAL, headers=None, **fields):
        """The reply's body, and whether it came from the cache."""
        given = {"model": "m", "messages": [{"role": "user", "content": question}], "temperature": 0} | fields
        path = "/v1/completions" if "prompt" in fields else "/v1/chat/completions"
        if "prompt" in fields:
            del given["messages"]
        async with self.gateway.client.post(
            self.gateway.url + path, json=given, headers=headers or {}
        ) as response:
            body, hit = await response.read(), response.headers.get("x-vsr-cache-hit")
            self.headers, self.status = response.headers, response.status
        await self.gateway.gateway.cache.middleware.wait_for_writes()
        assert hit in (None, "true")
        return body, hit is not None

    async def hits(self, *questions, **fields):
        return [(await self.ask(question, **fields))[1] for question in questions]

    async def explained(self):
        _, told = await self.gateway.get("/explain/" + self.headers["x-request-id"])
        return {step["step"]: step for step in told["steps"]}


class cached:  # noqa: N801 - reads as what it is: `async with cached(…) as asking`
    def __init__(self, behaviour=None, **section):
        self._behaviour, self._section = behaviour or answers(completion()), section

    async def __aenter__(self):
        self._worker = scripted_worker(self._behaviour)
        worker = await self._worker.__aenter__()
        self._gateway = running_gateway(worker.url, semantic_cache=ON | self._section, encoders=NUMPY)
        return Asking(await self._gateway.__aenter__(), worker)

    async def __aexit__(self, *error):
        await self._gateway.__aexit__(*error)
        await self._worker.__aexit__(*error)


async def test_a_repeat_and_a_paraphrase_are_answered_and_another_question_is_not():
    async with cached() as asking:
        assert await asking.hits(CAPITAL, CAPITAL, SAME, OTHER) == [False, True, True, False]
        assert len(asking.worker.requests) == 2


async def test_chinese_questions_are_compared_by_their_characters():
    async with cached() as asking:
        questions = ("法国的首都是哪里？", "什么是法国的首都？", "德国的首都是哪里？")
        assert await asking.hits(*questions) == [False, True, False]


async def test_an_answer_has_an_id_and_a_time_of_its_own_and_is_otherwise_as_it_was():
    async with cached() as asking:
        await asking.ask()
        one, two = [json.loads((await asking.ask())[0]) for _ in range(2)]
        assert one["id"] != two["id"] and one["id"].startswith("chatcmpl-") and one["created"] > 1
        same = {"id", "created"}
        assert {k: v for k, v in one.items() if k not in same} == {
            k: v for k, v in completion().items() if k not in same
        }
        assert asking.headers["x-radixway-worker"] == "semantic-cache"


@pytest.mark.parametrize(("kept_as", "given_as"), [(True, True), (True, False), (False, True)])
async def test_streams_and_whole_answers_stand_for_each_other(kept_as, given_as):
    text = "Paris|, on the| Seine."
    async with cached(answers(events(text) if kept_as else completion(text.replace("|", "")))) as asking:
        await asking.ask(stream=kept_as)
        client = openai.AsyncOpenAI(base_url=asking.gateway.url + "/v1", api_key="none")
        given = {"model": "m", "messages": [{"role": "user", "content": LITERAL}], "temperature": 0}
        if given_as:
            stream = await client.chat.completions.create(**given, stream=True)
            chunks = [chunk async for chunk in stream]
            assert len({chunk.id for chunk in chunks}) == 1 and chunks[0].id != "chatcmpl-worker"
            assert chunks[0].choices[0].delta.role == "assistant"
            assert chunks[-1].choices[0].finish_reason == "stop"
            said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        else:
            reply = await client.chat.completions.create(**given)
            said = reply.choices[0].message.content
        assert said == "Paris, on the Seine."
        assert len(asking.worker.requests) == 1


async def test_usage_comes_last_in_a_stream_that_asks_for_it():
    async with cached() as asking:
        await asking.ask()
        raw, hit = await asking.ask(stream=True, stream_options={"include_usage": True})
        chunks = [json.loads(line[6:]) for line in raw.decode().splitlines() if line.startswith("data: {")]
        assert hit and chunks[-1]["usage"]["total_tokens"] == 7 and chunks[-1]["choices"] == []
        assert raw.endswith(b"data: [DONE]\n\n")


async def test_completions_are_cached_too():
    reply = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m"}
    reply["choices"] = [{"index": 0, "text": " upon a time", "finish_reason": "stop"}]
    async with cached(answers(reply)) as asking:
        assert [(await asking.ask(prompt="Once"))[1] for _ in range(2)] == [False, True]
        raw, hit = await asking.ask(prompt="Once", stream=True)
        assert hit and b'"text":" upon a time"' in raw
        assert not (await asking.ask("Once"))[1], "a chat is another surface"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (completion(finish="length"), "finish_length"),
        (completion(finish="content_filter"), "finish_content_filter"),
        (completion("", finish="tool_calls", tool_calls=[{"id": "1"}]), "finish_tool_calls"),
        (completion(tool_calls=[{"id": "1"}]), "more_than_text"),
        (completion(refusal="No."), "more_than_text"),
        (completion(""), "empty"),
        (completion(None), "empty"),
        ({"choices": []}, "not_one_answer"),
        ({"choices": [3]}, "not_one_answer"),
        ({"error": {"message": "x"}}, "not_one_answer"),
        ([1], "not_json"),
        (completion("long" * 1000), "too_large"),
    ],
)
async def test_an_answer_that_is_not_whole_and_successful_is_not_kept(reply, reason):
    async with cached(answers(reply), largest_answer_bytes=2048) as asking:
        assert await asking.hits(LITERAL, LITERAL) == [False, False]
        assert (await asking.explained())["semantic_cache_keep"]["reason"] == reason


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (events(done=False), "unfinished"),
        (events(finish="length"), "finish_length"),
        ([*events(done=False), b'data: {"error": {"message": "x"}}\n\n', b"data: [DONE]\n\n"], "failed"),
        ([b"data: nonsense\n\n", b"data: [DONE]\n\n"], "not_json"),
        ([b"data: [1]\n\n", b"data: [DONE]\n\n"], "not_json"),
    ],
)
async def test_a_stream_that_is_not_whole_and_successful_is_not_kept(told, reason):
    async with cached(answers(told)) as asking:
        assert await asking.hits(LITERAL, LITERAL, stream=True) == [False, False]
        assert (await asking.explained())["semantic_cache_keep"]["reason"] == reason


async def test_an_error_of_the_worker_is_not_kept():
    async with cached(answers(completion(), status=400)) as asking:
        assert await asking.hits(LITERAL, LITERAL) == [False, False]


async def test_a_stream_whose_client_leaves_is_not_kept():
    gone = asyncio.Event()

    async def half(exchange):
        await exchange.begin_stream()
        await exchange.chunk(events()[1])
        await exchange.until_peer_leaves()
        gone.set()

    async with cached(half) as asking:
        body = {"model": "m", "messages": [{"role": "user", "content": LITERAL}], "stream": True}
        async with asking.gateway.client.post(
            asking.gateway.url + "/v1/chat/completions", json=body
        ) as response:
            await response.content.readany()
            response.close()
        await asyncio.wait_for(gone.wait(), 10)
        await asking.gateway.gateway.cache.middleware.wait_for_writes()
        assert len(asking.gateway.gateway.cache.memory) == 0


async def test_a_stream_reaches_the_client_while_it_is_overheard():
    go = asyncio.Event()

    async def slow(exchange):
        first, *rest = events()
        await exchange.begin_stream()
        await exchange.chunk(first)
        await go.wait()
        for event in rest:
            await exchange.chunk(event)
        await exchange.end_stream()

    async with cached(slow) as asking:
        body = {"model": "m", "messages": [{"role": "user", "content": LITERAL}], "stream": True}
        async with asking.gateway.client.post(
            asking.gateway.url + "/v1/chat/completions", json=body
        ) as response:
            assert await asyncio.wait_for(response.content.readany(), 10)
            go.set()
            assert (await response.read()).endswith(b"[DONE]\n\n")


async def test_clients_say_what_they_allow():
    async with cached(answers(completion("one"), completion("two"), completion("three"))) as asking:
        assert not (await asking.ask(headers={"cache-control": "no-store"}))[1]
        assert await asking.hits(LITERAL, LITERAL) == [False, True]
        fresh, hit = await asking.ask(headers={"x-vsr-cache-control": "no-cache"})
        assert not hit and json.loads(fresh)["choices"][0]["message"]["content"] == "three"
        kept, hit = await asking.ask()
        assert hit and json.loads(kept)["choices"][0]["message"]["content"] == "three", "no-cache refreshes"
        assert (await asking.ask(headers={"cache-control": "max-age=3600"}))[1]
        assert not (await asking.ask(headers={"cache-control": "max-age=0"}))[1]
        assert "x-vsr-cache-control" not in asking.worker.requests[-1].headers


async def test_users_and_conversations_have_their_own():
    async with cached() as asking:
        assert await asking.hits(LITERAL, LITERAL, user="u") == [False, True]
        assert await asking.hits(LITERAL, user="v") == [False]
        before = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
        later = [*before, {"role": "user", "content": LITERAL}]
        assert [(await asking.ask(messages=later))[1] for _ in range(2)] == [False, True]
        assert not (await asking.ask(messages=[{"role": "system", "content": "Be brief."}, later[-1]]))[1]


async def test_a_request_that_holds_personal_data_is_neither_looked_up_nor_kept():
    class Guard:
        async def __call__(self, request, call_next):
            if b"secret" in request.raw:
                request.cache.bypass_reason = "pii"
            return await call_next(request)

    async with cached() as asking:
        cache = asking.gateway.gateway.cache.middleware
        from radixway.core.pipeline import CHAT_COMPLETIONS, Reply, Request
        from radixway.core.telemetry import Journal

        async def answer(request):
            return Reply(200, [], "w", json.dumps(completion()).encode())

        async def through(text):
            raw = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
            request = Request("1", CHAT_COMPLETIONS, "/", Journal("1"), raw=raw)
            reply = await Guard()(request, lambda r: cache(r, answer))
            await cache.wait_for_writes()
            return (b"x-vsr-cache-hit", b"true") in reply.headers

        assert [await through("a secret") for _ in range(2)] == [False, False]
        assert [await through("no such thing") for _ in range(2)] == [False, True]
        _, stats = await asking.gateway.get("/cache/stats")
        assert stats["counts"]["passed_pii"] == 2 and stats["entries"] == 1


async def test_a_false_hit_is_reported_and_never_comes_again():
    async with cached() as asking:
        assert await asking.hits(CAPITAL, SAME) == [False, True]
        entry = (await asking.explained())["semantic_cache"]["entry"]
        body = {"request_id": asking.headers["x-request-id"]}
        status, told, _ = await asking.gateway.post("/cache/report", body)
        assert status == 200 and told == {"entry": entry, "removed": True}
        assert await asking.hits(SAME, CAPITAL, SAME) == [False, False, True], "told apart, kept separately"


async def test_entries_are_purged_by_what_is_known_of_them():
    async with cached() as asking:
        for field, value in (("user", "u"), ("model", "m"), ("tenant", "default"), ("query", LITERAL)):
            assert await asking.hits(LITERAL, LITERAL, user="u") == [False, True]
            status, told, _ = await asking.gateway.post("/cache/purge", {field: value})
            assert (status, told["removed"]) == (200, 1), field
        await asking.ask()
        _, told, _ = await asking.gateway.post("/cache/purge", {"user": "nobody"})
        assert told["removed"] == 0
        _, told, _ = await asking.gateway.post("/api/v1/response-cache/flush", {})
        assert told["removed"] == 1


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/cache/purge", {}, "all"),
        ("/cache/purge", {"user": 3}, "user"),
        ("/cache/report", {}, "request_id"),
        ("/cache/compare", {"one": "a"}, "other"),
        ("/cache/warm-up", {"entries": [{"question": "q"}]}, "entries.0"),
        ("/cache/warm-up", {"entries": []}, "entries"),
    ],
)
async def test_a_bad_call_is_told_its_field(path, body, field):
    async with cached() as asking:
        status, told, _ = await asking.gateway.post(path, body)
        assert (status, told["error"]["param"]) == (400, field)
        status, told, _ = await asking.gateway.post("/cache/report", {"request_id": "nobody's"})
        assert (status, told["error"]["code"]) == (404, "cache_entry_not_found")


async def test_answers_known_before_are_there_from_the_start_and_survive_a_restart(tmp_path):
    known, kept = tmp_path / "known.jsonl", tmp_path / "state" / "cache"
    known.write_text(json.dumps({"model": "m", "question": "Who wrote Faust?", "answer": "Goethe."}) + "\n")
    async with cached(warm_up=str(known), persist=str(kept)) as asking:
        await asking.gateway.gateway.cache.warmed_up.wait()
        reply = {"model": "m", "messages": [{"role": "user", "content": "Who wrote Faust?"}]}
        _, body, headers = await asking.gateway.post("/v1/chat/completions", reply)
        assert headers["x-vsr-cache-hit"] == "true"
        assert body["choices"][0]["message"]["content"] == "Goethe."
        await asking.ask()
    assert kept.stat().st_mode & 0o777 == 0o600
    async with cached(persist=str(kept)) as asking:
        assert await asking.hits(LITERAL) == [True]
        assert asking.worker.requests == []


async def test_without_a_working_encoder_literal_repeats_are_still_answered(tmp_path):
    async with scripted_worker(answers(completion())) as worker:
        sections = {
            "semantic_cache": ON,
            "encoders": {"model": str(tmp_path / "nothing"), "backend": "numpy"},
        }
        async with running_gateway(worker.url, **sections) as gateway:
            asking = Asking(gateway, worker)
            assert await asking.hits(CAPITAL, CAPITAL, SAME) == [False, True, False]
            _, stats = await gateway.get("/cache/stats")
            assert stats["counts"]["encoder_failures"] >= 2


async def test_a_milvus_that_is_killed_in_the_middle_of_the_load_loses_no_request(tmp_path, free_port):
    section = {
        "backend": "milvus",
        "milvus": {"uri": f"http://127.0.0.1:{free_port}", "timeout_s": 2},
        "failures_in_row": 2,
        "open_s": 0.2,
    }
    with milvus_process(tmp_path / "data", free_port) as process:
        async with cached(**section) as asking:
            assert await asking.hits(CAPITAL, SAME) == [False, True]
            _, health = await asking.gateway.get("/health")
            assert health["semantic_cache"]["store"] == "ok"

            async def client(number):
                statuses = []
                for turn in range(12):
                    if number == 0 and turn == 3:
                        process.kill()
                    status, _, _ = await asking.gateway.chat(
                        messages=[{"role": "user", "content": f"What is {number} plus {turn % 4}?"}],
                        temperature=0,
                    )
                    statuses.append(status)
                return statuses

            everyone = await asyncio.gather(*(client(number) for number in range(4)))
            assert [status for statuses in everyone for status in statuses] == [200] * 48
            assert await asking.hits(CAPITAL, SAME) == [True, True], "memory goes on"
            _, health = await asking.gateway.get("/health")
            assert "milvus" in health["semantic_cache"]["store"]
    with milvus_process(tmp_path / "data", free_port):
        pass
