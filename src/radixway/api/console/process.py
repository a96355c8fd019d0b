"""The process that renders the console's pages, and the directory of Unix sockets of this user's consoles."""

import asyncio
import logging
import os
import re
import secrets
import socket
import stat
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from time import monotonic

from radixway.core.config import ConsoleConfig
from radixway.core.http import App, AppServer, Receive, Scope, Send, bind_unix

_MAX_SOCKET_PATH_BYTES = 100
_STARTUP_GRACE_S = 60.0
_NAME = re.compile(r"\d{1,5}-[0-9a-f]{8}")


def private_socket_directory() -> Path:
    """Return the directory, private to this user. Raises PermissionError if it is not."""
    name = f"radixway-console-{os.getuid()}"
    path = Path(tempfile.gettempdir(), name)
    if len(str(path)) > _MAX_SOCKET_PATH_BYTES - len("/65535-01234567/gateway"):
        path = Path("/tmp", name)
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{path} is not a directory of ours alone: remove it")
    return path


def remove_stale_sockets() -> None:
    """Remove what gateways left behind that were killed."""
    for path in private_socket_directory().iterdir():
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            if path.stat().st_mtime > time.time() - _STARTUP_GRACE_S:
                continue
            probe.settimeout(1)
            try:
                probe.connect(str(path / "gateway"))
            except (ConnectionRefusedError, FileNotFoundError):
                rmtree(path, ignore_errors=True)


def find_console_socket(name: str, port: int) -> Path | None:
    """Return the socket of the console `name`, if its gateway is at `port`, which several may share."""
    if not _NAME.fullmatch(name) or not name.startswith(f"{port}-"):
        return None
    path = private_socket_directory() / name / "console"
    return path if path.exists() else None


log = logging.getLogger(__name__)

_READY_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 5.0
_EXIT_WAIT_S = 0.5
_RESTART_AFTER_S = 5.0
"""Pause before a console that could not start is started again."""


class ConsoleUnavailableError(Exception):
    """The process could not be started; the log says why."""


class ConsoleProcess:
    """The gateway's one console process. The two talk over Unix sockets in a private directory."""

    def __init__(self, config: ConsoleConfig, app: App) -> None:
        """`app`: the gateway, which the pages ask."""
        self._config = config
        self._app = app
        self._starting = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._failed_at = -_RESTART_AFTER_S
        self._directory: Path | None = None
        self._back: tuple[AppServer, asyncio.Task[None]] | None = None
        self._answers = False
        self.name: str | None = None

    @property
    def is_ready(self) -> bool:
        """Return whether `ensure_running` returns at once."""
        return self._answers and self._process is not None and self._process.returncode is None

    @property
    def has_failed(self) -> bool:
        """Return whether a start failed a moment ago, so that it is not tried again yet."""
        return monotonic() - self._failed_at < _RESTART_AFTER_S

    async def ensure_running(self, port: int) -> Path:
        """Return the socket of the process of the gateway at `port`. Raises ConsoleUnavailableError."""
        async with self._starting:
            if self._process is None or self._process.returncode is not None:
                if self.has_failed:
                    raise ConsoleUnavailableError
                try:
                    await self._start_process(port)
                except (OSError, TimeoutError, ConsoleUnavailableError):
                    self._failed_at = monotonic()
                    log.exception("the console did not start")
                    await self._end_process()
                    raise ConsoleUnavailableError from None
        assert self._directory is not None
        return self._directory / "console"

    async def has_ended(self) -> bool:
        """Return whether the process has ended; one that is ending is waited for a moment."""
        process = self._process
        if process is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_EXIT_WAIT_S):
                    await process.wait()
        return process is None or process.returncode is not None

    async def stop_process(self) -> None:
        """End the process."""
        async with self._starting:
            await self._end_process()
            if self._back is not None:
                server, serving = self._back
                server.stop()
                server.stop()
                await serving
                self._back = None
            if self._directory is not None:
                rmtree(self._directory, ignore_errors=True)
                self._directory = None

    async def _start_process(self, port: int) -> None:
        if self._directory is None:
            remove_stale_sockets()
            self.name = f"{port}-{secrets.token_hex(4)}"
            self._directory = private_socket_directory() / self.name
            self._directory.mkdir(mode=0o700)
            back = AppServer(self._serve_console_request, bind_unix(self._directory / "gateway"), drain_s=0)
            self._back = back, asyncio.create_task(back.serve())
        self._answers = False
        pages = self._directory / "console"
        with suppress(FileNotFoundError):
            pages.unlink()
        config = self._config
        command = [sys.executable, "-m", "radixway", "console", "--until-stdin-closes"]
        command += ["--gateway", f"unix:{self._directory / 'gateway'}", "--listen", f"unix:{pages}"]
        command += ["--session-hours", str(config.session_hours)]
        command += ["--attempts-per-minute", str(config.attempts_per_minute)]
        for name in config.hosts:
            command += ["--public-host", name]
        self._process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=tempfile.gettempdir(),
            start_new_session=True,
        )
        assert self._process.stdout is not None
        async with asyncio.timeout(_READY_TIMEOUT_S):
            if not await self._process.stdout.readline():
                raise ConsoleUnavailableError(f"it ended with {await self._process.wait()}")
        self._answers = True

    async def _serve_console_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the console's calls to the gateway: a client that may enter the directory counts as local."""
        await self._app({**scope, "client": ("127.0.0.1", 0)}, receive, send)

    async def _end_process(self) -> None:
        process, self._process, self._answers = self._process, None, False
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(_STOP_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
