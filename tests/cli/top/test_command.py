"""`radixway top` where nobody looks at a screen: one frame, for scripts."""

import asyncio
import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from radixway.cli import app
from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, scripted_worker


async def top(*args, **more):
    """In a thread, as the gateway has the loop."""
    return await asyncio.to_thread(CliRunner().invoke, app, ["top", *args, "--interval", "0.1"], **more)


async def test_one_frame_as_text_and_as_json():
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        await gateway.chat()
        told = await top(gateway.url, "--once")
        assert told.exit_code == 0, told.output
        assert "1 of 1 workers ready" in told.output
        assert worker.url.removeprefix("http://") in told.output
        told = await top("--json", "--filter", "nothing like it", env={"RADIXWAY_URL": gateway.url})
        frame = json.loads(told.output)
        assert frame["gateway"] == gateway.url
        assert (frame["figures"]["ready"], frame["workers"], frame["requests"]) == (1, [], [])


async def test_a_terminal_of_letters_alone_gets_letters():
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        await gateway.chat()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "radixway", "top", gateway.url, "--once", "--interval", "0.1"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PYTHONIOENCODING": "ascii", "PYTHONPATH": ":".join(sys.path), "HOME": "/nowhere"},
        )
        shown, errors = await process.communicate()
        assert process.returncode == 0, errors
        assert b"1 of 1 workers ready" in shown.decode("ascii").encode()


async def test_no_gateway_and_no_terminal_end_in_one_sentence(free_port):
    told = await top(f"http://127.0.0.1:{free_port}", "--once")
    assert told.exit_code == 2
    assert "no gateway answers" in told.output
    told = await top(f"http://127.0.0.1:{free_port}")
    assert told.exit_code == 2
    assert "standard output is no terminal" in told.output


@pytest.mark.parametrize(
    ("metrics", "workers", "requests"),
    [
        (b"\xff\xfe", b'{"workers": []}', b'{"requests": []}'),
        (b"radixway_workers 1\n", b'{"workers": []}', b'{"requests": [{"id": "a", "began_at": 1e300}]}'),
    ],
)
async def test_what_no_gateway_says_ends_in_one_sentence(metrics, workers, requests):
    async with scripted_worker(saying(metrics, workers, requests)) as server:
        told = await top(server.url, "--once")
    assert told.exit_code == 2
    assert f"what answers at {server.url} is no gateway" in told.output.replace("\n", " ")


async def test_numbers_that_are_none_are_not_drawn():
    metrics = b"radixway_in_flight +Inf\nradixway_workers NaN\nradixway_workers_ready 1e308\n"
    async with scripted_worker(saying(metrics, b'{"workers": []}', b'{"requests": []}')) as server:
        told = await top(server.url, "--once")
    assert told.exit_code == 0, told.output
    assert "0 of 0 workers ready" in told.output


def saying(metrics, workers, requests):
    async def answer(exchange: Exchange) -> None:
        said = {"/metrics/prometheus": metrics, "/list_workers": workers}
        await exchange.reply(200, said.get(exchange.path, requests))

    return answer
