"""A gateway that is killed loses no finished call."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.engine_process import engine_process

MODEL = "radixway-guide"


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    with engine_process() as (url, _):
        yield url


@contextmanager
def gateway_process(worker: str, port: int, sessions: Path) -> Iterator[tuple[str, subprocess.Popen]]:
    """A running `radixway serve`, and its URL; killed without notice at the end."""
    command = [sys.executable, "-m", "radixway", "serve", "--port", str(port), "--worker", worker]
    env = {**os.environ, "RADIXWAY__TRAJECTORIES__SESSIONS__PATH": str(sessions)}
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    url = f"http://127.0.0.1:{port}"
    try:
        for line in process.stdout:
            if str(port) in line:
                break
        while not ready(url):
            assert process.poll() is None
        yield url, process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()


def ready(url: str) -> bool:
    try:
        return call(f"{url}/ready") is not None
    except urllib.error.URLError:
        return False


def call(url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


def chat(url: str, *messages: dict[str, Any]) -> dict[str, Any]:
    body = {"model": MODEL, "messages": list(messages), "temperature": 0, "max_tokens": 20}
    reply = call(f"{url}/sessions/s/v1/chat/completions", body)
    return reply["choices"][0]["message"]


@pytest.mark.slow
def test_after_a_kill_samples_are_the_same_and_the_agent_goes_on(
    engine: str, free_port: int, tmp_path: Path
) -> None:
    asked = [{"role": "user", "content": "What is a radix tree?"}]
    sessions = tmp_path / "deep" / "sessions.sqlite"
    with gateway_process(engine, free_port, sessions) as (url, _):
        asked += [chat(url, *asked), {"role": "user", "content": "And what is it for?"}]
        asked.append(chat(url, *asked))
        call(f"{url}/sessions/s/reward", {"reward": 0.25})
        before = call(f"{url}/sessions/s/samples")["samples"]
    with gateway_process(engine, free_port, sessions) as (url, _):
        assert call(f"{url}/sessions")["sessions"][0]["calls"] == 2
        assert call(f"{url}/sessions/s/samples")["samples"] == before
        chat(url, *asked, {"role": "user", "content": "Who made it?"})
        (sample,) = call(f"{url}/sessions/s/samples")["samples"]
        assert sample["tokens"][: len(before[0]["tokens"])] == before[0]["tokens"]
        assert [part["trained"] for part in sample["calls"]] == [True] * 3
        call(f"{url}/sessions/s/finish", {})
        assert call(f"{url}/sessions/s/samples?collect=true")["samples"] == [sample]
        assert call(f"{url}/sessions/s/samples")["samples"] == [sample], "the file still has it"
    with gateway_process(engine, free_port, sessions) as (url, _):
        assert call(f"{url}/sessions/s")["state"] == "collected"
        assert call(f"{url}/sessions/s/samples")["samples"] == [sample]
