"""Reads a log: checks that every line is what was written, and finds entries.

A piece that is missing at the very end is seen by `head.json`. Where both were written anew, without a key or
from older copies, only a head that was kept elsewhere shows it (`radixway audit head`, `verify --expect`).
"""

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from radixway.semantics.guard.audit.entry import GENESIS, EntryHasher, Fields, entry_time_s, parse_entry
from radixway.semantics.guard.audit.hash_chain import HEAD_FILE, NOWHERE, ChainHead, ChainHeadError, read_head
from radixway.semantics.guard.audit.log_files import list_log_files

Wrong = Literal["changed", "removed", "reordered", "truncated"]


@dataclass(frozen=True, slots=True)
class BrokenEntry:
    """The first entry that is not as it was written."""

    seq: int
    what: Wrong
    detail: str
    file: str = ""
    line: int = 0


@dataclass(slots=True)
class ChainVerdict:
    """The result of a verification."""

    entries: int = 0
    files: int = 0
    first: int | None = None
    head: ChainHead | None = None
    gone: list[Fields] = field(default_factory=list)
    """Files that the log itself removed after their time: `first`, `last`, `hash`, `until`."""
    torn: int = 0
    """Lines that a crash cut off, as the log itself says."""
    torn_end: bool = False
    """The last line is cut off: a crash, or a write in progress."""
    kept: ChainHead | None = None
    """The head in `head.json`. An entry or a batch behind: a crash, or a write in progress."""
    broken: BrokenEntry | None = None

    @property
    def is_end_known(self) -> bool:
        """Return whether entries cut off at the end would have been noticed."""
        return self.kept is not None

    @property
    def holds(self) -> bool:
        """Return whether all of it is as it was written."""
        return self.broken is None


class _Line(NamedTuple):
    file: str
    number: int
    raw: bytes
    is_ended: bool


class _BrokenChainError(Exception):
    """Ends the pass; the verdict says why."""


def verify_log(path: Path, seal: EntryHasher, expect: ChainHead | None = None) -> ChainVerdict:
    """Check the log, or one file of it, at `path`. `expect`: a head kept elsewhere. Raises OSError."""
    walk = _ChainWalk(path, seal, expect)
    with suppress(_BrokenChainError):
        walk.walk_lines()
    return walk.verdict


