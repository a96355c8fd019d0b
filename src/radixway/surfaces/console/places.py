"""Where consoles of this user's gateways listen, on this machine."""

from __future__ import annotations

import os
import re
import socket
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from shutil import rmtree

_MAX_SOCKET_PATH_BYTES = 100
_BEGINS_WITHIN_S = 60.0
_NAME = re.compile(r"\d{1,5}-[0-9a-f]{8}")


def private_socket_directory() -> Path:
    """The directory, which nobody else may enter. Raises PermissionError when it is somebody else's."""
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
            if path.stat().st_mtime > time.time() - _BEGINS_WITHIN_S:
                continue
            probe.settimeout(1)
            try:
                probe.connect(str(path / "gateway"))
            except (ConnectionRefusedError, FileNotFoundError):
                rmtree(path, ignore_errors=True)


def find_console_socket(name: str, port: int) -> Path | None:
    """Where the console of that name listens, if it belongs to a gateway at this port.

    Several processes that share a port have a console each: who was served by one comes back to it.
    """
    if not _NAME.fullmatch(name) or not name.startswith(f"{port}-"):
        return None
    path = private_socket_directory() / name / "console"
    return path if path.exists() else None
