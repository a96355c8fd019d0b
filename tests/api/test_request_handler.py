"""What a client sees when workers, clients and time misbehave. Real sockets on both sides."""

import asyncio
import json
import urllib.error
import urllib.request

import aiohttp
import pytest

from radixway.routing import WorkerState
from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, answer_ok, scripted_worker

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
DONE = b"data: [DONE]\n\n"


async def die_at_once(exchange: Exchange) -> None:
    exchange.die()


async def die_after_headers(exchange: Exchange) -> None:
    await exchange.begin_stream()
    exchange.die()


async def die_in_the_middle(exchange: Exchange) -> None:
    await exchange.begin_stream()
    await exchange.chunk(b'data: {"n": 1}\n\ndata: {"n": 2')
    exchange.die()


def events(raw: bytes) -> list[dict]:
    return [
        json.loads(line[5:])
        for line in raw.split(b"\n")
        if line.startswith(b"data:") and b"[DONE]" not in line
    ]


async def test_a_whole_reply_reaches_the_client_byte_for_byte():
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        async with gateway.client.post(gateway.url + "/v1/chat/completions", json=CHAT) as response:
            assert await response.read() == b'{"choices": [{"message": {"content": "ok"}}], "odd":  1e-5}'
            assert response.headers["x-radixway-worker"] == worker.url.removeprefix("http://")
        assert gateway.in_flight() == 0


async def test_the_body_reaches_the_worker_byte_for_byte():
    raw = b'{"messages":[{"role":"user","content":"\\u4f60 \xe4\xbd\xa0"}],  "zz": 1e-7, "model":"m"}'
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        await gateway.post("/v1/chat/completions?x=1", raw)
        assert worker.requests[0].body == raw
        assert worker.requests[0].path == "/v1/chat/completions?x=1"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/generate"])
async def test_default_is_the_first_model_of_the_first_worker(path):
    """As with SGLang, whose clients call the only model of a server so."""
    async with (
        scripted_worker(models=["qwen", "qwen-lora"]) as first,
        scripted_worker(models=["llama"]) as second,
        running_gateway(first.url, second.url) as gateway,
    ):
        prompt = {"messages": [{"role": "user", "content": "hi"}], "prompt": "hi", "text": "hi"}
        for _ in range(3):
            status, told, _ = await gateway.post(path, prompt | {"model": "default", "odd_field": [1]})
            assert status == 200, told
        assert (await gateway.post(path, prompt | {"model": "other"}))[0] == 404
    assert [(asked.json()["model"], asked.json()["odd_field"]) for asked in first.requests] == [
        ("qwen", [1])
    ] * 3
    assert not second.requests


async def test_a_model_that_is_called_default_is_asked_for_by_its_name():
    async with (
        scripted_worker(models=["qwen"]) as first,
        scripted_worker(models=["default"]) as second,
        running_gateway(first.url, second.url) as gateway,
    ):
        assert (await gateway.chat(model="default"))[0] == 200
    assert not first.requests and second.requests[0].json()["model"] == "default"


async def test_auto_is_replaced_by_a_model_of_the_chosen_worker():
    async with scripted_worker(models=["qwen"]) as worker, running_gateway(worker.url) as gateway:
        status, _, _ = await gateway.chat(model="auto", odd_field=[1])
        assert status == 200
        assert worker.requests[0].json()["model"] == "qwen"
        assert worker.requests[0].json()["odd_field"] == [1]


@pytest.mark.parametrize("death", [die_at_once, die_after_headers])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_worker_that_dies_before_its_first_byte_is_replaced(death, stream):
    async def whole_or_stream(exchange: Exchange) -> None:
        if stream:
            await exchange.begin_stream()
            await exchange.chunk(b'data: {"n": 1}\n\n')
            await exchange.chunk(b"data: [DONE]\n\n")
            await exchange.end_stream()
        else:
            await answer_ok(exchange)

    async with (
        scripted_worker(death) as dying,
        scripted_worker(whole_or_stream) as living,
        running_gateway(dying.url, living.url) as gateway,
    ):
        for _ in range(4):
            async with gateway.client.post(
                gateway.url + "/v1/chat/completions", json={**CHAT, "stream": stream}
            ) as response:
                assert response.status == 200
                assert await response.read()
        assert dying.requests, "round about, the dying worker was asked first at least once"
        assert gateway.in_flight() == 0


