"""Is the log what was written? Reads every line, and names the first that is not.

A piece that is missing at the very end is seen by `head.json`. Where both were written anew, without a key or
from older copies, only a head that was kept elsewhere shows it (`radixway audit head`, `verify --expect`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from radixway.guard.audit.entry import GENESIS, Fields, Seal, read_line
from radixway.guard.audit.files import files_in
from radixway.guard.audit.head import HEAD_FILE, NOWHERE, Head, HeadChanged, read_head

Wrong = Literal["changed", "removed", "reordered", "truncated"]


@dataclass(frozen=True, slots=True)
class Broken:
    """The first entry that is not as it was written."""

    seq: int
    what: Wrong
    detail: str
    file: str = ""
    line: int = 0


@dataclass(slots=True)
class Verdict:
    """What verification found."""

    entries: int = 0
    files: int = 0
    first: int | None = None
    head: Head | None = None
    gone: list[Fields] = field(default_factory=list)
    """What the log itself says was removed after its time: `first`, `last`, `hash`, `until`."""
    torn: int = 0
    """Lines that a crash cut off and the log tells of."""
    torn_end: bool = False
    """The last line is cut off, and nobody has written since: a crash, or somebody writes just now."""
    kept: Head | None = None
    """What `head.json` says. An entry or a batch behind: a crash, or somebody writes just now."""
    broken: Broken | None = None

    @property
    def is_end_known(self) -> bool:
        """Whether entries that were cut off at the end would have been missed."""
        return self.kept is not None

    @property
    def holds(self) -> bool:
        """Whether all of it is as it was written."""
        return self.broken is None


class _Line(NamedTuple):
    file: str
    number: int
    raw: bytes
    is_ended: bool


class _Failed(Exception):
    def __init__(self, broken: Broken) -> None:
        super().__init__(broken.detail)
        self.broken = broken


def verify(path: Path, seal: Seal, expect: Head | None = None) -> Verdict:
    """Check a log's directory, or one file of it. `expect`: a head kept elsewhere. Raises OSError."""
    walk = _Walk(path, seal, expect)
    try:
        walk.run()
    except _Failed as failed:
        walk.verdict.broken = failed.broken
    return walk.verdict


