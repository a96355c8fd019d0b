"""The file of rules, edited: written whole or not at all, by whoever knows what is in it, and with a past.

A version is a digest of the text. Who wants to write says which version they have seen; where somebody else
was quicker, nothing is written.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from time import time_ns

from radixway.config import ConfigError
from radixway.config.yaml_file import read_text

KEPT = 20
"""Texts of the past."""


class Changed(Exception):
    """Somebody else has changed the file meanwhile."""


@dataclass(frozen=True, slots=True)
class Past:
    """A text that was in force."""

    version: str
    saved_at: float
    size_bytes: int


def version_of(text: str) -> str:
    """Of a text; the same for the same text."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class RulesFile:
    """Reads and writes are those of a small file; call them in a thread. Processes may share it."""

    def __init__(self, path: Path, past: Path) -> None:
        """`past`: a directory for texts that were replaced."""
        self.path = path
        self._past = past / sha256(str(path.absolute()).encode()).hexdigest()[:16]

    def read(self) -> str:
        """Raises ConfigError."""
        return read_text(self.path)

    def write(self, text: str, seen: str) -> None:
        """Put `text` in the place of the version `seen`; both are in the past afterwards.

        Raises:
            Changed: another version stands there.
            OSError: it cannot be written.
        """
        with self._alone():
            try:
                before = self.read()
            except ConfigError as error:
                raise Changed(str(error)) from None
            if version_of(before) != seen:
                raise Changed(f"{self.path} is another one than that of version {seen}")
            self._keep(before)
            self._replace(text)
            self._keep(text)

    def past(self) -> list[Past]:
        """The newest first."""
        found = []
        for at_ns, version, file in reversed(self._files()):
            with suppress(OSError):
                found.append(Past(version, at_ns / 1e9, file.stat().st_size))
        return found

    def find(self, version: str) -> str | None:
        """A text of the past."""
        for _, known, file in reversed(self._files()):
            if known == version:
                with suppress(ConfigError):
                    return read_text(file)
        return None

    def _files(self) -> list[tuple[int, str, Path]]:
        """The oldest first."""
        found = []
        for file in self._past.glob("*.yaml"):
            at, _, version = file.stem.partition("-")
            if at.isdecimal() and version:
                found.append((int(at), version, file))
        return sorted(found)

    def _keep(self, text: str) -> None:
        version = version_of(text)
        known = self._files()
        for _, each, file in known:
            if each == version:
                file.unlink(missing_ok=True)
        at = max(time_ns(), known[-1][0] + 1 if known else 0)
        _write(self._past / f"{at:020d}-{version}.yaml", text, 0o600)
        for _, _, file in self._files()[:-KEPT]:
            file.unlink(missing_ok=True)

    def _replace(self, text: str) -> None:
        place = self.path.resolve()  # a link stays one
        _write(place, text, place.stat().st_mode & 0o777)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other thread or process writes it."""
        self._past.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self._past / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _write(path: Path, text: str, mode: int) -> None:
    """Whole or not at all, also where the machine stops meanwhile."""
    fd, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