async def test_a_retry_is_explained():
    async with (
        scripted_worker(die_at_once) as first,
        scripted_worker(die_at_once) as second,
        running_gateway(first.url, second.url, pipeline={"retry": {"backoff_s": 0}}) as gateway,
    ):
        status, body, headers = await gateway.chat()
        assert status == 502
        assert body["error"]["code"] == "worker_failed"
        _, journal = await gateway.get(f"/explain/{headers['x-request-id']}")
        steps = [step["step"] for step in journal["steps"]]
        assert steps == ["receive", "select", "retry", "select", "retry", "select", "error", "end"]
        retried = [step["worker"] for step in journal["steps"] if step["step"] == "retry"]
        assert len(set(retried)) == 2


async def test_a_worker_that_says_503_is_replaced():
    async def busy(exchange: Exchange) -> None:
        await exchange.reply(503, b"{}")

    async with (
        scripted_worker(busy) as full,
        scripted_worker() as free,
        running_gateway(full.url, free.url) as gateway,
    ):
        assert [(await gateway.chat())[0] for _ in range(4)] == [200] * 4


async def test_a_workers_own_400_is_passed_on_and_not_retried():
    async def refuse(exchange: Exchange) -> None:
        await exchange.reply(400, b'{"error": {"message": "too long", "param": "messages"}}')

    async with scripted_worker(refuse) as worker, running_gateway(worker.url) as gateway:
        status, body, _ = await gateway.chat(stream=True)
        assert (status, body["error"]["message"]) == (400, "too long")
        assert len(worker.requests) == 1


async def test_a_stream_cut_by_its_worker_ends_with_one_error_event():
    async with scripted_worker(die_in_the_middle) as worker, running_gateway(worker.url) as gateway:
        async with gateway.client.post(
            gateway.url + "/v1/chat/completions", json={**CHAT, "stream": True}
        ) as response:
            raw = await response.read()
        told = events(raw)
        assert told[0] == {"n": 1}
        assert told[1]["error"]["code"] == "stream_broken"
        assert len(told) == 2, "the half event before the cut is not passed on"
        assert gateway.in_flight() == 0


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
async def test_events_arrive_one_by_one_and_none_is_held_back(line_end):
    go_on = asyncio.Queue()

    async def slowly(exchange: Exchange) -> None:
        await exchange.begin_stream()
        for n in range(3):
            await exchange.chunk(b'data: {"n": %d}' % n + line_end * 2)
            await go_on.get()
        await exchange.chunk(DONE)
        await exchange.end_stream()

    async with scripted_worker(slowly) as worker, running_gateway(worker.url) as gateway:
        async with gateway.client.post(
            gateway.url + "/v1/chat/completions", json={**CHAT, "stream": True}
        ) as response:
            for n in range(3):
                async with asyncio.timeout(5):
                    assert events(await response.content.readany()) == [{"n": n}]
                go_on.put_nowait(None)
            assert await response.content.read() == DONE


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_frees_its_slot_and_its_worker_at_once(stream):
    asked = asyncio.Event()

    async def never_ends(exchange: Exchange) -> None:
        if stream:
            await exchange.begin_stream()
            await exchange.chunk(b'data: {"n": 1}\n\n')
        asked.set()
        await exchange.until_peer_leaves()

    async with scripted_worker(never_ends) as worker, running_gateway(worker.url) as gateway:
        body = json.dumps({**CHAT, "stream": stream}).encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rsplit(":", 1)[1]))
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        )
        async with asyncio.timeout(5):
            await asked.wait()
            if stream:
                await reader.readuntil(b'{"n": 1}')
            assert gateway.in_flight() == 1
            worker.hung_up.clear()
            writer.close()
            await worker.hung_up.wait()
        assert gateway.in_flight() == 0
        _, text = await _text(gateway, "/metrics/prometheus")
        assert "radixway_client_disconnects_total 1.0" in text


async def test_a_request_past_its_deadline_gets_504_and_frees_its_slot():
    async def never_answers(exchange: Exchange) -> None:
        await exchange.until_peer_leaves()

    async with (
        scripted_worker(never_answers) as worker,
        running_gateway(worker.url, gateway={"request_timeout_s": 0.2}) as gateway,
    ):
        status, body, _ = await gateway.chat()
        assert (status, body["error"]["code"]) == (504, "deadline_exceeded")
        assert gateway.in_flight() == 0


