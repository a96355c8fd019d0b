"""Where a log ends, kept beside it in `head.json`: entries that are cut off at the end are missed.

It is sealed as entries are. Without a key, whoever can write the files writes it anew. Under a key they can
only put back an older one, with the log as it was then, which shows against a head kept elsewhere.

    append entries, fsync   ->   replace head.json        a crash between them leaves a head that is behind
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from radixway.guard.audit.entry import GENESIS, Fields, Seal, canonical, read_line
from radixway.guard.audit.files import replace

HEAD_FILE = "head.json"


class Head(NamedTuple):
    """Where a log ends: keep it elsewhere, and no entry up to it can go or change unnoticed."""

    seq: int
    hash: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"


NOWHERE = Head(-1, GENESIS)
"""The head of a log without entries."""


class HeadChanged(Exception):
    """The file is not as it was written, or was written under another key."""


def read_head(directory: Path, seal: Seal) -> Head | None:
    """What the file says; None where there is none. Raises OSError and HeadChanged."""
    try:
        raw = (directory / HEAD_FILE).read_bytes()
    except FileNotFoundError:
        return None
    fields = read_line(raw.removesuffix(b"\n"))
    if fields is None or not isinstance(fields.get("last"), str) or not seal.holds(fields):
        raise HeadChanged(f"{HEAD_FILE} does not hold: changed, or written under another key")
    return Head(fields["seq"], fields["last"])


def write_head(directory: Path, seal: Seal, head: Head) -> None:
    """Keep `head`. Raises OSError."""
    fields: Fields = {"kind": "head", "seq": head.seq, "last": head.hash}
    replace(directory / HEAD_FILE, canonical(seal.close(fields)) + b"\n")
