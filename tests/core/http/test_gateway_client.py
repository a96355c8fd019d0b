"""The command line's client, in front of servers that are no gateway."""

from contextlib import suppress

import pytest

from radixway.core.http import gateway_client as client
from radixway.core.http.gateway_client import (
    GatewayCallError,
    WorkerListing,
    WorkerLoads,
    call_gateway,
    stream_chat,
)
from support.scripted_worker import Exchange, scripted_worker

NO_GATEWAY = [
    b"",
    b"<html>It works!</html>",
    b"null",
    b"[]",
    b"{}",
    b'"\xff"',
    b"[" * 100_000,
    b'{"workers": 3, "worker_urls": [], "choices": 3}',
    b'{"workers": [{"url": 5}], "worker_urls": {"a": "b"}, "choices": [{"delta": "x"}]}',
]


def answering(body, status=200, kind="application/json"):
    async def answer(exchange: Exchange) -> None:
        await exchange.reply(status, body, kind)

    return scripted_worker(answer)


def calls(url):
    yield call_gateway(url, "GET", "/list_workers", WorkerListing)
    yield call_gateway(url, "POST", "/add_worker", WorkerLoads, {"url": "http://a"})
    yield stream_chat(url, {"messages": []}, show=print)


@pytest.mark.parametrize("body", NO_GATEWAY)
@pytest.mark.parametrize("kind", ["text/html; charset=base64", "application/json"])
async def test_what_no_gateway_answers_is_told_in_a_sentence(body, kind):
    async with answering(body, kind=kind) as server:
        for called in calls(server.url):
            with pytest.raises(GatewayCallError, match=f"what answers at {server.url} is no gateway"):
                await called


@pytest.mark.parametrize(
    "event",
    [b"<html>", b"3", b"\xff", b'{"choices": 3}', b'{"choices": [{"delta": "x"}]}', b'{"error": "x"}'],
)
async def test_an_event_that_no_gateway_sends_is_told_in_a_sentence(event):
    async with answering(b"data: " + event + b"\n\n", kind="text/event-stream") as server:
        with pytest.raises(GatewayCallError, match=f"what answers at {server.url} is no gateway"):
            await stream_chat(server.url, {"messages": []}, show=print)


async def test_what_engines_leave_open_in_their_events_is_no_mistake():
    events = [
        b'{"model": null, "choices": [{"delta": {"role": "assistant", "content": null}}], "usage": null}',
        b'{"model": "m", "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}',
        b'{"usage": {"prompt_tokens": 3, "completion_tokens": 1, "prompt_tokens_details": null}}',
        b"[DONE]",
    ]
    stream = b"".join(b"data: %b\n\n" % event for event in events)
    async with answering(stream, kind="text/event-stream; charset=utf-8") as server:
        told = await stream_chat(server.url, {"messages": []}, show=lambda text: None)
    assert (told.model, told.text, told.prompt_tokens, told.completion_tokens) == ("m", "x", 3, 1)


@pytest.mark.parametrize("body", [*NO_GATEWAY, b'{"error": "no"}', b'{"error": {"message": 5}}'])
async def test_a_refusal_without_words_is_told_by_its_status(body):
    async with answering(body, status=404) as server:
        for called in calls(server.url):
            with pytest.raises(GatewayCallError, match=f"{server.url}/.* answered 404"):
                await called


async def test_a_refusal_is_told_in_its_own_words():
    async with answering(b'{"error": {"message": "not today"}}', status=503) as server:
        for called in calls(server.url):
            with pytest.raises(GatewayCallError, match="^not today$"):
                await called


async def test_a_connection_that_is_closed_without_an_answer_is_told_in_a_sentence():
    async def hang_up(exchange: Exchange) -> None:
        exchange.die()

    async with scripted_worker(hang_up) as server:
        for called in calls(server.url):
            with pytest.raises(GatewayCallError, match=f"no gateway answers at {server.url}"):
                await called


@pytest.mark.parametrize("status", [200, 500])
async def test_an_answer_without_end_is_not_read_to_its_end(monkeypatch, status):
    async def answer(exchange: Exchange) -> None:
        head = f"HTTP/1.1 {status} X\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n"
        exchange.writer.write(head.encode())
        with suppress(ConnectionError):
            while True:
                await exchange.chunk(b"a" * 2**16)

    monkeypatch.setattr(client, "_MAX_REPLY_BYTES", 2**20)
    async with scripted_worker(answer) as server:
        with pytest.raises(GatewayCallError, match="answers with more than 1 MiB"):
            await call_gateway(server.url, "GET", "/list_workers", WorkerListing)
