"""The embedded engine as a child of the gateway's process: started, watched, started again, ended."""

import asyncio
import logging
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from radixway.routing import Worker, WorkerRegistry, WorkerState

log = logging.getLogger(__name__)

_RESTART_AFTER_S = (1.0, 60.0)
"""First and longest pause before a dead engine is restarted; it doubles."""
_LIVED_S = 60.0
"""An engine that lived so long restarts with the first pause."""
_STOP_TIMEOUT_S = 10.0
_MAX_SOCKET_PATH_CHARS = 100


class EngineKilledError(Exception):
    """The engine ended before it was ready, and not by its own decision; the message says what is known."""

    def __init__(self, exit_code: int) -> None:
        by = f" by signal {-exit_code} ({signal.strsignal(-exit_code)})" if exit_code else ""
        why = "; perhaps there was not enough memory" if exit_code == -signal.SIGKILL else ""
        super().__init__(f"the engine was ended{by} before it was ready{why}")


class EngineProcess:
    """An engine on this machine, in a session of its own, so that we decide when it stops."""

    def __init__(
        self,
        port: int,
        config_file: Path | None,
        model: str | None,
        *,
        publish: bool,
        env: Mapping[str, str] | None = None,
        quiet: bool = False,
    ) -> None:
        """Prepare the engine of `model`, or of `config_file`, at `port`.

        `publish`: have it publish KV events for this process alone; else as it is configured. `env`: its
        environment, ours by default. `quiet`: what it prints is not shown; what it logs is.
        """
        self._env = env
        self._stdout = asyncio.subprocess.DEVNULL if quiet else None
        self.url = f"http://127.0.0.1:{port}"
        self.failed_start: int | None = None
        self._command = [sys.executable, "-m", "radixway", "engine", "--until-stdin-closes"]
        self._command += ["--host", "127.0.0.1", "--port", str(port)]
        if config_file is not None:
            self._command += ["--config", str(config_file)]
        if model is not None:
            self._command += ["--model", model]
        self._sockets = TemporaryDirectory(prefix="radixway-")  # only this user may enter it
        if publish:
            for what in ("endpoint", "replay-endpoint"):
                self._command += [f"--kv-events-{what}", _zmq_endpoint(Path(self._sockets.name, what))]
        self._starting: asyncio.Task[asyncio.subprocess.Process] | None = None
        self._was_ready = False
        self._hurried = asyncio.Event()

    def mark_ready(self) -> None:
        """Note that it has answered: from now on its death is an accident, not a bad configuration."""
        self._was_ready = True

    async def keep_running(self) -> None:
        """Keep it running; returns when it cannot even start. Raises EngineKilledError."""
        first, longest = _RESTART_AFTER_S
        pause_s = first
        while True:
            began = monotonic()
            self._starting = asyncio.create_task(self._start_process())
            process = await asyncio.shield(self._starting)  # a half-started one could not be ended
            code = await process.wait()
            if not self._was_ready:
                if code <= 0:
                    raise EngineKilledError(code)
                self.failed_start = code
                return
            pause_s = first if monotonic() - began > _LIVED_S else min(pause_s * 2, longest)
            log.warning("the engine ended with %d; starting it again in %g s", code, pause_s)
            await asyncio.sleep(pause_s)

    async def _start_process(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=self._stdout,
            env=self._env,
            start_new_session=True,
        )

    async def stop(self) -> None:
        """Ask it to finish and leave, then insist."""
        with self._sockets:
            await self._terminate_process()

    async def _terminate_process(self) -> None:
        if self._starting is None:
            return
        try:
            process = await asyncio.shield(self._starting)
        except OSError:  # it could not even be started, as `supervise` has said
            return
        if process.returncode is not None:
            return
        process.terminate()
        ended = asyncio.create_task(process.wait())
        hurried = asyncio.create_task(self._hurried.wait())
        await asyncio.wait({ended, hurried}, timeout=_STOP_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if not ended.done():
            process.kill()
        await ended

    def force_stop(self) -> None:
        """Make `stop` kill the engine now."""
        self._hurried.set()


async def wait_until_ready(registry: WorkerRegistry, url: str) -> None:
    """Wait until the worker of `url` can answer."""
    ready = asyncio.Event()

    def look(worker: Worker) -> None:
        if worker.url == url and worker.state is WorkerState.READY:
            ready.set()

    registry.on_state.append(look)
    for worker in registry:
        look(worker)
    await ready.wait()
    registry.on_state.remove(look)


def _zmq_endpoint(path: Path) -> str:
    """Return a socket at that path, or an ephemeral port where paths are too long."""
    return f"ipc://{path}" if len(str(path)) < _MAX_SOCKET_PATH_CHARS else "tcp://127.0.0.1:*"
