"""The gateway benchmark over real sockets: it refuses wrong answers, and it shows how long clients waited."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.pages import ROOT

PROXY = """
import asyncio, sys, time

async def relay(reader, writer, replace):
    while data := await reader.read(2**16):
        writer.write(data.replace(*replace))
    writer.close()

async def main(port, worker, fault):
    answers = 0

    async def on_client(reader, writer):
        nonlocal answers
        upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", int(worker.rpartition(":")[2]))
        asyncio.ensure_future(relay(reader, upstream, (b"", b"")))
        while data := await upstream_reader.read(2**16):
            answers += data.startswith(b"HTTP/1.1 200 OK")
            if fault == "stall" and answers % 100 == 0:
                time.sleep(0.3)
            if fault == "lie":
                data = data.replace(b"word7 ", b"word8 ")
            elif fault == "refuse" and answers > 10:
                data = data.replace(b"200 OK", b"500 No")
            elif fault == "drop" and answers > 10:
                break
            writer.write(data)
        upstream.close()
        writer.close()

    async with await asyncio.start_server(on_client, "127.0.0.1", int(port)) as server:
        await server.serve_forever()

asyncio.run(main(*sys.argv[1:]))
"""


def measure(tmp_path: Path, fault: str) -> tuple[subprocess.CompletedProcess[str], dict]:
    """Run the benchmark on a proxy with that fault."""
    proxy, figures = tmp_path / "proxy.py", tmp_path / "figures.json"
    proxy.write_text(PROXY)
    command = [sys.executable, str(ROOT / "benchmarks" / "gateway.py"), "--targets", "proxy"]
    command += ["--gateway", f"proxy={sys.executable} {proxy} {{port}} {{worker}} {fault}"]
    command += ["--requests", "60", "--rounds", "1", "--json", str(figures)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done, json.loads(figures.read_text()) if figures.exists() else {}


def test_every_answer_that_is_right_is_counted(tmp_path: Path):
    done, figures = measure(tmp_path, "none")
    assert done.returncode == 0, done.stdout + done.stderr
    latency = figures["gateways"]["proxy"]["latency_ms"]
    assert {name: of["answers"] for name, of in latency.items()} == {
        "1 KB": 60,
        "1 KB × 1": 60,
        "1 KB × 128": 128,
        "16 KB": 32,
        "stream": 32,
        "first byte": 6,
    }


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("lie", "another text than the worker's"),
        ("refuse", "status 500"),
        ("drop", "the connection was closed before the answer was complete"),
    ],
)
def test_a_gateway_that_answers_wrongly_fails_the_run(tmp_path: Path, fault: str, said: str):
    done, figures = measure(tmp_path, fault)
    assert done.returncode == 1
    assert "proxy: answered wrongly (1 KB" in done.stdout and said in done.stdout
    assert figures == {}


@pytest.mark.slow
def test_a_pause_of_the_gateway_is_in_the_latency(tmp_path: Path):
    done, figures = measure(tmp_path, "stall")
    assert done.returncode == 0, done.stdout + done.stderr
    latency = figures["gateways"]["proxy"]["latency_ms"]
    whole = [latency[name]["max"] for name in ("1 KB", "1 KB × 1", "1 KB × 128", "16 KB")]
    assert max(whole) >= 300
