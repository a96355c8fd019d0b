"""A real Envoy, a real gateway beside it, workers behind: what holds whatever becomes of any of them."""

import asyncio
import json
import os
import re
import signal
import sys
from contextlib import asynccontextmanager

import aiohttp
import pytest

from support.engine_process import engine_process
from support.envoy_process import configuration, running_envoy
from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

pytest.importorskip("grpc")

CHAT = "/v1/chat/completions"
PATIENCE_S = 30


def body(**fields):
    return {"model": "m", "messages": [{"role": "user", "content": "hello"}], **fields}


def event(text):
    delta = {"choices": [{"index": 0, "delta": {"content": text}}]}
    return b"data: " + json.dumps(delta).encode() + b"\n\n"


@asynccontextmanager
async def through_envoy(folder, *urls, envoy=None, **sections):
    """A client, an Envoy, a gateway that decides for it, in front of these workers."""
    sections["ext_proc"] = {"enabled": True, "port": 0} | sections.get("ext_proc", {})
    async with running_gateway(*urls, **sections) as gateway:
        tree = configuration(gateway.gateway.ext_proc_server.port, **(envoy or {}))
        async with running_envoy(tree, folder) as envoy_process, asyncio.timeout(PATIENCE_S):
            async with aiohttp.ClientSession(envoy_process.url) as client:
                yield client, gateway, envoy_process


async def test_envoy_sends_a_request_where_the_gateway_decides(tmp_path):
    async with scripted_worker(models=["m"]) as first, scripted_worker(models=["other"]) as second:
        async with through_envoy(tmp_path, first.url, second.url) as (client, _, _):
            for model, worker in (("other", second), ("m", first)):
                spoofed = {"x-gateway-destination-endpoint": "127.0.0.1:9", "x-vsr-model": "evil"}
                async with client.post(CHAT, json=body(model=model), headers=spoofed) as response:
                    assert response.status == 200
                    assert response.headers["x-radixway-worker"] == worker.url.removeprefix("http://")
                    assert await response.read() == (
                        b'{"choices": [{"message": {"content": "ok"}}], "odd":  1e-5}'
                    )
                assert len(worker.requests) == 1
                got = worker.requests[0]
                assert got.body == json.dumps(body(model=model)).encode()
                assert got.headers["x-selected-model"] == model
                assert "x-vsr-model" not in got.headers


async def test_each_event_of_a_stream_passes_before_the_next_one_is_written(tmp_path):
    heard = asyncio.Event()

    async def one_at_a_time(exchange):
        await exchange.begin_stream()
        for text in ("one", "two", "three"):
            await exchange.chunk(event(text))
            await heard.wait()  # the client confirms it: only then there is a next one
            heard.clear()
        await exchange.chunk(b"data: [DONE]\n\n")
        await exchange.end_stream()

    async with scripted_worker(one_at_a_time) as worker:
        async with through_envoy(tmp_path, worker.url) as (client, gateway, _):
            async with client.post(CHAT, json=body(stream=True)) as response:
                assert response.headers["content-type"] == "text/event-stream"
                assert response.headers["x-radixway-worker"]
                for text in ("one", "two", "three"):
                    assert await response.content.readuntil(b"\n\n") == event(text)
                    heard.set()
                assert await response.content.read() == b"data: [DONE]\n\n"
            assert gateway.in_flight() == 0


async def test_a_client_that_leaves_frees_its_place_at_the_worker(tmp_path):
    async def never_ends(exchange):
        await exchange.begin_stream()
        await exchange.chunk(event("one"))
        await exchange.until_peer_leaves()

    async with scripted_worker(never_ends) as worker:
        async with through_envoy(tmp_path, worker.url) as (client, gateway, _):
            async with client.post(CHAT, json=body(stream=True)) as response:
                await response.content.readuntil(b"\n\n")
                assert gateway.in_flight() == 1
            await worker.hung_up.wait()
            steps = await explained(gateway, response.headers["x-request-id"])
            assert "client_left" in [step["step"] for step in steps]
            assert gateway.in_flight() == 0


