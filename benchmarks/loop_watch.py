"""A gateway whose event loop is watched from inside: how long a turn takes, what of it is garbage collection.

`watched_gateway` starts `radixway serve` of a tree of sources in a process of its own; its `LoopWatch` begins
to count when it is told and writes what it has counted into a file.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from environments import clean_environment
from measured_gateways import wait_until_it_answers
from processes import free_ports, stop

STALL_S = 0.05
_LOOK_EVERY_S = 0.002


# ---------------------------------------------------------------- inside of the gateway's process


class LoopWatch:
    """Counts in the process that serves; begins anew with SIGUSR1 and writes what it has with SIGUSR2."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._began_s = 0.0
        self.begin()
        gc.callbacks.append(self._collected)

    def begin(self) -> None:
        """Forget what was counted."""
        self.collections, self.longest_pause_s, self.stalls, self.longest_turn_s = 0, 0.0, 0, 0.0
        self.longest_stall_s = 0.0

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] == 2:
            if phase == "start":
                self._began_s = time.thread_time()
            else:
                self.collections += 1
                self.longest_pause_s = max(self.longest_pause_s, time.thread_time() - self._began_s)

    async def run(self) -> None:
        """Look at both clocks again and again: of this thread's CPU time, and on the wall."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, self.begin)
        loop.add_signal_handler(signal.SIGUSR2, self.write)
        while True:
            before, due = time.thread_time(), time.perf_counter() + _LOOK_EVERY_S
            await asyncio.sleep(_LOOK_EVERY_S)
            took = time.thread_time() - before
            self.longest_turn_s = max(self.longest_turn_s, took)
            self.longest_stall_s = max(self.longest_stall_s, time.perf_counter() - due)
            self.stalls += took > STALL_S

    def write(self) -> None:
        """Say what was counted."""
        told: dict[str, Any] = {
            "collections": self.collections,
            "longest_pause_ms": self.longest_pause_s * 1e3,
            "stalls": self.stalls,
            "longest_turn_ms": self.longest_turn_s * 1e3,
            "longest_stall_ms": self.longest_stall_s * 1e3,
            "frozen": gc.get_freeze_count(),
        }
        objects = gc.get_objects()
        told["tracked"] = len(objects)
        counted = Counter(map(_kind_of, objects))
        told["types"] = counted.most_common(25)
        del objects
        began_s = time.thread_time()
        gc.collect()  # after the counting: this is what the next full collection would take
        told["full_collection_ms"] = (time.thread_time() - began_s) * 1e3
        part = self._file.with_suffix(".part")
        part.write_text(json.dumps(told))
        part.rename(self._file)
        self.begin()


def _kind_of(thing: object) -> str:
    """The type of an object; of a tuple those of its values, too."""
    kind = f"{type(thing).__module__}.{type(thing).__qualname__}"
    if type(thing) is not tuple:
        return kind
    return f"{kind}[{', '.join(type(value).__name__ for value in thing[:4])}{', …' * (len(thing) > 4)}]"


def serve(file: Path, arguments: list[str]) -> None:
    """`radixway serve` with a watch in its loop."""
    from radixway.__main__ import main as radixway
    from radixway.core import http

    plain: Callable[..., Any] = http.AppServer.serve
    watch = LoopWatch(file)

    async def watched(self: Any, *given: Any) -> None:
        watching = asyncio.create_task(watch.run())
        try:
            await plain(self, *given)
        finally:
            watching.cancel()

    http.AppServer.serve = watched  # type: ignore[method-assign]
    sys.argv = ["radixway", "serve", *arguments]
    radixway()


# ---------------------------------------------------------------- outside


@dataclass(frozen=True, slots=True)
class WatchedGateway:
    """A running gateway, and the file that it counts into."""

    process: subprocess.Popen[Any]
    port: int
    file: Path

    def begin(self) -> None:
        """Have the gateway count from now on."""
        os.kill(self.process.pid, signal.SIGUSR1)
        time.sleep(0.1)

    def read(self) -> dict[str, Any]:
        """Return what it has counted since `begin`."""
        self.file.unlink(missing_ok=True)
        os.kill(self.process.pid, signal.SIGUSR2)
        while not self.file.exists():
            if self.process.poll() is not None:
                raise SystemExit(f"the gateway ended with {self.process.returncode}")
            time.sleep(0.05)
        told: dict[str, Any] = json.loads(self.file.read_text())
        return told


@contextlib.contextmanager
def watched_gateway(
    source: Path | None, workers: list[int], config: dict[str, Any] | None = None, home: Path | None = None
) -> Iterator[WatchedGateway]:
    """A gateway of the tree of sources `source` (None: this one) with `config`, in front of `workers`."""
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="radixway-bench-") as scratch:
        file, log = Path(scratch, "counted"), Path(scratch, "log")
        command = [sys.executable, str(Path(__file__).resolve()), str(file), "--", "--port", str(port)]
        if config:
            written = Path(scratch, "radixway.json")  # YAML, too
            written.write_text(json.dumps(config))
            command += ["--config", str(written)]
        for worker in workers:
            command += ["--worker", f"http://127.0.0.1:{worker}"]
        env = clean_environment({"RADIXWAY_HOME": str(home or f"{scratch}/home")})
        if source is not None:
            env["PYTHONPATH"] = str(source)
        with log.open("wb") as out:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env, start_new_session=True
            )
        try:
            wait_until_it_answers(process, port, 120, log, "radixway")
            yield WatchedGateway(process, port, file)
        finally:
            stop(process)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[3:])
