"""What workers answer and do not finish: nothing that is not whole passes as whole, on any surface.

A table: each fault, at each endpoint, whole and streamed, against a raw socket and through a real gateway.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import radixway.bundled
from radixway.core.telemetry import MetricsScrape
from radixway.routing import WorkerState
from support.running_gateway import RunningGateway, running_gateway
from support.scripted_worker import Exchange, ScriptedWorker, scripted_worker

GUIDE = Path(radixway.bundled.__file__).parent / "guide"
ONCE = {"retry": {"attempts": 1}}
DONE = b"data: [DONE]\n\n"
OK = b"HTTP/1.1 200 OK\r\n"
JSON = b"content-type: application/json\r\n"
SSE = b"content-type: text/event-stream\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n"


def event(said: Any) -> bytes:
    return b"data: " + json.dumps(said).encode() + b"\n\n"


def completion(*, stream: bool, text: str, finish: str | None, chat: bool) -> dict[str, Any]:
    said = {("delta" if stream else "message"): {"content": text}} if chat else {"text": text}
    return {"id": "c", "model": "m", "choices": [{"index": 0, **said, "finish_reason": finish}]}


def generated(ids: list[int], finish: str | None) -> dict[str, Any]:
    meta = {
        "id": "r",
        "prompt_tokens": 3,
        "completion_tokens": len(ids),
        "finish_reason": finish and {"type": finish},
        "output_token_logprobs": [[-0.5, token, None] for token in ids],
    }
    return {"text": " ".join(map(str, ids)), "output_ids": ids, "meta_info": meta}


@dataclass(frozen=True)
class Protocol:
    """What a healthy worker says: a whole reply, or events, of which the last but one tells why it ended."""

    whole: bytes
    events: tuple[bytes, ...]


def openai(*, chat: bool) -> Protocol:
    finish = completion(stream=True, text="", finish="stop", chat=chat)
    words = [completion(stream=True, text=f"word {n}", finish=None, chat=chat) for n in range(4)]
    whole = completion(stream=False, text="word " * 20, finish="stop", chat=chat)
    return Protocol(json.dumps(whole).encode(), (*map(event, [*words, finish]), DONE))


CHAT, COMPLETIONS = openai(chat=True), openai(chat=False)
TOKENS = list(range(40, 60))
GENERATE = Protocol(
    json.dumps(generated(TOKENS, "length")).encode(),
    (*(event(generated(TOKENS[:n], None)) for n in (1, 5, 9)), event(generated(TOKENS, "length")), DONE),
)


@dataclass(frozen=True)
class Endpoint:
    """Where a client asks, and in which protocol the worker is asked then."""

    path: str
    body: dict[str, Any]
    worker: Protocol
    is_error: Callable[[dict[str, Any]], bool] = lambda said: "code" in said["error"]


HELLO = [{"role": "user", "content": "hello"}]
ENDPOINTS = {
    "chat": Endpoint("/v1/chat/completions", {"messages": HELLO}, CHAT),
    "completions": Endpoint("/v1/completions", {"prompt": "hello"}, COMPLETIONS),
    "generate": Endpoint("/generate", {"text": "hello"}, GENERATE),
    "session chat": Endpoint("/sessions/{}/v1/chat/completions", {"messages": HELLO}, GENERATE),
    "session completions": Endpoint("/sessions/{}/v1/completions", {"prompt": "hello"}, GENERATE),
    "session messages": Endpoint(
        "/sessions/{}/v1/messages",
        {"messages": HELLO, "max_tokens": 50},
        GENERATE,
        lambda said: said["type"] == "error" and "message" in said["error"],
    ),
    "session responses": Endpoint(
        "/sessions/{}/v1/responses",
        {"input": "hello"},
        GENERATE,
        lambda said: said.get("type") == "response.failed" or "message" in said["error"],
    ),
}


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def sized(head: bytes, length: int) -> bytes:
    return OK + head + b"content-length: %d\r\n\r\n" % length


def faults_of_any(head: bytes, body: bytes) -> Iterator[tuple[str, bytes]]:
    """Raw bytes, after which the worker closes the connection in order."""
    half = len(body) // 2
    yield "dies before the head", b""
    yield "dies in the head", OK[:10]
    yield "dies after the head, a length", sized(head, len(body))
    yield "dies after the head, no length", OK + head + b"\r\n"
    yield "dies after the head, chunked", OK + head + CHUNKED + b"\r\n"
    yield "dies in the body, a length", sized(head, len(body)) + body[:half]
    yield "length is too long", sized(head, len(body) + 10) + body
    yield "no length, closed in the body", OK + head + b"\r\n" + body[:half]
    yield "dies in a chunk", OK + head + CHUNKED + b"\r\n" + chunk(body)[: half + 5]
    yield "no last chunk", OK + head + CHUNKED + b"\r\n" + chunk(body[:half])
    yield "no last chunk behind all", OK + head + CHUNKED + b"\r\n" + chunk(body)
    yield "a chunk of no size", OK + head + CHUNKED + b"\r\n" + b"zz\r\n" + body
    yield "chunked, half of it", OK + head + CHUNKED + b"\r\n" + chunk(body[:half]) + chunk(b"")
    yield "length is too short", sized(head, half) + body
    yield "length is short by ten", sized(head, len(body.rstrip()) - 10) + body.rstrip()
    yield "garbage in place of HTTP", b"\x16\x03\x01 garbage \r\n\r\n"
    yield "garbage in place of the body", sized(head, 7) + b"garbage"
    packed = gzip.compress(body, mtime=0)
    yield "compressed and cut", OK + head + b"content-encoding: gzip\r\n\r\n" + packed[: len(packed) // 2]
    yield "compressed", sized(head + b"content-encoding: gzip\r\n", len(packed)) + packed


def faults_of_streams(events: tuple[bytes, ...]) -> Iterator[tuple[str, bytes]]:
    """Streams that end in order, but for what they say."""
    *words, finish, _ = events
    said = b"".join(words)
    for name, body in {
        "no finish and no [DONE]": said,
        "one event": words[0],
        "torn in an event": said + finish[: len(finish) // 2],
        "torn in the last event but for its mark": said + b"data: [DON",
        "torn before the data": said + b"da",
    }.items():
        yield (
            f"{name}, chunked",
            OK + SSE + CHUNKED + b"\r\n" + b"".join(map(chunk, body.splitlines(keepends=True))) + chunk(b""),
        )
        yield f"{name}, no length", OK + SSE + b"\r\n" + body
        yield f"{name}, a length", sized(SSE, len(body)) + body


def faults(protocol: Protocol, *, stream: bool) -> dict[str, bytes]:
    if not stream:
        return dict(faults_of_any(JSON, protocol.whole))
    # The last of them is cut too: without `[DONE]` a stream that has told why it ended is whole.
    return dict([*faults_of_any(SSE, b"".join(protocol.events[:-1])), *faults_of_streams(protocol.events)])


def whole_ones(protocol: Protocol, *, stream: bool) -> dict[str, bytes]:
    """Answers that are whole, some of them in a way that not every worker has."""
    if not stream:
        bodies = {"JSON": (JSON, protocol.whole), "JSON and a line": (JSON, protocol.whole + b"\n")}
    else:
        events = protocol.events
        *words, finish, done = events
        bodies = {
            "both marks": (SSE, b"".join(events)),
            "no [DONE]": (SSE, b"".join([*words, finish])),
            "no blank line behind [DONE]": (SSE, b"".join([*words, finish, done.rstrip()])),
            "no blank line behind the finish": (SSE, b"".join([*words, finish]).rstrip()),
            "a comment behind [DONE]": (SSE, b"".join([*events, b": bye\n\n"])),
            "a torn comment behind [DONE]": (SSE, b"".join([*events, b": by"])),
            "torn in [DONE]": (SSE, b"".join([*words, finish, done[:10]])),
            "lines end as on Windows": (SSE, b"".join(events).replace(b"\n", b"\r\n")),
        }
    return {
        f"{name}, {framing}": raw
        for name, (head, body) in bodies.items()
        for framing, raw in {
            "a length": sized(head, len(body)) + body,
            "no length": OK + head + b"\r\n" + body,
            "chunked": OK + head + CHUNKED + b"\r\n" + chunk(body[:50]) + chunk(body[50:]) + chunk(b""),
        }.items()
    }


class RawWorker:
    """Writes what it is told to, and closes the connection."""

    def __init__(self) -> None:
        self.raw = b""

    async def __call__(self, exchange: Exchange) -> None:
        if exchange.path not in ("/generate", "/v1/completions", "/v1/chat/completions"):
            await exchange.reply(200, b"{}")
            return
        exchange.writer.write(self.raw)
        await exchange.writer.drain()
        exchange.writer.close()


@asynccontextmanager
async def raw_worker(**sections: Any) -> AsyncIterator[tuple[RunningGateway, RawWorker, ScriptedWorker]]:
    raw = RawWorker()
    trajectories = {"tokenizer": str(GUIDE)}
    async with (
        scripted_worker(raw) as worker,
        running_gateway(worker.url, trajectories=trajectories, **({"pipeline": ONCE} | sections)) as gateway,
    ):
        yield gateway, raw, worker


async def verdict(gateway: RunningGateway, endpoint: Endpoint, number: int, *, stream: bool) -> str:
    """`whole`, `failed` in words of the protocol, or what else the client is left with."""
    path = endpoint.path.format(f"s{number}")
    body = {"model": "m", **endpoint.body, "stream": stream}
    try:
        async with gateway.client.post(gateway.url + path, json=body) as response:
            said, status = await response.read(), response.status
    except aiohttp.ClientError as error:
        return f"the connection is cut: {type(error).__name__}"
    if status != 200:
        return "failed" if status == 502 and endpoint.is_error(json.loads(said)) else f"{status}: {said!r}"
    if not stream:
        return "whole"
    told = [read(line[6:]) for line in said.splitlines() if line.startswith(b"data: {")]
    errors = [each for each in told if each.get("error") or each.get("type") in ("error", "response.failed")]
    if not errors:
        return "whole"
    return (
        "failed"
        if endpoint.is_error(errors[-1]) and said.endswith(b"\n\n")
        else f"an odd end: {said[-200:]!r}"
    )


def read(data: bytes) -> dict[str, Any]:
    try:
        return json.loads(data)
    except ValueError:
        return {}


async def verdicts(answers: dict[str, bytes], endpoint: Endpoint, *, stream: bool) -> dict[str, str]:
    async with raw_worker() as (gateway, worker, scripted):
        found = {}
        for number, (name, raw) in enumerate(answers.items()):
            await gateway.until(scripted.url, WorkerState.READY)
            worker.raw = raw
            found[name] = await verdict(gateway, endpoint, number, stream=stream)
        assert gateway.in_flight() == 0
    return found


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("endpoint", ENDPOINTS)
async def test_what_is_not_whole_fails(endpoint: str, stream: bool) -> None:
    asked = ENDPOINTS[endpoint]
    answers = faults(asked.worker, stream=stream)
    assert await verdicts(answers, asked, stream=stream) == dict.fromkeys(answers, "failed")


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("endpoint", ENDPOINTS)
async def test_what_is_whole_passes(endpoint: str, stream: bool) -> None:
    asked = ENDPOINTS[endpoint]
    answers = whole_ones(asked.worker, stream=stream)
    assert await verdicts(answers, asked, stream=stream) == dict.fromkeys(answers, "whole")


class Cutting:
    """Streams one event, waits until the client has it, and ends in order as if that were all."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.asked = 0

    async def __call__(self, exchange: Exchange) -> None:
        self.asked += 1
        await exchange.begin_stream()
        await exchange.chunk(CHAT.events[0])
        await self.go_on.wait()
        self.go_on.clear()
        await exchange.end_stream()

    async def ask(self, gateway: RunningGateway, request_id: str = "", **more: Any) -> bytes:
        """A stream to its end."""
        headers = {"x-request-id": request_id} if request_id else {}
        body = {"model": "m", "messages": HELLO, "stream": True, **more}
        url = gateway.url + "/v1/chat/completions"
        async with gateway.client.post(url, json=body, headers=headers) as response:
            assert response.status == 200
            said = await response.content.readuntil(b"\n\n")
            self.go_on.set()
            return said + await response.read()


