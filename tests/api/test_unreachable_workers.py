"""Workers with a bad certificate or a wrong address: the log, the listing and clients say what is wrong."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from radixway.routing import WorkerState
from support.certificates import certificate
from support.running_gateway import RunningGateway, running_gateway
from support.scripted_worker import scripted_worker

QUICK = {"health": {"interval_s": 0.02, "timeout_s": 0.3, "backoff_max_s": 0.02}}

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port at which somebody listens."""
    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls) as server:
        yield server.sockets[0].getsockname()[1]


async def be_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.close()


async def speak_ssh(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.7\r\n")
    await reader.read()
    writer.close()


async def refuse_what_is_no_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
    await writer.drain()
    writer.close()


@asynccontextmanager
async def wrong(kind: str, folder: Path) -> AsyncIterator[str]:
    """A URL at which something is wrong in that way."""
    pem, key, _ = certificate("worker", folder)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pem, key)
    match kind:
        case "certificate":
            async with serving(hang_up, tls) as port:
                yield f"https://127.0.0.1:{port}"
        case "http asked for at a TLS port":
            async with serving(be_silent, tls) as port:
                yield f"http://127.0.0.1:{port}"
        case "tls":
            async with serving(refuse_what_is_no_http) as port:
                yield f"https://127.0.0.1:{port}"
        case "name":
            yield "http://worker.invalid:8000"
        case "refused":
            async with serving(hang_up) as port:
                pass
            yield f"http://127.0.0.1:{port}"
        case _:
            serve = {"ssh": speak_ssh, "timeout": be_silent, "hangs up": hang_up}[kind]
            async with serving(serve) as port:
                yield f"http://127.0.0.1:{port}"


WRONG = {
    "certificate": ("certificate", "its TLS certificate is not valid: self-signed certificate"),
    "http asked for at a TLS port": ("no_http", "it closes the connection without an answer"),
    "tls": ("tls", "TLS fails, does it speak https?"),
    "name": ("name", "its name does not resolve"),
    "refused": ("refused", "it refuses connections"),
    "ssh": ("no_http", "what comes back is not HTTP"),
    "hangs up": ("no_http", "it closes the connection without an answer"),
    "timeout": ("timeout", "no answer within 0.3 s"),
}
FOR_CLIENTS = {
    "certificate": "a TLS certificate that is not valid",
    "tls": "TLS that fails",
    "name": "a name that does not resolve",
    "refused": "connections refused",
    "no_http": "something that does not speak HTTP",
    "timeout": "no answer in time",
}


async def failed_probes(gateway: RunningGateway, url: str, least: int) -> None:
    worker = gateway.gateway.registry.get_worker(url)
    async with asyncio.timeout(20):
        while worker.failures < least:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("name", WRONG)
async def test_what_is_wrong_with_a_worker_is_said_once_and_where_people_look(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "radixway.routing.health_monitor")
    kind, words = WRONG[name]
    async with wrong(name, tmp_path) as url, running_gateway(routing=QUICK) as gateway:
        await gateway.post("/add_worker", {"url": url, "models": ["m"]})
        await failed_probes(gateway, url, 8)
        _, told = await gateway.get("/list_workers")
        (worker,) = told["workers"]
        assert worker["error_kind"] == kind and words in worker["last_error"]
        status, said, _ = await gateway.chat()
        assert (status, said["error"]["code"]) == (503, "no_workers")
        assert f"out of reach: 1 × {FOR_CLIENTS[kind]}" in said["error"]["message"]
    lines = [record.getMessage() for record in caplog.records if "is down" in record.getMessage()]
    assert len(lines) == 1 and words in lines[0], lines


async def test_the_log_tells_of_each_change_and_of_the_way_back(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "radixway.routing.health_monitor")
    async with scripted_worker() as worker, running_gateway(worker.url, routing=QUICK) as gateway:
        worker.deaf = True
        await gateway.until(worker.url, WorkerState.DOWN)
        await failed_probes(gateway, worker.url, 6)
        await worker.kill()
        known = gateway.gateway.registry.get_worker(worker.url)
        async with asyncio.timeout(20):
            while known.logged_kind != "refused":  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)
        worker.deaf = False
        await worker.start(int(worker.url.rsplit(":", 1)[1]))
        await gateway.until(worker.url, WorkerState.READY)
        _, told = await gateway.get("/list_workers")
        assert told["workers"][0]["error_kind"] is None
    ours = [r.getMessage() for r in caplog.records if worker.url[7:] in r.getMessage()]
    said = [line.split("worker ")[1].partition(" ")[2] for line in ours]
    kinds = [
        "timeout" if "no answer" in line else "refused" if "refuses" in line else "answers" for line in said
    ]
    told_kinds = [kind for kind in kinds if kind != "answers"]
    assert told_kinds == ["timeout", "refused"] and kinds[-1] == "answers"


async def test_health_checks_open_connections_of_their_own() -> None:
    """One that is kept would say nothing of what a name and a certificate are by now."""
    requests = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(0)
        while await reader.readline():
            while await reader.readline() not in (b"\r\n", b""):
                pass
            requests[-1] += 1
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        writer.close()

    async with serving(serve) as port, running_gateway(routing=QUICK) as gateway:
        url = f"http://127.0.0.1:{port}"
        await gateway.post("/add_worker", {"url": url, "models": ["m"]})
        await gateway.until(url, WorkerState.READY)
    assert len(requests) >= 3 and set(requests[:-1]) == {1} and requests[-1] <= 1  # the last may be cut short
