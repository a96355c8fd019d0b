"""Where a log ends, kept beside it in `head.json`: entries that are cut off at the end are missed.

It is sealed as entries are. Without a key, whoever can write the files writes it anew. Under a key they can
only put back an older one, with the log as it was then, which shows against a head kept elsewhere.

    append entries, fsync   ->   replace head.json        a crash between them leaves a head that is behind
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from radixway.guard.audit.entry import GENESIS, EntryHasher, Fields, encode_entry, parse_entry
from radixway.guard.audit.files import replace_file

HEAD_FILE = "head.json"


class ChainHead(NamedTuple):
    """Where a log ends: keep it elsewhere, and no entry up to it can go or change unnoticed."""

    seq: int
    hash: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"


NOWHERE = ChainHead(-1, GENESIS)
"""The head of a log without entries."""


class ChainHeadError(Exception):
    """The file is not as it was written, or was written under another key."""


def read_head(directory: Path, seal: EntryHasher) -> ChainHead | None:
    """What the file says; None where there is none. Raises OSError and ChainHeadError."""
    try:
        raw = (directory / HEAD_FILE).read_bytes()
    except FileNotFoundError:
        return None
    fields = parse_entry(raw.removesuffix(b"\n"))
    if fields is None or not isinstance(fields.get("last"), str) or not seal.verify_entry(fields):
        raise ChainHeadError(f"{HEAD_FILE} does not hold: changed, or written under another key")
    return ChainHead(fields["seq"], fields["last"])


def write_head(directory: Path, seal: EntryHasher, head: ChainHead) -> None:
    """Keep `head`. Raises OSError."""
    fields: Fields = {"kind": "head", "seq": head.seq, "last": head.hash}
    replace_file(directory / HEAD_FILE, encode_entry(seal.seal_entry(fields)) + b"\n")
