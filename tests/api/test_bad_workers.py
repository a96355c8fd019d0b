"""Workers that hang, break every request, refuse, redirect or are the gateway itself. Real sockets."""

import asyncio
import json
from urllib.parse import urlsplit

import pytest

from radixway.core.config import WorkerSettings
from radixway.routing import WorkerState
from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, answer_ok, scripted_worker

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
WATCHFUL = {"health": {"interval_s": 0.05, "timeout_s": 0.1, "backoff_max_s": 0.1}}


class Hanging:
    """Takes requests and answers nothing, or nothing more than `before`, until released."""

    def __init__(self, before: bytes = b"") -> None:
        self.before = before
        self.asked = asyncio.Event()
        self.release = asyncio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        if self.before:
            await exchange.begin_stream()
            await exchange.chunk(self.before)
        self.asked.set()
        await self.release.wait()


async def first_error(worker) -> None:
    async with asyncio.timeout(10):
        while worker.last_error is None:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)


async def test_a_worker_whose_server_info_is_slow_serves_and_one_whose_model_list_is_does_not_yet():
    async with (
        scripted_worker(silent_paths=frozenset({"/server_info"})) as slow,
        scripted_worker(silent_paths=frozenset({"/v1/models"})) as stuck,
        running_gateway(slow.url, routing=WATCHFUL) as gateway,
    ):
        assert (await gateway.chat())[0] == 200
        worker = gateway.gateway.registry.add_worker(WorkerSettings(url=stuck.url))
        await first_error(worker)
        assert worker.state is WorkerState.JOINING and "/v1/models" in worker.last_error


async def test_a_request_that_hangs_with_its_worker_is_tried_elsewhere():
    hanging = Hanging()
    async with (
        scripted_worker(hanging) as stuck,
        scripted_worker() as well,
        running_gateway(stuck.url, well.url, routing=WATCHFUL) as gateway,
    ):
        asking = [asyncio.create_task(gateway.chat()) for _ in range(2)]
        await hanging.asked.wait()
        stuck.deaf = True
        async with asyncio.timeout(10):
            assert [(await task)[0] for task in asking] == [200, 200]
        assert gateway.gateway.registry.get_worker(stuck.url).state is WorkerState.DOWN
        assert gateway.in_flight() == 0
        hanging.release.set()


async def test_a_stream_that_hangs_with_its_worker_ends_with_an_error_event():
    hanging = Hanging(before=b'data: {"n": 1}\n\n')
    async with (
        scripted_worker(hanging) as stuck,
        running_gateway(stuck.url, routing=WATCHFUL) as gateway,
    ):
        url = gateway.url + "/v1/chat/completions"
        async with gateway.client.post(url, json={**CHAT, "stream": True}) as response:
            await hanging.asked.wait()
            stuck.deaf = True
            async with asyncio.timeout(10):
                raw = await response.read()
        assert b'{"n": 1}' in raw
        assert json.loads(raw.split(b"data: ")[-1])["error"]["code"] == "stream_broken"
        assert gateway.in_flight() == 0
        hanging.release.set()


async def test_a_stream_that_goes_on_outlives_failed_health_checks():
    begun = asyncio.Event()

    async def slow_but_alive(exchange: Exchange) -> None:
        await exchange.begin_stream()
        begun.set()
        for n in range(40):
            await exchange.chunk(b'data: {"n": %d}\n\n' % n)
            await asyncio.sleep(0.02)
        await exchange.chunk(b"data: [DONE]\n\n")
        await exchange.end_stream()

    async with (
        scripted_worker(slow_but_alive) as worker,
        running_gateway(worker.url, routing=WATCHFUL) as gateway,
    ):
        url = gateway.url + "/v1/chat/completions"
        async with gateway.client.post(url, json={**CHAT, "stream": True}) as response:
            await begun.wait()
            worker.deaf = True
            raw = await response.read()
        assert raw.count(b"data: {") == 40 and raw.endswith(b"data: [DONE]\n\n")


async def test_a_worker_that_breaks_every_request_is_soon_asked_last():
    async def die(exchange: Exchange) -> None:
        exchange.die()

    async with (
        scripted_worker(die) as broken,
        scripted_worker() as well,
        running_gateway(broken.url, well.url) as gateway,
    ):
        for _ in range(20):
            assert (await gateway.chat())[0] == 200
        assert gateway.gateway.registry.get_worker(broken.url).state is WorkerState.READY, (
            "its health checks pass"
        )
        assert len(broken.requests) < 8