async def test_without_workers_the_answer_is_503_with_retry_after():
    async with running_gateway() as gateway:
        status, body, headers = await gateway.chat()
        assert (status, body["error"]["code"]) == (503, "no_workers")
        assert int(headers["retry-after"]) > 0
        assert (await gateway.get("/ready"))[0] == 503
        assert (await gateway.get("/health"))[0] == 200


async def test_a_dead_worker_is_taken_out_and_comes_back():
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        port = int(worker.url.rsplit(":", 1)[1])
        await worker.kill()
        status, _, headers = await gateway.chat()
        assert status in (502, 503)
        assert "retry-after" in headers
        await gateway.until(worker.url, WorkerState.DOWN)
        assert (await gateway.chat())[0] == 503
        await worker.start(port)
        await gateway.until(worker.url, WorkerState.READY)
        assert (await gateway.chat())[0] == 200


async def test_a_slow_client_holds_its_worker_back_and_loses_nothing():
    pieces, size = 400, 64 * 1024
    sent = 0

    async def fast(exchange: Exchange) -> None:
        nonlocal sent
        await exchange.begin_stream()
        for n in range(pieces):
            await exchange.chunk(b"data: %06d" % n + b"x" * (size - 14) + b"\n\n")
            sent += size
        await exchange.chunk(DONE)
        await exchange.end_stream()

    async with scripted_worker(fast) as worker, running_gateway(worker.url) as gateway:
        async with gateway.client.post(
            gateway.url + "/v1/chat/completions", json={**CHAT, "stream": True}, read_bufsize=1024
        ) as response:
            read, ahead = b"", 0
            for _ in range(pieces):
                piece = await response.content.readexactly(size)
                read += piece[6:12]
                ahead = max(ahead, sent - len(read) // 6 * size)
            assert await response.content.read() == DONE
        assert read == b"".join(b"%06d" % n for n in range(pieces))
        assert ahead < pieces * size * 0.8, "the gateway swallowed what its client had not asked for"
        assert gateway.in_flight() == 0


async def test_a_client_that_stops_reading_and_leaves_frees_the_worker():
    async def endless(exchange: Exchange) -> None:
        await exchange.begin_stream()
        while True:
            await exchange.chunk(b"data: " + b"x" * 65536 + b"\n\n")

    async with scripted_worker(endless) as worker, running_gateway(worker.url) as gateway:
        body = json.dumps({**CHAT, "stream": True}).encode()
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", int(gateway.url.rsplit(":", 1)[1]), limit=1024
        )
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        )
        async with asyncio.timeout(10):
            await reader.read(1024)
            worker.hung_up.clear()
            writer.transport.abort()
            await worker.hung_up.wait()
        assert gateway.in_flight() == 0


async def test_a_worker_that_speaks_no_http_is_replaced():
    async def garbage(exchange: Exchange) -> None:
        exchange.writer.write(b"\x00\x01 nonsense\r\n\r\n")
        await exchange.writer.drain()
        await exchange.until_peer_leaves()

    async with (
        scripted_worker(garbage) as broken,
        scripted_worker() as sound,
        running_gateway(broken.url, sound.url) as gateway,
    ):
        assert [(await gateway.chat())[0] for _ in range(4)] == [200] * 4


async def test_an_answer_without_a_length_ends_with_its_connection():
    async def old_fashioned(exchange: Exchange) -> None:
        exchange.writer.write(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + b'{"a"'
        )
        await exchange.writer.drain()
        exchange.writer.write(b": 1}")
        await exchange.writer.drain()
        exchange.writer.close()

    async with scripted_worker(old_fashioned) as worker, running_gateway(worker.url) as gateway:
        status, body, _ = await gateway.chat()
        assert (status, body) == (200, {"a": 1})


@pytest.mark.parametrize("size", [300_000, 600_000, 4_000_000])
async def test_a_large_whole_reply_arrives(size):
    async def large(exchange: Exchange) -> None:
        await exchange.reply(200, b'"' + b"x" * size + b'"')

    async with scripted_worker(large) as worker, running_gateway(worker.url) as gateway:
        for _ in range(3):
            status, body, _ = await gateway.chat()
            assert (status, len(body)) == (200, size)


