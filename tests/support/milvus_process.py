"""milvus-lite as a server in a process of its own, which can be killed."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def milvus_process(directory: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Serves `directory` at 127.0.0.1:port until the end, or until it is killed."""
    command = [
        sys.executable, "-c", "from milvus_lite.cmdline import main; main()",
        "server", "--data-dir", str(directory), "--host", "127.0.0.1", "--port", str(port),
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait(process, port)
        yield process
    finally:
        process.kill()
        process.wait()


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    import grpc

    with contextlib.closing(grpc.insecure_channel(f"127.0.0.1:{port}")) as channel:
        began = time.monotonic()
        ready = grpc.channel_ready_future(channel)
        while True:
            try:
                ready.result(timeout=1)
                return
            except grpc.FutureTimeoutError:
                assert process.poll() is None, "milvus-lite ended"
                assert time.monotonic() - began < 60, "milvus-lite does not answer"