@pytest.mark.parametrize("status", [429, 503])
async def test_a_worker_that_is_full_sends_its_requests_elsewhere_or_speaks_for_itself(status):
    own_words = b'{"error": {"message": "the queue is full", "code": "queue_full"}}'

    async def full(exchange: Exchange) -> None:
        await exchange.reply(status, own_words)

    async with (
        scripted_worker(full) as one,
        scripted_worker(full) as other,
        scripted_worker() as free,
        running_gateway(one.url, other.url, free.url) as gateway,
    ):
        assert [(await gateway.chat())[0] for _ in range(6)] == [200] * 6
        gateway.gateway.registry.remove_worker(free.url)
        answered, body, _ = await gateway.chat()
        assert (answered, body) == (status, json.loads(own_words))


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 307 X\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 799 X\r\ncontent-length: 2\r\n\r\n{}",
    ],
)
async def test_a_redirect_or_a_status_that_does_not_exist_is_a_failure_of_the_worker(raw):
    async def odd(exchange: Exchange) -> None:
        exchange.writer.write(raw)
        await exchange.writer.drain()

    async with scripted_worker(odd) as worker, running_gateway(worker.url) as gateway:
        status, body, headers = await gateway.chat()
        assert (status, body["error"]["code"]) == (502, "worker_failed")
        assert "location" not in headers


async def test_what_a_worker_says_to_browsers_is_not_passed_on():
    async def eager(exchange: Exchange) -> None:
        exchange.writer.write(
            b"HTTP/1.1 200 OK\r\nset-cookie: a=b\r\nalt-svc: h3\r\nx-mine: 1\r\ncontent-length: 2\r\n\r\n{}"
        )
        await exchange.writer.drain()

    async with scripted_worker(eager) as worker, running_gateway(worker.url) as gateway:
        _, _, headers = await gateway.chat()
        assert headers["x-mine"] == "1"
        assert not {"set-cookie", "alt-svc"} & set(headers)


async def test_a_gateway_that_is_its_own_worker_is_never_ready_and_says_why():
    async with running_gateway() as gateway:
        await gateway.post("/add_worker", {"url": gateway.url, "models": ["m"]})
        worker = gateway.gateway.registry.get_worker(gateway.url)
        await first_error(worker)
        assert "this gateway" in worker.last_error
        assert (await gateway.chat())[0] == 503


async def test_gateways_in_a_ring_end_a_request_that_comes_back():
    async with running_gateway() as one, running_gateway() as other:
        await other.post("/add_worker", {"url": one.url, "models": ["m"]})
        await other.until(one.url, WorkerState.READY)
        await one.post("/add_worker", {"url": other.url, "models": ["m"]})
        await one.until(other.url, WorkerState.READY)
        async with asyncio.timeout(10):
            status, body, _ = await one.chat()
            assert (status, body["error"]["code"]) == (508, "loop_detected")
            assert (await one.get("/server_info"))[0] == 508


async def test_two_gateways_in_a_row_are_no_loop():
    async with (
        scripted_worker() as worker,
        running_gateway(worker.url) as inner,
        running_gateway(inner.url) as outer,
    ):
        assert (await outer.chat())[0] == 200
        assert worker.requests[-1].headers["via"].count("radixway") >= 1


async def test_a_worker_that_says_too_much_of_itself_is_not_well():
    async with scripted_worker(models=["m" * 9_000_000]) as endless, running_gateway() as gateway:
        await gateway.post("/add_worker", {"url": endless.url})
        worker = gateway.gateway.registry.get_worker(endless.url)
        await first_error(worker)
        assert "more than" in worker.last_error


async def test_a_health_check_that_hangs_is_told_as_such():
    async with scripted_worker() as worker, running_gateway(worker.url, routing=WATCHFUL) as gateway:
        worker.deaf = True
        await gateway.until(worker.url, WorkerState.DOWN)
        assert gateway.gateway.registry.get_worker(worker.url).last_error == "/health: no answer within 0.1 s"


async def test_a_journal_is_found_by_an_id_with_a_slash():
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        await gateway.post("/v1/chat/completions", CHAT, headers={"x-request-id": "a/b"})
        status, journal = await gateway.get("/explain/a/b")
        assert (status, journal["request_id"]) == (200, "a/b")


@pytest.mark.parametrize("upgrade", ["h2c", "websocket", "nonsense"])
async def test_a_body_survives_an_offer_to_upgrade(upgrade):
    async with scripted_worker(answer_ok) as worker, running_gateway(worker.url) as gateway:
        body = json.dumps(CHAT).encode()
        address = urlsplit(gateway.url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
            b"connection: Upgrade, HTTP2-Settings\r\nupgrade: %b\r\ncontent-length: %d\r\n\r\n%b"
            % (upgrade.encode(), len(body), body)
        )
        async with asyncio.timeout(5):
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()
        assert worker.requests[0].json() == CHAT