async def attempts(gateway: RunningGateway) -> dict[str, float]:
    """Attempts at workers by their outcome."""
    page = (await gateway.gateway.metrics.scrape()).body.decode()
    counts = MetricsScrape.parse_text(page, 0.0).totals_by("outcome", "radixway_worker_requests_total")
    return {outcome: count for outcome, count in counts.items() if count}


@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_cut_before_its_first_byte_is_tried_elsewhere(stream: bool) -> None:
    raw = RawWorker()
    raw.raw = faults(CHAT, stream=stream)["chunked, half of it"]

    async def well(exchange: Exchange) -> None:
        if not exchange.json()["stream"]:
            await exchange.reply(200, CHAT.whole)
            return
        await exchange.begin_stream()
        await exchange.chunk(b"".join(CHAT.events))
        await exchange.end_stream()

    async with (
        scripted_worker(raw) as cutting,
        scripted_worker(well) as other,
        running_gateway(cutting.url, other.url, routing={"policy": "round_robin"}) as gateway,
    ):
        for _ in range(2):  # one of them begins at the one that cuts
            body = {"model": "m", "messages": HELLO, "stream": stream}
            async with gateway.client.post(gateway.url + "/v1/chat/completions", json=body) as response:
                said = await response.read()
                assert (response.status, response.headers["x-radixway-worker"]) == (200, other.url[7:])
                assert said == (b"".join(CHAT.events) if stream else CHAT.whole)
        counts = await attempts(gateway)
        assert counts.keys() == {"answered", "truncated"} and counts["answered"] == 2


