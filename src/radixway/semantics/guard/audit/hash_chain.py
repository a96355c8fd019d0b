"""The chain of entries, each sealed with the hash of the one before, and its head in `head.json`.

Several processes may append to one log: each takes the lock for a batch, and goes on from the last line that
it finds, whoever wrote it. Nothing that was written is ever changed: half a line, which a crash may leave, is
ended and gets an entry of its own. So do entries that are gone, of which `head.json` or this process knows.

The head shows when entries are cut off at the end. It is sealed as entries are. Without a key, whoever can
write the files writes it anew. Under a key they can only put back an older one, with the log as it was then,
which shows against a head kept elsewhere.

    append entries, fsync   ->   replace head.json        a crash between them leaves a head that is behind
"""

import hashlib
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from radixway.semantics.guard.audit.entry import (
    GENESIS,
    EntryHasher,
    Fields,
    encode_entry,
    entry_time_s,
    format_entry_time,
    parse_entry,
)
from radixway.semantics.guard.audit.log_files import (
    LogFile,
    LogTail,
    append_bytes,
    list_log_files,
    lock_directory,
    log_file_name,
    read_tail,
    replace_file,
    sync_directory,
)

log = logging.getLogger(__name__)

FORMAT = 1
HEAD_FILE = "head.json"
_HEAD_EXISTS = {"head": True}
"""In an entry: `head.json` must exist from here on."""
_CLEAN = LogTail(None, b"", is_ended=True)


class ChainHead(NamedTuple):
    """The end of a log: keep it elsewhere, and no entry up to it can go or change unnoticed."""

    seq: int
    hash: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"


NOWHERE = ChainHead(-1, GENESIS)
"""The head of a log without entries."""


class ChainHeadError(Exception):
    """`head.json` is not as it was written, or was written under another key."""


def read_head(directory: Path, seal: EntryHasher) -> ChainHead | None:
    """Read `head.json` in `directory`; None where there is none. Raises OSError and ChainHeadError."""
    try:
        raw = (directory / HEAD_FILE).read_bytes()
    except FileNotFoundError:
        return None
    fields = parse_entry(raw.removesuffix(b"\n"))
    if fields is None or not isinstance(fields.get("last"), str) or not seal.verify_entry(fields):
        raise ChainHeadError(f"{HEAD_FILE} does not hold: changed, or written under another key")
    return ChainHead(fields["seq"], fields["last"])


def write_head(directory: Path, seal: EntryHasher, head: ChainHead) -> None:
    """Write `head` to `head.json` in `directory`. Raises OSError."""
    fields: Fields = {"kind": "head", "seq": head.seq, "last": head.hash}
    replace_file(directory / HEAD_FILE, encode_entry(seal.seal_entry(fields)) + b"\n")


class HashChainError(Exception):
    """The chain cannot go on from what the files end with; the text says why."""


