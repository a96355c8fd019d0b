"""Edits of the rules file: written atomically, checked against the version the editor saw, with history.

A version is a digest of the text. Who wants to write says which version they have seen; where somebody else
was quicker, nothing is written.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from time import time_ns

from radixway.core.atomic_file import write_atomically
from radixway.core.config import ConfigError
from radixway.core.config.yaml_file import read_text

MAX_COPIES = 20
"""Earlier versions of the file that are kept."""


class RulesFileChangedError(Exception):
    """The file was changed meanwhile."""


@dataclass(frozen=True, slots=True)
class RulesVersion:
    """A text that was in force."""

    version: str
    saved_at: float
    size_bytes: int


def text_version(text: str) -> str:
    """Return the digest of a text."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class RulesFile:
    """Reads and writes are those of a small file; call them in a thread. Processes may share it."""

    def __init__(self, path: Path, past: Path) -> None:
        """`past`: a directory for texts that were replaced."""
        self.path = path
        self._past = past / sha256(str(path.absolute()).encode()).hexdigest()[:16]

    def read_text(self) -> str:
        """Raises ConfigError."""
        return read_text(self.path)

    def write_text(self, text: str, seen: str) -> None:
        """Put `text` in the place of the version `seen`; both are in the past afterwards.

        Raises:
            RulesFileChangedError: another version stands there.
            OSError: it cannot be written.
        """
        with self._exclusive_lock():
            try:
                before = self.read_text()
            except ConfigError as error:
                raise RulesFileChangedError(str(error)) from None
            if text_version(before) != seen:
                raise RulesFileChangedError(f"{self.path} is another one than that of version {seen}")
            self._save_version(before)
            self._replace_text(text)
            self._save_version(text)

    def list_versions(self) -> list[RulesVersion]:
        """Return the versions of the past, newest first."""
        found = []
        for at_ns, version, file in reversed(self._version_files()):
            with suppress(OSError):
                found.append(RulesVersion(version, at_ns / 1e9, file.stat().st_size))
        return found

    def find_version(self, version: str) -> str | None:
        """Return the text of a past `version`."""
        for _, known, file in reversed(self._version_files()):
            if known == version:
                with suppress(ConfigError):
                    return read_text(file)
        return None

    def _version_files(self) -> list[tuple[int, str, Path]]:
        """Return the versions, oldest first."""
        found = []
        for file in self._past.glob("*.yaml"):
            at, _, version = file.stem.partition("-")
            if at.isdecimal() and version:
                found.append((int(at), version, file))
        return sorted(found)

    def _save_version(self, text: str) -> None:
        version = text_version(text)
        known = self._version_files()
        for _, each, file in known:
            if each == version:
                file.unlink(missing_ok=True)
        at = max(time_ns(), known[-1][0] + 1 if known else 0)
        write_atomically(self._past / f"{at:020d}-{version}.yaml", text.encode())
        for _, _, file in self._version_files()[:-MAX_COPIES]:
            file.unlink(missing_ok=True)

    def _replace_text(self, text: str) -> None:
        place = self.path.resolve()  # a link stays one
        write_atomically(place, text.encode(), place.stat().st_mode & 0o777)

    @contextmanager
    def _exclusive_lock(self) -> Iterator[None]:
        """Lock the file against other threads and processes."""
        self._past.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self._past / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
