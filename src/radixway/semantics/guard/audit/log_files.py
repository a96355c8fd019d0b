"""The files of an audit log: their names, their order, their last lines.

audit/000000000000-2026-11-21.jsonl     the first entry's number, and the day (UTC) on which it was begun
      000000004711-2026-11-22.jsonl
      head.json                         where the log ends (`head.py`)
      lock                              held while somebody appends
      pseudonyms.sqlite                 who the users are (`pseudonyms.py`)
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from radixway.semantics.guard.audit.entry import Fields, parse_entry

_NAME = re.compile(r"(\d{12,})-(\d{4}-\d{2}-\d{2})\.jsonl")
_STEP = 1 << 16


class LogFile(NamedTuple):
    """A file of the log; they sort in the order of their entries."""

    first: int
    """Number of its first entry."""
    day: str
    path: Path


@dataclass(frozen=True, slots=True)
class LogTail:
    """The end of a file.

    [ … entry ]\n[ torn ]          torn: what a crash left behind the last entry, in most cases nothing
    """

    entry: Fields | None
    """The last one; None where there is none."""
    torn: bytes
    is_ended: bool
    """Its last line is, so that another may follow."""


def list_log_files(directory: Path) -> list[LogFile]:
    """List the log's files in `directory`, in the order of their entries. Raises OSError."""
    found = ((_NAME.fullmatch(path.name), path) for path in directory.iterdir())
    return sorted(LogFile(int(match[1]), match[2], path) for match, path in found if match)


def log_file_name(first: int, day: str) -> str:
    """Return the name of the file whose first entry is number `first`, begun on `day`."""
    return f"{first:012d}-{day}.jsonl"


def read_tail(path: Path) -> LogTail:
    """Read the file at `path` from its end, no further than needed. Raises OSError."""
    with path.open("rb") as file:
        at = file.seek(0, os.SEEK_END)
        raw = b""
        while at > 0:
            step = min(_STEP, at)
            at = file.seek(at - step)
            file.seek(at)
            raw = file.read(step) + raw
            tail = _tail_of(raw, is_all=at == 0)
            if tail.entry is not None:
                return tail
    return _tail_of(raw, is_all=True)


def _tail_of(raw: bytes, *, is_all: bool) -> LogTail:
    is_ended = not raw or raw.endswith(b"\n")
    raw = raw.removesuffix(b"\n")
    end = len(raw)
    while end > 0:
        begin = raw.rfind(b"\n", 0, end) + 1
        if begin == 0 and not is_all:
            break  # its line may begin earlier
        entry = parse_entry(raw[begin:end])
        if entry is not None:
            return LogTail(entry, raw[end + 1 :], is_ended)
        end = begin - 1
    return LogTail(None, raw, is_ended)


@contextmanager
def lock_directory(directory: Path) -> Iterator[None]:
    """Lock `directory` against other processes that append; a process that dies lets go. Raises OSError."""
    import fcntl  # there is none on Windows, and no gateway

    lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def append_bytes(path: Path, raw: bytes) -> None:
    """Append `raw` to `path`, synced when this returns. Raises OSError; a part may then be there."""
    is_new = not path.exists()
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        rest = memoryview(raw)
        while rest:
            rest = rest[os.write(file, rest) :]
        os.fsync(file)
    finally:
        os.close(file)
    if is_new:
        sync_directory(path.parent)


def replace_file(path: Path, raw: bytes) -> None:
    """Replace the file at `path` by `raw`, whole or not at all. Raises OSError."""
    temporary = path.with_name(f"{path.name}.new")
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, raw)
        os.fsync(file)
    finally:
        os.close(file)
    temporary.replace(path)


def sync_directory(directory: Path) -> None:
    """Sync the names in `directory`. Raises OSError."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
