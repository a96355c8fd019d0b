"""Files that are made once from a model and kept, with a checksum beside each."""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from radixway.encoders.files import file_checksum

log = logging.getLogger(__name__)


def prepare_file(path: Path, what: str, make: Callable[[], bytes]) -> Path | bytes:
    """`path`, made if it is not there or is not what was written; its bytes where it cannot be kept.

    Several processes may prepare the same file: each writes its own and renames it into place.
    """
    if _matches_checksum(path):
        return path
    log.info("preparing %s, once: %s", what, path)
    began = time.monotonic()
    made = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_with_checksum(path, made)
        _write_with_checksum(_checksum_path(path), f"{file_checksum(path)}  {path.name}\n".encode())
    except OSError as error:
        log.warning("%s is prepared anew at every start: %s cannot be kept: %s", what, path, error.strerror)
        return made
    log.info("prepared %s: %.0f MB in %.1f s", what, len(made) / 1e6, time.monotonic() - began)
    return path


def _matches_checksum(path: Path) -> bool:
    try:
        told = _checksum_path(path).read_text().partition(" ")[0]
        if told == file_checksum(path):
            return True
    except (OSError, UnicodeDecodeError):
        return False
    log.warning("%s is not what was written there; it is made again", path)
    return False


def _checksum_path(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _write_with_checksum(path: Path, content: bytes) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
