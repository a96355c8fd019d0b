"""What was refused, failed or answered is gone with its answer: its body waits for no garbage collection."""

from __future__ import annotations

import gc

import pytest

from radixway.core.http.direct_exchange import DirectExchange
from radixway.core.pipeline import Request
from radixway.routing.transports.event_stream import WorkerEventStream
from support.echoing_worker import answering
from support.guarded import chat, guarded
from support.scripted_worker import answer_ok, scripted_worker

TOO_LONG = "word " * 20_001
GUARD = {"pii": {"action": "block", "on_error": "block"}, "long_texts": {"max_characters": 100_000}}
CHAT = "/v1/chat/completions"
FIELD_TWICE = b'{"model": "m", "messages": [{"role": "user", "content": "", "content": ""}]}'
FAILING = {
    "no messages": (CHAT, chat("", messages=[]), 400),
    "a field twice": (
        CHAT,
        FIELD_TWICE,
        400,
    ),
    "no JSON": (CHAT, b"{" + b"x" * 70_000, 400),
    "too long a chat": (CHAT, chat(TOO_LONG), 413),
    "too long a text": ("/generate", {"text": TOO_LONG}, 413),
    "too long a message": ("/sessions/s1/v1/messages", chat(TOO_LONG, max_tokens=5), 413),
    "a model nobody has": (CHAT, chat("hello", model="none"), 404),
    "no word of the worker": (CHAT, chat("die"), 502),
    "not read by the guard": (CHAT, chat("unread"), 503),
}


async def answer_or_die(exchange):
    if b"die" in exchange.body:
        exchange.die()
    else:
        await answer_ok(exchange)


def requests_alive():
    return sum(type(each) in (Request, DirectExchange, WorkerEventStream) for each in gc.get_objects())


@pytest.mark.parametrize("name", FAILING)
async def test_a_request_that_failed_is_freed_without_garbage_collection(monkeypatch, name):
    path, body, wanted = FAILING[name]
    async with (
        scripted_worker(answer_or_die) as worker,
        guarded(monkeypatch, worker.url, guard=GUARD) as gateway,
    ):
        await gateway.chat()
        gateway.finder.broken = name == "not read by the guard"
        gc.collect()
        gc.freeze()  # what is there by now is not looked at again
        before = requests_alive()
        gc.disable()
        try:
            for _ in range(3):
                status, _, _ = await gateway.post(path, body)
                assert status == wanted
            for _ in range(10):  # the answer is out a moment before its request is done
                if requests_alive() > before:
                    await gateway.get("/health")
            assert requests_alive() <= before
        finally:
            gc.enable()


async def test_a_stream_that_was_answered_is_freed_without_garbage_collection(monkeypatch):
    async with scripted_worker(answering) as worker, guarded(monkeypatch, worker.url, guard=GUARD) as gateway:
        await gateway.chat()
        gc.collect()
        gc.freeze()
        before = requests_alive()
        gc.disable()
        try:
            for _ in range(3):
                async with gateway.client.post(gateway.url + CHAT, json=chat("hello", stream=True)) as answer:
                    assert (await answer.read()).endswith(b"data: [DONE]\n\n")
            for _ in range(10):
                if requests_alive() > before:
                    await gateway.get("/health")
            assert requests_alive() <= before
        finally:
            gc.enable()