class HashChain:
    """Appends to the files of one directory. Every method blocks, and may raise OSError; for one thread."""

    def __init__(self, directory: Path, seal: EntryHasher, *, max_file_bytes: int = 64 * 2**20) -> None:
        self.directory = directory
        self._seal = seal
        self._max_file_bytes = max_file_bytes
        self._left: tuple[Path, int] | None = None
        """Newest file and its size, as this process left them."""
        self._head = NOWHERE
        """End of the chain then."""
        self._saved_head: ChainHead | None = None
        """Content of `head.json`, as this process left it."""

    def open_chain(self, now: float) -> None:
        """Make the directory if need be, and see whether the chain can go on. Raises HashChainError."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.append_entries([], now)

    def append_entries(self, entries: Sequence[Fields], now: float) -> ChainHead:
        """Seal and write `entries`; those that carry no time of their own are of `now`.

        Where writing fails, some of them may have been written; the next call mends half a line. Raises
        HashChainError.
        """
        with lock_directory(self.directory):
            return self._write_entries(entries, now)

    def remove_old_files(self, before: float, now: float, why: str) -> int:
        """Remove the files whose entries are all older than `before`, and return how many went.

        An entry says so first, and `why`, with the hash that the rest hangs on. Raises HashChainError.
        """
        with lock_directory(self.directory):
            self._write_entries([], now)  # mends what is to be mended, in its own file
            old = list(self._older_than(before, format_entry_time(now)[:10]))
            if not old:
                return 0
            removed = [
                {"first": file.first, "last": last["seq"], "hash": last["hash"], "until": last["time"]}
                for file, last in old
            ]
            self._write_entries([{"kind": "retention", "why": why, "removed": removed, **_HEAD_EXISTS}], now)
            for file, _ in old:  # the oldest first: what is left is always one piece
                file.path.unlink()
            sync_directory(self.directory)
        return len(old)

    def _older_than(self, before: float, today: str) -> Iterator[tuple[LogFile, Fields]]:
        """Yield the files that may go, and the last entry of each; never the one that is written to."""
        for file in list_log_files(self.directory):
            last = read_tail(file.path).entry
            if file.day >= today or last is None or entry_time_s(last) >= before:
                return
            yield file, last

    def _write_entries(self, entries: Sequence[Fields], now: float) -> ChainHead:
        files = list_log_files(self.directory)
        tail, head = self._find_end(files)
        missed = self._compare_head(head) if self._left is None else []
        if not tail.is_ended:
            append_bytes(files[-1].path, b"\n")
        first = head.seq + 1
        notes: list[Fields] = []
        if tail.torn:
            digest = hashlib.sha256(tail.torn).hexdigest()
            notes.append({"kind": "torn", "bytes": len(tail.torn), "sha256": digest})
        if head is NOWHERE:
            notes.append({"kind": "begin", "format": FORMAT, "seal": self._seal.name, **_HEAD_EXISTS})
        lines, head = self._seal_entries([*notes, *missed, *entries], head, now)
        if lines:
            raw = b"".join(lines)
            newest = files[-1] if files else None
            today = format_entry_time(now)[:10]
            if newest is not None and (tail.torn or self._fits_in(newest, len(raw), today)):
                path = newest.path
            else:  # never before the day of another file: a clock may go back
                day = today if newest is None else max(today, newest.day)
                path = self.directory / log_file_name(first, day)
            self._left = None
            append_bytes(path, raw)
            self._left, self._head = (path, path.stat().st_size), head
        if self._saved_head != head:
            self._save_head(head)
        return head

    def _save_head(self, head: ChainHead) -> None:
        """Write the head. A failure is only logged, and tried again with the next batch: the entries are
        written, and must not be written again."""
        try:
            write_head(self.directory, self._seal, head)
        except OSError as error:
            if self._saved_head is not None:
                log.error("audit: %s cannot be written and is out of date: %s", HEAD_FILE, error)
            self._saved_head = None
        else:
            self._saved_head = head

    def _compare_head(self, found: ChainHead) -> list[Fields]:
        """Return the entries that say that the files, which end at `found`, do not end as they did."""
        missed: list[Fields] = []
        try:
            self._saved_head = read_head(self.directory, self._seal)
            state = "missing"
        except ChainHeadError:
            self._saved_head, state = None, "changed"
        if self._saved_head is None:
            if found is not NOWHERE:
                missed.append({"kind": "head", "was": state, **_HEAD_EXISTS})
            write_head(self.directory, self._seal, found)  # before an entry says that there is one
        known = max(self._head, self._saved_head or NOWHERE, key=lambda head: head.seq)
        if known.seq > found.seq or (known.seq == found.seq and known.hash != found.hash):
            log.error("audit: the log ends with entry %d, but entry %d was written", found.seq, known.seq)
            missed.append({"kind": "truncated", "last": known.seq, "last_hash": known.hash})
        return missed

    def _seal_entries(
        self, entries: Sequence[Fields], head: ChainHead, now: float
    ) -> tuple[list[bytes], ChainHead]:
        lines = []
        for number, fields in enumerate(entries, head.seq + 1):
            sealed = self._seal.seal_entry(
                {"time": format_entry_time(now), **fields, "seq": number, "prev": head.hash}
            )
            lines.append(encode_entry(sealed) + b"\n")
            head = ChainHead(number, sealed["hash"])
        return lines, head

    def _find_end(self, files: Sequence[LogFile]) -> tuple[LogTail, ChainHead]:
        """Return what the newest file ends with, and where the chain does. Raises HashChainError."""
        if not files:
            self._left = None
            return _CLEAN, NOWHERE
        newest = files[-1]
        if self._left == (newest.path, newest.path.stat().st_size):
            return _CLEAN, self._head
        self._left = None
        tail = read_tail(newest.path)
        return tail, self._find_head(files, tail)

    def _find_head(self, files: Sequence[LogFile], tail: LogTail) -> ChainHead:
        """Return where the chain ends; there are files. Raises HashChainError."""
        entry = tail.entry
        if entry is None:  # the newest file was only just begun
            if files[-1].first == 0:
                return NOWHERE
            entry = read_tail(files[-2].path).entry if len(files) > 1 else None
        if entry is None or not self._seal.verify_entry(entry):
            raise HashChainError(
                f"{files[-1].path}: the last entry does not hold: changed, or written under another key"
            )
        return ChainHead(entry["seq"], entry["hash"])

    def _fits_in(self, newest: LogFile, size: int, today: str) -> bool:
        filled = newest.path.stat().st_size
        return not filled or (newest.day >= today and filled + size <= self._max_file_bytes)
