"""The engine as a process: it says what is wrong before it serves, and drains when told to end."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2 as httpx
import pytest

from radixway.core.config.engine import EngineConfig
from radixway.core.http import bind_tcp
from radixway.engine.errors import EngineError, ModelNotFoundError
from radixway.engine.server import AddressInUseError, build_app, serve
from radixway.engine.server.launcher import serve_app
from support.scripted_engine import GUIDE, ScriptedEngine

PROCESS = """
import uvloop

from radixway.core.config.engine import EngineConfig
from radixway.engine.server import serve

uvloop.run(
    serve(
        EngineConfig(threads=1, kv_tokens=8192),
        "127.0.0.1",
        0,
        on_ready=lambda url: print(url, flush=True),
        progress=lambda what, share: print(what, share, flush=True),
        drain_s=DRAIN_S,
    )
)
print("drained", flush=True)
"""


@asynccontextmanager
async def engine_process(drain_s: float) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A process that runs the engine, and its URL once it is ready."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROCESS.replace("DRAIN_S", str(drain_s)),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    try:
        assert process.stdout is not None
        line = b""
        while not line.startswith(b"http://"):
            line = await process.stdout.readline()
            assert line, "the process ended before it was ready"
        yield process, line.decode().strip()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
async def test_a_signal_lets_running_answers_finish_and_ends_with_0(number: signal.Signals) -> None:
    async with engine_process(30) as (process, url), httpx.AsyncClient(base_url=url, timeout=60) as http:
        body = {"prompt": "go on", "max_tokens": 60, "ignore_eos": True, "stream": True}
        async with http.stream("POST", "/v1/completions", json=body) as response:
            lines = response.aiter_lines()
            first = await anext(lines)
            process.send_signal(number)
            events = [first, *[line async for line in lines if line]]
        assert events[-1] == "data: [DONE]" and '"finish_reason":"length"' in events[-2]
        assert process.stdout is not None
        assert await process.stdout.read() == b"drained\n"
        assert await process.wait() == 0


async def until_draining(url: str) -> None:
    """Wait until the server takes no new connections."""
    while True:
        async with httpx.AsyncClient(base_url=url) as newcomer:
            try:
                await newcomer.get("/ready")
            except httpx.TransportError:
                return


@pytest.mark.slow
async def test_a_second_signal_does_not_wait() -> None:
    async with engine_process(600) as (process, url), httpx.AsyncClient(base_url=url, timeout=60) as http:
        body = {"prompt": "go on", "max_tokens": 4000, "ignore_eos": True, "stream": True}
        async with http.stream("POST", "/v1/completions", json=body) as response:
            lines = response.aiter_lines()
            await anext(lines)
            process.send_signal(signal.SIGTERM)
            await until_draining(url)
            process.send_signal(signal.SIGTERM)
            assert await process.wait() != 0


@asynccontextmanager
async def scripted_server(
    drain_s: float,
) -> AsyncIterator[tuple[ScriptedEngine, httpx.AsyncClient, asyncio.Event]]:
    """A scripted engine whose answers stop after one token, a client of its server, and what ends it."""
    engine = ScriptedEngine()
    engine.hold_after = 1
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    app = build_app(engine, engine.tokenizer, engine.config)  # type: ignore[arg-type]
    with bind_tcp("127.0.0.1", 0) as listener:
        serving = asyncio.create_task(
            serve_app(app, listener, stop=stop, on_ready=ready.set_result, drain_s=drain_s)
        )
        async with httpx.AsyncClient(base_url=await ready, timeout=60) as client:
            yield engine, client, stop
        stop.set()
        await serving


async def test_while_it_drains_new_connections_are_refused() -> None:
    async with scripted_server(drain_s=60) as (engine, client, stop):
        asking = asyncio.create_task(client.post("/generate", json={"text": "go on", "rid": "r"}))
        await engine.holding.wait()
        stop.set()
        await until_draining(str(client.base_url))
        assert not asking.done()
        for generation in engine.running.copy():
            engine.abort_request(generation)
        assert (await asking).json()["meta_info"]["finish_reason"]["type"] == "abort"


@pytest.mark.parametrize("stream", [False, True])
async def test_what_does_not_finish_in_time_is_ended(stream: bool) -> None:
    async with scripted_server(drain_s=0) as (engine, client, stop):
        body = {"prompt": "go on", "stream": stream}
        asking = asyncio.create_task(client.post("/v1/completions", json=body))
        await engine.holding.wait()
        stop.set()
        assert '"finish_reason":"abort"' in (await asking).text


def test_a_busy_port_is_one_clear_sentence() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(AddressInUseError, match=rf"cannot listen on 127\.0\.0\.1:{port}: .*in use"):
            asyncio.run(serve(EngineConfig(), "127.0.0.1", port))


@pytest.mark.parametrize("host", ["256.1.1.1", "no-such-host.invalid", "192.0.2.1"])
def test_an_address_that_is_not_ours_is_one_clear_sentence(host: str) -> None:
    with pytest.raises(AddressInUseError, match="cannot listen on"):
        asyncio.run(serve(EngineConfig(), host, 0))


async def test_a_missing_model_is_one_clear_sentence(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="nothing-here"):
        await serve(EngineConfig(model=str(tmp_path / "nothing-here")), "127.0.0.1", 0)


async def test_a_model_without_tokenizer_is_one_clear_sentence(tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).symlink_to(GUIDE / name)
    with pytest.raises(EngineError, match=r"no tokenizer\.json"):
        await serve(EngineConfig(model=str(tmp_path)), "127.0.0.1", 0)


async def test_a_stop_while_the_model_loads_ends_at_once() -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    told: list[str] = []

    def progress(what: str, share: float) -> None:
        told.append(what)
        asyncio.run_coroutine_threadsafe(_set(stop), loop).result()

    await serve(EngineConfig(), "127.0.0.1", 0, progress=progress, stop=stop)
    assert len(told) == 1


async def test_a_second_signal_while_the_model_loads_is_left_to_the_system() -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    left_to: list[object] = []

    def progress(what: str, share: float) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        asyncio.run_coroutine_threadsafe(stop.wait(), loop).result()
        left_to.append(signal.getsignal(signal.SIGINT))

    before = signal.getsignal(signal.SIGINT)
    try:
        await serve(EngineConfig(), "127.0.0.1", 0, progress=progress, stop=stop)
    finally:
        signal.signal(signal.SIGINT, before)
    assert left_to == [signal.SIG_DFL]


async def _set(event: asyncio.Event) -> None:
    event.set()


async def test_a_served_model_has_the_name_it_was_given_or_that_of_its_directory() -> None:
    engine = ScriptedEngine()
    for config, want in [
        (EngineConfig(), "radixway-guide"),
        (EngineConfig(model="some-org/some-model"), "some-org/some-model"),
    ]:
        app = build_app(engine, engine.tokenizer, config)  # type: ignore[arg-type]
        assert app.service.names == (want,)