async def explained(gateway, request_id):
    """The journal of a request, once that is over."""
    while True:
        status, told = await gateway.get(f"/explain/{request_id}")
        if status == 200:
            return told["steps"]
        await asyncio.sleep(0.01)  # it is kept when it ends, which nobody is told


async def test_large_bodies_pass_in_both_directions(tmp_path):
    async def echo(exchange):
        text = exchange.json()["messages"][0]["content"]
        choice = {"index": 0, "message": {"role": "assistant", "content": text}}
        await exchange.reply(200, json.dumps({"choices": [choice]}).encode())

    async with scripted_worker(echo) as worker:
        async with through_envoy(tmp_path, worker.url) as (client, _, _):
            text = "很长" * 1_000_000
            messages = [{"role": "user", "content": text}]
            async with client.post(CHAT, json=body(model="auto", messages=messages)) as response:
                assert (await response.json())["choices"][0]["message"]["content"] == text
            assert worker.requests[0].json()["model"] == "m"


async def test_without_the_right_to_change_modes_a_stream_comes_whole(tmp_path):
    async def at_once(exchange):
        await exchange.begin_stream()
        await exchange.chunk(event("one"))
        await exchange.chunk(event("two") + b"data: [DONE]\n\n")
        await exchange.end_stream()

    async with scripted_worker(at_once) as worker:
        fixed = {"allow_mode_override": False}
        async with through_envoy(tmp_path, worker.url, envoy=fixed) as (client, _, _):
            async with client.post(CHAT, json=body(stream=True)) as response:
                assert await response.read() == event("one") + event("two") + b"data: [DONE]\n\n"
                assert response.headers["x-radixway-worker"]


async def test_a_worker_that_breaks_off_ends_the_clients_stream_and_frees_its_place(tmp_path):
    heard = asyncio.Event()

    async def breaks_off(exchange):
        await exchange.begin_stream()
        await exchange.chunk(event("one"))
        await heard.wait()
        exchange.die()

    async with scripted_worker(breaks_off) as worker:
        async with through_envoy(tmp_path, worker.url) as (client, gateway, _):
            async with client.post(CHAT, json=body(stream=True)) as response:
                assert await response.content.readuntil(b"\n\n") == event("one")
                heard.set()
                with pytest.raises(aiohttp.ClientError):
                    await response.content.read()
            await explained(gateway, response.headers["x-request-id"])
            assert gateway.in_flight() == 0


@pytest.mark.parametrize(
    ("request_", "answer"), [("STREAMED", "BUFFERED"), ("NONE", "NONE"), ("BUFFERED", "NONE")]
)
async def test_an_envoy_that_shows_no_whole_bodies_gets_no_request_through(request_, answer, tmp_path):
    mode = {"request_body_mode": request_, "response_body_mode": answer}
    async with scripted_worker() as worker:
        envoy = {"processing_mode": mode, "failure_mode_allow": True}
        async with through_envoy(tmp_path, worker.url, envoy=envoy) as (client, _, _):
            async with client.post(CHAT, json=body()) as response:
                assert response.status == 500
                assert (await response.json())["error"]["code"] == "ext_proc_misconfigured"
        assert worker.requests == []


