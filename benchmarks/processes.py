"""Processes of a benchmark: ports to listen on, their CPU time and memory, and an end that is certain."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
START_S = 120.0
"""Longest that a gateway or an engine may take to start."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on at this moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in sockets]


def stop(process: subprocess.Popen[Any]) -> None:
    """End a process and its group: politely first, for sure after five seconds."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


@contextlib.contextmanager
def running_radixway(command: Sequence[str], env: Mapping[str, str], until: str) -> Iterator[int]:
    """`radixway COMMAND` from when the URL `until` answers to the end; gives its process id."""
    with tempfile.NamedTemporaryFile(prefix="radixway-bench-") as log:
        running = subprocess.Popen(
            [sys.executable, "-m", "radixway", *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **env},
            start_new_session=True,
        )
        try:
            end = time.monotonic() + START_S
            while not _answers(until):
                if running.poll() is not None or time.monotonic() > end:
                    raise SystemExit(f"{command[0]} did not start: {last_words(Path(log.name))}")
                time.sleep(0.1)
            yield running.pid
        finally:
            stop(running)


def _answers(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
        return bool(answer.status == 200)
    return False


def _fields_after_name(pid: int | str) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def process_tree(pid: int) -> list[int]:
    """A process and all its living descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                children.setdefault(int(_fields_after_name(entry.name)[1]), []).append(int(entry.name))
    tree = [pid]
    for member in tree:
        tree += children.get(member, [])
    return tree


def cpu_seconds(pid: int) -> float:
    """User and system time of a process tree so far, to the nanosecond; children that have ended included."""
    seconds = 0.0
    for member in process_tree(pid):
        with contextlib.suppress(OSError):
            # The clock that clock_getcpuclockid(3) names; /proc would count in steps of 10 ms.
            seconds += time.clock_gettime((~member << 3) | 2)
            seconds += sum(int(ticks) for ticks in _fields_after_name(member)[13:15]) / CLOCK_TICKS
    return seconds


def resident_bytes(pid: int) -> int:
    """Resident memory of a process tree."""
    pages = 0
    for member in process_tree(pid):
        with contextlib.suppress(OSError):
            pages += int(Path(f"/proc/{member}/statm").read_text().split()[1])
    return pages * PAGE_BYTES


def last_words(log: Path) -> str:
    """The end of a log, on one line."""
    return " ".join(log.read_text(errors="replace").split())[-300:] or "it printed nothing"
