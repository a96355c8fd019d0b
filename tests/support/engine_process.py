"""A real engine with the bundled model, in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from support.free_ports import find_port


@contextmanager
def engine_process(*args: str, port: int = 0) -> Iterator[tuple[str, subprocess.Popen]]:
    """A running `radixway engine` once it answers, and its URL. `port`: where one ran before."""
    port = port or find_port()
    command = [sys.executable, "-m", "radixway", "engine", "--port", str(port), *args]
    env = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "RADIXWAY__ENGINE__THREADS": "1",
        "RADIXWAY__ENGINE__DTYPE": "float32",
    }
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        url = f"http://127.0.0.1:{port}"
        lines = []
        for line in process.stdout:  # it says where it serves once it does
            lines.append(line)
            if str(port) in line and _answers(url):
                break
        else:
            raise AssertionError("the engine did not start:\n" + "".join(lines))
        yield url, process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
        process.stdout.close()


def _answers(url: str) -> bool:
    with urllib.request.urlopen(f"{url}/health", timeout=10) as response:
        return response.status == 200