class _Walk:
    """One pass over all lines."""

    def __init__(self, path: Path, seal: Seal, expect: Head | None) -> None:
        self.verdict = Verdict()
        self._path = path
        self._seal = seal
        self._expect = expect
        self._begin: Head | None = None
        """What the first entry that is there was hung on."""
        self._met = expect is None
        self._kept_must_be_there = False
        self._pending: list[_Line] = []
        """Lines that are no entries: a crash's, if the next entry says so."""

    def run(self) -> None:
        if not self._path.is_file():
            try:
                self.verdict.kept = read_head(
                    self._path, self._seal
                )  # before the entries: it comes behind them
            except HeadChanged as error:
                self._fail(0, "changed", str(error))
        for line in _lines(self._path):
            entry = read_line(line.raw)
            if entry is None:
                self._pending.append(line)
                continue
            self._check(entry, line)
            self._take(entry, line)
        self._check_end()

    def _check(self, entry: Fields, line: _Line) -> None:
        seq, head = entry["seq"], self.verdict.head
        if not self._seal.holds(entry):
            wanted = seq if head is None else head.seq + 1
            self._fail(wanted, "changed", f"its {self._seal.name} hash is another", line)
        if head is None:
            self._begin = Head(seq - 1, str(entry.get("prev")))
        elif seq != head.seq + 1:
            self._fail_for_order(head.seq + 1, seq, line)
        if head is not None and entry.get("prev") != head.hash:
            self._fail(head.seq, "changed", f"entry {seq} was hung on another", line)
        self._settle_pending(entry)
        if self._expect is not None and seq == self._expect.seq:
            self._met = True
            if entry["hash"] != self._expect.hash:
                self._fail(seq, "changed", "its hash is not the one that is expected", line)
        kept = self.verdict.kept
        if kept is not None and seq == kept.seq and entry["hash"] != kept.hash:
            self._fail(seq, "changed", f"its hash is not the one in {HEAD_FILE}", line)

    def _take(self, entry: Fields, line: _Line) -> None:
        verdict = self.verdict
        if entry.get("kind") == "truncated":
            detail = f"when it was written, entry {entry.get('last')} had been there"
            self._fail(entry["seq"], "truncated", detail, line)
        if entry.get("kind") == "head" and self._kept_must_be_there:
            detail = f"when it was written, {HEAD_FILE} was {entry.get('was')}: entries before it may be gone"
            self._fail(entry["seq"], "truncated", detail, line)
        self._kept_must_be_there |= entry.get("head") is True
        verdict.entries += 1
        verdict.head = Head(entry["seq"], entry["hash"])
        if verdict.first is None:
            verdict.first = entry["seq"]
        if entry.get("kind") == "retention":
            verdict.gone += entry.get("removed", [])

    def _settle_pending(self, entry: Fields) -> None:
        """Lines that are no entries are a crash's only where the entry behind them says just that."""
        if not self._pending:
            return
        raw = b"\n".join(line.raw for line in self._pending)
        said = (entry.get("kind"), entry.get("bytes"), entry.get("sha256"))
        if said != ("torn", len(raw), hashlib.sha256(raw).hexdigest()):
            self._fail(entry["seq"], "changed", "this line is no entry", self._pending[0])
        self.verdict.torn += 1
        self._pending.clear()

    def _fail_for_order(self, wanted: int, seq: int, line: _Line) -> None:
        if seq < wanted:
            self._fail(seq, "reordered", f"it stands where entry {wanted} belongs", line)
        if self._pending:
            self._fail(wanted, "changed", "this line is no entry", self._pending[0])
        if any(entry["seq"] == wanted for each in _lines(self._path) if (entry := read_line(each.raw))):
            self._fail(wanted, "reordered", f"entry {seq} stands in its place", line)
        missing = str(wanted) if seq == wanted + 1 else f"{wanted} to {seq - 1}"
        self._fail(wanted, "removed", f"missing: {missing}", line)

    def _check_end(self) -> None:
        verdict = self.verdict
        self._check_begin()
        if self._pending:
            verdict.torn_end = not self._pending[-1].is_ended
            if not verdict.torn_end:
                seq = (verdict.head or NOWHERE).seq + 1
                self._fail(seq, "changed", "this line is no entry", self._pending[0])
        if not self._met and self._expect is not None:
            self._miss(self._expect)
        head, kept = verdict.head or NOWHERE, verdict.kept
        if kept is not None and kept.seq > head.seq:
            self._miss(kept)
        if kept is None and self._kept_must_be_there and not self._path.is_file():
            self._fail(
                head.seq + 1, "truncated", f"{HEAD_FILE} is missing: entries may have been cut off here"
            )

    def _check_begin(self) -> None:
        """What is missing before the first entry must have been removed by the log itself."""
        begin, gone = self._begin, self.verdict.gone
        if begin is None or (begin.seq == -1 and begin.hash == GENESIS) or self._path.is_file():
            return
        if any((each["last"], each["hash"]) == begin for each in gone):
            return
        missing = "0" if begin.seq == 0 else f"0 to {begin.seq}"
        self._fail(0, "removed", f"missing: {missing}, and no entry says why")

    def _miss(self, expect: Head) -> None:
        head = self.verdict.head or NOWHERE
        if expect.seq > head.seq:
            end = f"the log ends with entry {head.seq}" if head.seq >= 0 else "the log is empty"
            self._fail(head.seq + 1, "truncated", f"{end}, and {expect.seq} was there")
        for each in self.verdict.gone:
            if each["last"] == expect.seq and each["hash"] == expect.hash:
                return
        self._fail(expect.seq, "removed", "it is gone after its time: expect a later one")

    def _fail(self, seq: int, what: Wrong, detail: str, line: _Line | None = None) -> None:
        file, number = (line.file, line.number) if line is not None else ("", 0)
        raise _Failed(Broken(seq, what, detail, file, number))


def _lines(path: Path) -> Iterator[_Line]:
    """All lines in order, without their ends. Raises OSError."""
    for file in [path] if path.is_file() else [each.path for each in files_in(path)]:
        with file.open("rb") as lines:
            for number, raw in enumerate(lines, 1):
                yield _Line(file.name, number, raw.removesuffix(b"\n"), raw.endswith(b"\n"))