class _ChainWalk:
    def __init__(self, path: Path, seal: EntryHasher, expect: ChainHead | None) -> None:
        self.verdict = ChainVerdict()
        self._path = path
        self._seal = seal
        self._expect = expect
        self._begin: ChainHead | None = None
        """Previous head of the first entry."""
        self._met = expect is None
        self._head_required = False
        self._pending: list[_Line] = []
        """Lines that are no entries: a crash's, if the next entry says so."""

    def walk_lines(self) -> None:
        if not self._path.is_file():
            try:
                # before the entries: it comes behind them
                self.verdict.kept = read_head(self._path, self._seal)
            except ChainHeadError as error:
                self._fail_entry(0, "changed", str(error))
        for line in _iter_lines(self._path):
            entry = parse_entry(line.raw)
            if entry is None:
                self._pending.append(line)
                continue
            self._check_entry(entry, line)
            self._accept_entry(entry, line)
        self._check_end()

    def _check_entry(self, entry: Fields, line: _Line) -> None:
        seq, head = entry["seq"], self.verdict.head
        if not self._seal.verify_entry(entry):
            wanted = seq if head is None else head.seq + 1
            self._fail_entry(wanted, "changed", f"its {self._seal.name} hash is another", line)
        if head is None:
            self._begin = ChainHead(seq - 1, str(entry.get("prev")))
        elif seq != head.seq + 1:
            self._fail_for_order(head.seq + 1, seq, line)
        if head is not None and entry.get("prev") != head.hash:
            self._fail_entry(head.seq, "changed", f"entry {seq} was hung on another", line)
        self._settle_pending(entry)
        if self._expect is not None and seq == self._expect.seq:
            self._met = True
            if entry["hash"] != self._expect.hash:
                self._fail_entry(seq, "changed", "its hash is not the one that is expected", line)
        saved_head = self.verdict.kept
        if saved_head is not None and seq == saved_head.seq and entry["hash"] != saved_head.hash:
            self._fail_entry(seq, "changed", f"its hash is not the one in {HEAD_FILE}", line)

    def _accept_entry(self, entry: Fields, line: _Line) -> None:
        verdict = self.verdict
        if entry.get("kind") == "truncated":
            detail = f"when it was written, entry {entry.get('last')} had been there"
            self._fail_entry(entry["seq"], "truncated", detail, line)
        if entry.get("kind") == "head" and self._head_required:
            detail = f"when it was written, {HEAD_FILE} was {entry.get('was')}: entries before it may be gone"
            self._fail_entry(entry["seq"], "truncated", detail, line)
        self._head_required |= entry.get("head") is True
        verdict.entries += 1
        verdict.head = ChainHead(entry["seq"], entry["hash"])
        if verdict.first is None:
            verdict.first = entry["seq"]
        if entry.get("kind") == "retention":
            verdict.gone += entry.get("removed", [])

    def _settle_pending(self, entry: Fields) -> None:
        """Check that the entry behind lines that are no entries says that a crash left just them."""
        if not self._pending:
            return
        raw = b"\n".join(line.raw for line in self._pending)
        recorded = (entry.get("kind"), entry.get("bytes"), entry.get("sha256"))
        if recorded != ("torn", len(raw), hashlib.sha256(raw).hexdigest()):
            self._fail_entry(entry["seq"], "changed", "this line is no entry", self._pending[0])
        self.verdict.torn += 1
        self._pending.clear()

    def _fail_for_order(self, wanted: int, seq: int, line: _Line) -> None:
        if seq < wanted:
            self._fail_entry(seq, "reordered", f"it stands where entry {wanted} belongs", line)
        if self._pending:
            self._fail_entry(wanted, "changed", "this line is no entry", self._pending[0])
        if any(
            entry["seq"] == wanted for other in _iter_lines(self._path) if (entry := parse_entry(other.raw))
        ):
            self._fail_entry(wanted, "reordered", f"entry {seq} stands in its place", line)
        missing = str(wanted) if seq == wanted + 1 else f"{wanted} to {seq - 1}"
        self._fail_entry(wanted, "removed", f"missing: {missing}", line)

    def _check_end(self) -> None:
        verdict = self.verdict
        self._check_begin()
        if self._pending:
            verdict.torn_end = not self._pending[-1].is_ended
            if not verdict.torn_end:
                seq = (verdict.head or NOWHERE).seq + 1
                self._fail_entry(seq, "changed", "this line is no entry", self._pending[0])
        if not self._met and self._expect is not None:
            self._require_head(self._expect)
        head, saved_head = verdict.head or NOWHERE, verdict.kept
        if saved_head is not None and saved_head.seq > head.seq:
            self._require_head(saved_head)
        if saved_head is None and self._head_required and not self._path.is_file():
            self._fail_entry(
                head.seq + 1, "truncated", f"{HEAD_FILE} is missing: entries may have been cut off here"
            )

    def _check_begin(self) -> None:
        """Check that the log itself removed what is missing before the first entry."""
        begin, gone = self._begin, self.verdict.gone
        if begin is None or (begin.seq == -1 and begin.hash == GENESIS) or self._path.is_file():
            return
        if any((last["last"], last["hash"]) == begin for last in gone):
            return
        missing = "0" if begin.seq == 0 else f"0 to {begin.seq}"
        self._fail_entry(0, "removed", f"missing: {missing}, and no entry says why")

    def _require_head(self, expect: ChainHead) -> None:
        head = self.verdict.head or NOWHERE
        if expect.seq > head.seq:
            end = f"the log ends with entry {head.seq}" if head.seq >= 0 else "the log is empty"
            self._fail_entry(head.seq + 1, "truncated", f"{end}, and {expect.seq} was there")
        for last in self.verdict.gone:
            if last["last"] == expect.seq and last["hash"] == expect.hash:
                return
        self._fail_entry(expect.seq, "removed", "it is gone after its time: expect a later one")

    def _fail_entry(self, seq: int, what: Wrong, detail: str, line: _Line | None = None) -> None:
        file, number = (line.file, line.number) if line is not None else ("", 0)
        self.verdict.broken = BrokenEntry(seq, what, detail, file, number)
        raise _BrokenChainError


def _iter_lines(path: Path) -> Iterator[_Line]:
    """Yield all lines in order, without their ends. Raises OSError."""
    for file in [path] if path.is_file() else [file.path for file in list_log_files(path)]:
        with file.open("rb") as lines:
            for number, raw in enumerate(lines, 1):
                yield _Line(file.name, number, raw.removesuffix(b"\n"), raw.endswith(b"\n"))


def search_entries(
    directory: Path,
    *,
    tenant: str | None = None,
    user: str | None = None,
    rule: str | None = None,
    request: str | None = None,
    since: float | None = None,
) -> Iterator[Fields]:
    """Yield the entries that agree with all that is given, oldest first, whether the log holds or not.

    `user`: a pseudonym. `rule`: itself, or what it begins with (`answers` for `answers.pii`). `since`:
    seconds since the epoch. Raises OSError.
    """
    wanted = {"tenant": tenant, "user": user, "request": request}
    wanted = {name: value for name, value in wanted.items() if value is not None}
    for line in _iter_lines(directory):
        entry = parse_entry(line.raw)
        if entry is None or any(entry.get(name) != value for name, value in wanted.items()):
            continue
        if rule is not None and not f"{entry.get('rule', '')}.".startswith(f"{rule}."):
            continue
        if since is None or not _is_before(entry, since):
            yield entry


def _is_before(entry: Fields, since: float) -> bool:
    try:
        return entry_time_s(entry) < since
    except ValueError:
        return False