@pytest.mark.slow
async def test_an_engine_answers_through_envoy_as_it_does_by_itself(tmp_path):
    asked = body(model="auto", temperature=0, max_tokens=24)
    with engine_process() as (url, _):
        async with through_envoy(tmp_path, url) as (client, gateway, _):
            async with client.post(CHAT, json=asked) as response:
                through = (await response.json())["choices"][0]["message"]["content"]
            _, direct, _ = await gateway.post(CHAT, asked)
            assert through == direct["choices"][0]["message"]["content"]
            async with client.post(CHAT, json=asked | {"stream": True}) as response:
                events = (await response.read()).split(b"\n\n")
            chunks = [
                json.loads(each.removeprefix(b"data: ")) for each in events if each.startswith(b"data: {")
            ]
            deltas = [choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"]]
            assert "".join(deltas) == through and events[-2] == b"data: [DONE]"


async def test_what_the_gateway_answers_itself_no_worker_sees(tmp_path):
    async with scripted_worker() as worker:
        async with through_envoy(tmp_path, worker.url) as (client, _, _):
            for data, status, param in (
                (b"{", 400, None),
                (b"", 400, None),
                (json.dumps(body(messages=[])).encode(), 400, "messages"),
                (json.dumps(body(model="nobody's")).encode(), 404, "model"),
            ):
                async with client.post(CHAT, data=data) as response:
                    assert response.status == status
                    assert (await response.json())["error"]["param"] == param
            async with client.get("/v1/models") as response:
                assert [model["id"] for model in (await response.json())["data"]] == ["m"]
            async with client.post("/add_worker?url=http://127.0.0.1:9") as response:
                assert response.status == 404
        assert worker.requests == []


async def test_with_its_workers_dead_a_client_gets_503(tmp_path):
    async with scripted_worker() as worker:
        slow = {"health": {"interval_s": 600}}  # the gateway has not noticed
        async with through_envoy(tmp_path, worker.url, routing=slow) as (client, gateway, _):
            await worker.kill()
            async with client.post(CHAT, json=body()) as response:
                assert response.status == 503
            assert gateway.in_flight() == 0
            async with client.post(CHAT, json=body(stream=True)) as response:
                assert response.status == 503
            assert gateway.in_flight() == 0


@asynccontextmanager
async def gateway_process(worker_url, port, ext_proc_port):
    """`radixway serve` in a process that can be killed, once it is ready."""
    command = [sys.executable, "-m", "radixway", "serve", "--port", str(port), "--worker", worker_url]
    command += ["--ext-proc-port", str(ext_proc_port)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        async with asyncio.timeout(PATIENCE_S), aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client:
            while not re.match(rb"ext_proc 127", line := await process.stdout.readline()):
                assert line, "it ended"
            await until_ready(client)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def until_ready(client):
    """It hears from its worker in its own time."""
    while True:
        async with client.get("/ready") as response:
            if response.status == 200:
                return
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("fails_open", [True, False])
async def test_requests_find_the_default_route_or_stop_when_the_gateway_is_killed(
    fails_open, tmp_path, free_port, other_free_port
):
    at_worker, go_on = asyncio.Event(), asyncio.Event()

    async def when_told(exchange):
        at_worker.set()
        await go_on.wait()
        await exchange.reply(200, b'{"from": "chosen"}')

    async def by_default(exchange):
        await exchange.reply(200, b'{"from": "default"}')

    async with scripted_worker(when_told) as chosen, scripted_worker(by_default) as default:
        tree = configuration(
            other_free_port, int(default.url.rpartition(":")[2]), failure_mode_allow=fails_open
        )
        async with (
            gateway_process(chosen.url, free_port, other_free_port) as gateway,
            running_envoy(tree, tmp_path) as envoy,
            asyncio.timeout(PATIENCE_S),
            aiohttp.ClientSession(envoy.url) as client,
        ):

            async def ask():
                headers = {"x-gateway-destination-endpoint": chosen.url.removeprefix("http://")}
                async with client.post(CHAT, json=body(), headers=headers) as response:
                    return response.status, await response.read()

            under_way = [asyncio.create_task(ask()) for _ in range(4)]
            await at_worker.wait()
            os.kill(gateway.pid, signal.SIGKILL)
            await gateway.wait()
            seen = len(chosen.requests)
            after = [await ask() for _ in range(8)]
            go_on.set()
            await asyncio.gather(*under_way)
            assert len(chosen.requests) == seen  # where a client wants to go is no matter
            if fails_open:
                assert after == [(200, b'{"from": "default"}')] * 8
            else:
                assert {status for status, _ in after} <= {500, 503, 504}
                assert default.requests == []