async def test_a_client_that_stops_reading_does_not_keep_its_slot_past_the_deadline():
    async def endless(exchange: Exchange) -> None:
        await exchange.begin_stream()
        while True:
            await exchange.chunk(b"data: " + b"x" * 65536 + b"\n\n")

    async with (
        scripted_worker(endless) as worker,
        running_gateway(worker.url, gateway={"request_timeout_s": 0.5}) as gateway,
    ):
        body = json.dumps({**CHAT, "stream": True}).encode()
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", int(gateway.url.rsplit(":", 1)[1]), limit=1024
        )
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        )
        async with asyncio.timeout(10):
            await reader.read(1024)
            worker.hung_up.clear()
            await worker.hung_up.wait()
        assert gateway.in_flight() == 0
        writer.transport.abort()


async def test_a_body_that_never_ends_is_given_up_at_the_deadline():
    async with running_gateway(gateway={"request_timeout_s": 0.2}) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rsplit(":", 1)[1]))
        writer.write(b"POST /generate HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{")
        async with asyncio.timeout(5):
            assert b" 504 " in await reader.readline()
        writer.close()


class Dawdler:
    """A middleware that asks twice and then waits for something that never comes."""

    def __init__(self, services):
        pass

    async def __call__(self, request, call_next):
        await call_next(request)
        await call_next(request)
        await asyncio.Event().wait()


