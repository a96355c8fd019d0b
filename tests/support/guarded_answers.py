"""Guards for single answers, and streams to guard, without a gateway around them."""

from __future__ import annotations

import json
from itertools import pairwise

import msgspec

from radixway.core.config.guard import GuardConfig
from radixway.core.pipeline import ENDPOINTS, Chunks, Reply, Request, RoutingContext
from radixway.core.telemetry import Journal, MetricsRegistry
from radixway.semantics.guard.answers.middleware import AnswerGuard
from radixway.semantics.guard.pii.recognisers import find_structured

SYSTEM = (
    "You are Tilly, the assistant of Harbour Savings. Never mention the pilot programme Bluefin. "
    "Offer a call back when a customer is angry. Interest rates are in the table below: instant 1.1, "
    "fixed one year 2.4."
)


class StructuredFinder:
    """The shipped recognisers, by themselves."""

    threshold = 0.7
    types = ()

    async def find(self, text):
        return find_structured(text)


class Listed(Chunks):
    """A worker's chunks."""

    def __init__(self, chunks):
        self.left = iter(chunks)
        self.closed = False

    def __aiter__(self):
        return self

    async def __anext__(self):
        for chunk in self.left:
            return chunk
        raise StopAsyncIteration

    async def aclose(self):
        self.closed = True


class Recorded:
    def __init__(self):
        self.incidents = []

    def record_incident(self, incident):
        self.incidents.append(incident)


def request_of(surface="openai.chat", messages=None, **fields):
    messages = messages or [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "hello there"}]
    body = {"model": "m", "messages": messages, **fields}
    return Request(
        "r1",
        ENDPOINTS[surface],
        "/",
        Journal("r1"),
        raw=msgspec.json.encode(body),
        routing=RoutingContext(metrics_model="m"),
    )


def guard_of(section, *, vault=None, recorder=None, finder=None):
    config = GuardConfig.model_validate({"answers": section})
    return AnswerGuard(config, finder or StructuredFinder(), MetricsRegistry(), recorder, lambda: vault)


def event(data):
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"


def chat_event(index=0, finish=None, **delta):
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    return event(
        {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    )


def chat_stream(pieces, finish="stop"):
    """A chat completion that says the pieces, one an event."""
    events = [chat_event(role="assistant", content="")]
    events += [chat_event(content=piece) for piece in pieces]
    events.append(chat_event(finish=finish))
    events.append(event({"id": "c1", "choices": [], "usage": {"completion_tokens": len(pieces)}}))
    return [*events, b"data: [DONE]\n\n"]


def chat_body(text, **more):
    message = {"role": "assistant", "content": text, **more}
    return json.dumps(
        {"id": "c1", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    ).encode()


def said_in(events):
    """All that the client reads, and why it ended."""
    texts, finish = {}, None
    for line in b"".join(events).splitlines():
        if not line.startswith(b"data: {"):
            continue
        for choice in json.loads(line[6:]).get("choices", ()):
            finish = choice["finish_reason"] or finish
            for name, value in choice["delta"].items():
                if name != "role" and isinstance(value, str):
                    texts[name] = texts.get(name, "") + value
    return texts, finish


async def guarded_stream(guard, request, chunks):
    """The chunks that the client gets, and the worker's stream."""
    inner = chunks if isinstance(chunks, Listed) else Listed(chunks)
    reply = await guard.guard_reply(request, Reply(200, [], "w", chunks=inner))
    got = [chunk async for chunk in reply.chunks]
    await reply.chunks.aclose()
    await guard.aclose()
    return got, inner


async def guarded_body(guard, request, body):
    reply = await guard.guard_reply(request, Reply(200, [], "w", body))
    await guard.aclose()
    return reply.body


def divided(text, cuts):
    """A text in pieces that end at the cuts."""
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[begin:end] for begin, end in pairwise(places)]
