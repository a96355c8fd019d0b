"""Answers of sessions: guarded in every protocol, while samples hold the tokens that the model made."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import radixway.bundled
from radixway.core.parsers import CallDelta, TextPart, ThinkingPart
from radixway.core.tokenizer import Tokenizer
from radixway.semantics.guard.answers.guarded_reply import GuardedParts
from support.guarded import guarded
from support.guarded_answers import guard_of, request_of, said_in
from support.scripted_worker import scripted_worker

MODEL = Path(radixway.bundled.__file__).parent / "guide"
ANSWER = "Write to anna@example.org today. Then rest."
BODIES = {
    "chat/completions": {"messages": [{"role": "user", "content": "hello"}]},
    "completions": {"prompt": "hello"},
    "responses": {"input": "hello"},
    "messages": {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 99},
}
MASKED, BLOCKED = "Write to ***** today. Then rest.", "Write to "
FILTERED = {
    "chat/completions": '"finish_reason":"content_filter"',
    "completions": '"finish_reason":"content_filter"',
    "responses": '"incomplete_details":{"reason":"content_filter"}',
    "messages": '"stop_reason":"refusal"',
}


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.load(MODEL)


def telling(tokenizer, text):
    """A worker that answers with the text, token by token."""
    ids = tokenizer.encode(text, add_special_tokens=False)

    def reply(count, finish):
        logprobs = [[-0.5, token, None] for token in ids[:count]]
        meta = {"finish_reason": finish, "completion_tokens": count, "output_token_logprobs": logprobs}
        return {"text": tokenizer.decode(ids[:count]), "output_ids": ids[:count], "meta_info": meta}

    async def behave(exchange):
        if exchange.path != "/generate":
            await exchange.reply(200, b"{}")
        elif not exchange.json().get("stream"):
            await exchange.reply(200, json.dumps(reply(len(ids), {"type": "stop"})).encode())
        else:
            await exchange.begin_stream()
            for count in range(1, len(ids) + 1):
                finish = {"type": "stop"} if count == len(ids) else None
                await exchange.chunk(b"data: " + json.dumps(reply(count, finish)).encode() + b"\n\n")
            await exchange.chunk(b"data: [DONE]\n\n")
            await exchange.end_stream()

    return behave, ids


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("action", ["mask", "block"])
async def test_sessions_are_guarded_in_every_protocol(monkeypatch, tokenizer, action, stream):
    behave, ids = telling(tokenizer, ANSWER)
    async with (
        scripted_worker(behave) as worker,
        guarded(
            monkeypatch,
            worker.url,
            guard={"answers": {"pii": {"action": action}}},
            trajectories={"tokenizer": str(MODEL)},
        ) as gateway,
    ):
        for path, body in BODIES.items():
            url = f"{gateway.url}/sessions/{path.replace('/', '-')}/v1/{path}"
            async with gateway.client.post(url, json=body | {"model": "m", "stream": stream}) as response:
                raw = (await response.read()).decode()
                assert response.status == 200, raw
            assert "anna" not in raw
            assert (action == "block") == (FILTERED[path] in raw)
            if not stream:
                assert json.dumps(MASKED if action == "mask" else BLOCKED)[1:-1] in raw
            session = f"/sessions/{path.replace('/', '-')}/samples"
            (sample,) = (await gateway.get(session))[1]["samples"]
            made = sum(sample["loss_mask"])
            assert sample["tokens"][-made:] == ids[:made]
            assert made == len(ids) or (action == "block" and stream)


@pytest.mark.parametrize("stream", [False, True])
async def test_what_was_redacted_is_restored_in_every_protocol(monkeypatch, tokenizer, stream):
    behave, ids = telling(tokenizer, "I wrote to [EMAIL_ADDRESS_1] today.")
    async with (
        scripted_worker(behave) as worker,
        guarded(
            monkeypatch,
            worker.url,
            guard={"pii": {"action": "redact"}},
            trajectories={"tokenizer": str(MODEL)},
        ) as gateway,
    ):
        for path, body in BODIES.items():
            asked = json.loads(json.dumps(body).replace("hello", "write to anna@example.org"))
            url = f"{gateway.url}/sessions/{path.replace('/', '-')}/v1/{path}"
            async with gateway.client.post(url, json=asked | {"model": "m", "stream": stream}) as response:
                raw = (await response.read()).decode()
                assert response.status == 200, raw
            assert "anna@example.org" in raw
            assert "EMAIL_ADDRESS" not in raw
            prompt = tokenizer.decode(worker.requests[-1].json()["input_ids"])
            assert "[EMAIL_ADDRESS_1]" in prompt
            assert "anna" not in prompt
            (sample,) = (await gateway.get(f"/sessions/{path.replace('/', '-')}/samples"))[1]["samples"]
            assert sample["tokens"][-len(ids) :] == ids


async def test_a_conversation_with_placeholders_stays_one_trajectory(monkeypatch, tokenizer):
    behave, _ = telling(tokenizer, "I wrote to [EMAIL_ADDRESS_1] today.")
    async with (
        scripted_worker(behave) as worker,
        guarded(
            monkeypatch,
            worker.url,
            guard={"pii": {"action": "redact"}},
            trajectories={"tokenizer": str(MODEL)},
        ) as gateway,
    ):
        messages = [{"role": "user", "content": "write to anna@example.org"}]
        for following in ("and thank her", "that is all"):
            body = {"model": "m", "messages": messages}
            _, said, _ = await gateway.post("/sessions/s/v1/chat/completions", body)
            messages += [said["choices"][0]["message"], {"role": "user", "content": following}]
        samples = (await gateway.get("/sessions/s/samples"))[1]["samples"]
        assert len(samples) == 1


async def test_generate_is_recorded_as_the_worker_sent_it_and_told_guarded(monkeypatch, tokenizer):
    behave, ids = telling(tokenizer, ANSWER)
    async with (
        scripted_worker(behave) as worker,
        guarded(
            monkeypatch,
            worker.url,
            guard={"answers": {"pii": {"action": "mask"}}},
            trajectories={"enabled": True, "tokenizer": str(MODEL)},
        ) as gateway,
    ):
        status, told, _ = await gateway.post("/generate", {"text": "hello", "model": "m"})
        assert (status, told["text"]) == (200, MASKED)
        assert "output_ids" not in told
        assert "output_token_logprobs" not in told["meta_info"]
        _, known, _ = await gateway.post("/retrieve_from_text", {"text": "hello" + ANSWER, "model": "m"})
        assert known["tokens"][-len(ids) :] == ids
        assert known["exact"]


async def test_thoughts_texts_and_calls_keep_their_order():
    guard = guard_of({"pii": {"action": "mask"}})
    parts = guard.parts_guard_for(request_of())
    assert isinstance(parts, GuardedParts)
    said = [
        ThinkingPart("I mail ann"),
        ThinkingPart("a@x.org."),
        TextPart("Sent to b@"),
        TextPart("y.org"),
        CallDelta(0, "id", "send"),
        CallDelta(0, arguments='{"to": "c@'),
        CallDelta(0, arguments='z.org"}'),
        CallDelta(1, "id2", "stop", "{}"),
    ]
    got = [each for part in said for each in await parts.add_parts([part])] + await parts.finish_parts()
    joined = {}
    for each in got:
        name = each.index if isinstance(each, CallDelta) else type(each).__name__
        joined[name] = joined.get(name, "") + (each.arguments if isinstance(each, CallDelta) else each.text)
    assert joined == {
        "ThinkingPart": "I mail *****.",
        "TextPart": "Sent to *****",
        0: '{"to": "*****"}',
        1: "{}",
    }
    assert list(joined) == ["ThinkingPart", "TextPart", 0, 1]
    assert [each.name for each in got if isinstance(each, CallDelta) and each.name] == ["send", "stop"]


async def test_a_worker_that_pauses_does_not_keep_half_a_sentence_from_an_agent(monkeypatch, tokenizer):
    seen = asyncio.Event()
    first, last = "this has no end yet but ", "now it has."

    def event(text, finish):
        ids = tokenizer.encode(text, add_special_tokens=False)
        meta = {"finish_reason": finish, "completion_tokens": len(ids)}
        return b"data: " + json.dumps({"text": text, "output_ids": ids, "meta_info": meta}).encode() + b"\n\n"

    async def behave(exchange):
        await exchange.begin_stream()
        await exchange.chunk(event(first, None))
        await seen.wait()
        await exchange.chunk(event(first + last, {"type": "stop"}))
        await exchange.end_stream()

    section = {"answers": {"pii": {"action": "mask"}, "hold_back": {"milliseconds": 10}}}
    more = {"guard": section, "trajectories": {"tokenizer": str(MODEL)}}
    async with scripted_worker(behave) as worker, guarded(monkeypatch, worker.url, **more) as gateway:
        body = BODIES["chat/completions"] | {"model": "m", "stream": True}
        async with gateway.client.post(
            gateway.url + "/sessions/s/v1/chat/completions", json=body
        ) as response:
            got = b""
            while b"yet but" not in got:
                got += await response.content.readany()
            seen.set()
            got += await response.read()
    assert said_in([got])[0]["content"] == first + last