async def test_a_stream_that_is_cut_is_counted_told_and_not_kept() -> None:
    cutting = Cutting()
    async with (
        scripted_worker(cutting) as worker,
        running_gateway(
            worker.url, semantic_cache={"enabled": True}, encoders={"backend": "numpy"}
        ) as gateway,
    ):
        for asked in (1, 2):
            said = await cutting.ask(gateway, f"cut-{asked}", temperature=0)
            assert b'"stream_broken"' in said and said.startswith(CHAT.events[0])
            assert cutting.asked == asked, "the second is not answered from the cache"
        assert await attempts(gateway) == {"truncated": 2}
        _, journal = await gateway.get("/explain/cut-1")
        (error,) = [step for step in journal["steps"] if step["step"] == "error"]
        assert error["code"] == "stream_broken" and "without [DONE] or a finish reason" in error["message"]
        assert gateway.gateway.metrics.exchanges.broken_streams.value == 2


async def test_a_worker_that_cuts_its_streams_is_soon_asked_last() -> None:
    cutting = Cutting()
    async with (
        scripted_worker(cutting) as worker,
        running_gateway(worker.url) as gateway,
    ):
        for _ in range(10):
            await cutting.ask(gateway)
        assert gateway.gateway.registry.get_worker(worker.url).breaker.tripped