async def test_a_middleware_that_is_cancelled_leaves_no_stream_open():
    async def stream(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.chunk(b"data: 1\n\n")
        await exchange.until_peer_leaves()

    async with (
        scripted_worker(stream) as worker,
        running_gateway(
            worker.url,
            gateway={"request_timeout_s": 0.3},
            pipeline={"middlewares": [f"{__name__}.Dawdler"]},
        ) as gateway,
    ):
        status, body, _ = await gateway.chat(stream=True)
        assert (status, body["error"]["code"]) == (504, "deadline_exceeded")
        assert len(worker.requests) == 2
        assert gateway.in_flight() == 0


async def test_unknown_fields_are_not_touched_when_the_gateway_chooses_the_model():
    raw = b'{"model": "auto", "messages": [{"role": "user", "content": "x"}], "zz": 1e999, "y": "\\u4f60"}'
    async with scripted_worker(models=["qwen"]) as worker, running_gateway(worker.url) as gateway:
        assert (await gateway.post("/v1/chat/completions", raw))[0] == 200
        assert worker.requests[0].body.endswith(b'"zz":1e999,"y":"\\u4f60"}')
        for odd in (b'"zz": "\xff"', b'"\xff": 1', b'"a": 1, "a": 2', b'"": 0'):
            raw = b'{"model": "auto", "messages": [{"role": "user", "content": "x"}], ' + odd + b"}"
            assert (await gateway.post("/v1/chat/completions", raw))[0] in (200, 400)


async def test_a_model_is_not_missing_while_a_worker_has_not_said_what_it_serves():
    async with running_gateway("http://127.0.0.1:9", wait=False) as gateway:
        status, body, headers = await gateway.chat(model="soon-there")
        assert (status, body["error"]["code"]) == (503, "no_workers")
        assert headers["retry-after"]


async def test_a_worker_that_restarts_is_given_a_moment():
    async with (
        scripted_worker() as worker,
        running_gateway(worker.url, pipeline={"retry": {"attempts": 8, "backoff_s": 0.05}}) as gateway,
    ):
        port = int(worker.url.rsplit(":", 1)[1])
        await worker.kill()
        asking = asyncio.create_task(gateway.chat())
        await gateway.until(worker.url, WorkerState.DOWN)
        await worker.start(port)
        assert (await asking)[0] == 200


async def test_clients_cannot_fill_the_journal_with_long_names():
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        status, body, _ = await gateway.chat(model="m" * 100_000)
        assert (status, body["error"]["param"]) == (400, "model")
        assert len(json.dumps(body)) < 3000


BAD_BODIES = [
    (b"{", None),
    (b"", None),
    (b"\xff\xfe", None),
    (b"[]", None),
    (b'{"model": "m"}', "messages"),
    (b'{"model": "m", "messages": "x"}', "messages"),
    (b'{"model": "m", "messages": []}', "messages"),
    (b'{"model": "m", "messages": [{"role": "user", "content": 5}]}', "messages[0].content"),
    (b'{"model": "m", "messages": [{"content": "x"}]}', "messages[0].role"),
    (b'{"model": 5, "messages": [{"role": "user", "content": "x"}]}', "model"),
    (b'{"model": "m", "messages": [{"role": "user", "content": "\xff"}]}', None),
    (b'{"model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": -1}', "max_tokens"),
    (b'{"model": "m", "messages": [{"role": "user", "content": "x"}], "temperature": -1}', "temperature"),
    (b'{"model": "m", "messages": [{"role": "user", "content": "x"}], "temperature": NaN}', None),
    (
        b'{"messages": [{"role": "user", "content": "x"}], "stream_options": {"include_usage": true}}',
        "stream_options",
    ),
    (b"[" * 100_000, None),
    (b'{"model": "m", "messages": [{"role": "user", "content": ' + b"[" * 100_000, None),
]


@pytest.mark.parametrize(("raw", "param"), BAD_BODIES)
async def test_a_bad_body_gets_a_400_that_names_the_field(raw, param):
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        status, body, headers = await gateway.post("/v1/chat/completions", raw)
        assert status == 400
        assert body["error"]["type"] == "invalid_request_error"
        assert body["error"]["param"] == param
        assert headers["x-request-id"]
        assert not worker.requests


async def test_an_unknown_model_gets_404():
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        status, body, _ = await gateway.chat(model="no-such-model")
        assert (status, body["error"]["code"], body["error"]["param"]) == (404, "model_not_found", "model")


async def test_a_body_over_the_limit_gets_413_declared_or_not():
    async def pieces():
        for _ in range(64):
            yield b"x" * 1024

    async with running_gateway(gateway={"max_body_bytes": 4096}) as gateway:
        assert (await gateway.post("/generate", b"x" * 5000))[0] == 413
        try:
            async with gateway.client.post(gateway.url + "/generate", data=pieces()) as response:
                assert response.status == 413
        except aiohttp.ClientConnectionError:
            pass  # the answer came while the body was still being sent
        assert (await gateway.get("/health"))[0] == 200


async def test_a_50_mb_body_is_read_off_so_that_its_sender_gets_the_413():
    def send(url: str) -> int:
        request = urllib.request.Request(url, data=b"x" * 50_000_000)
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                return response.status
        except urllib.error.HTTPError as error:
            return error.code

    async with running_gateway() as gateway:
        assert await asyncio.to_thread(send, gateway.url + "/v1/chat/completions") == 413


async def test_generate_needs_text_or_ids():
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        for body in ({}, {"text": 5}, {"text": "x", "sampling_params": {"max_new_tokens": -1}}):
            status, answer, _ = await gateway.post("/generate", body)
            assert status == 400, body
            assert answer["error"]["param"] in ("text", "sampling_params.max_new_tokens")
        assert (await gateway.post("/generate", {"input_ids": [1, 2]}))[0] == 200


async def test_a_get_on_a_hot_path_gets_405():
    async with running_gateway() as gateway:
        assert (await gateway.get("/generate"))[0] == 405


async def test_destination_headers_of_strangers_do_not_travel_but_others_do():
    headers = {
        "x-vsr-model": "a",
        "x-tenant-id": "b",
        "x-session-id": "c",
        "authorization": "Bearer s",
        "cookie": "d",
        "x-api-key": "k",
        "x-amz-security-token": "t",
    }
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        await gateway.post("/v1/chat/completions", CHAT, headers={**headers, "x-request-id": "r-1"})
        seen = worker.requests[0].headers
        assert seen["x-session-id"] == "c"
        assert seen["x-request-id"] == "r-1"
        hidden = {
            "x-vsr-model",
            "x-tenant-id",
            "authorization",
            "cookie",
            "x-api-key",
            "x-amz-security-token",
        }
        assert not hidden & set(seen)


async def _text(gateway, path: str) -> tuple[int, str]:
    async with gateway.client.get(gateway.url + path) as response:
        return response.status, await response.text()
