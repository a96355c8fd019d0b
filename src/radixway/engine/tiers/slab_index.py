"""The page in each slot of a slab, in a file of its own, so that a restart need not read the slab.

Records are appended as slots are filled; the last one for a slot counts. A record that is damaged, or the
torn end of the file, is skipped. The index is only a hint: the slab verifies every page.
"""

import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import xxhash

from radixway.engine.kv_identity import FINGERPRINT_BYTES
from radixway.engine.tiers.slab_file import DIGEST_BYTES

MAGIC = b"rwkvidx2"
_CHECKSUM_BYTES = 8
HEADER_BYTES = len(MAGIC) + FINGERPRINT_BYTES


class SlabRecord(NamedTuple):
    """Slot `slot` holds page number `page` of a prefix."""

    slot: int
    page: int
    parent: bytes
    """The digest of the page before it; of nothing in particular where `page` is 0."""
    digest: bytes
    tokens: bytes
    """The page's packed token ids, so that a restart can tell what it found; zeros for what has a salt."""


class SlabIndex:
    """Appends records; rewrites the file when more than half of it is out of date. Methods raise OSError."""

    def __init__(self, path: Path, fingerprint: bytes, slots: int, token_bytes: int) -> None:
        """`token_bytes`: what the token ids of a page take."""
        self.records: dict[int, SlabRecord] = {}
        """By slot."""
        self.damaged = 0
        """Records that could not be read."""
        self.foreign = False
        """Whether the file that was there is not an index of `fingerprint`."""
        self._path = path
        self._record = _record_struct(token_bytes)
        self._slots = slots
        self._appended = 0
        self._fingerprint = fingerprint
        self._read_records()
        self._file = self._write_compacted()

    def append_record(self, record: SlabRecord) -> None:
        """Append `record`: the new content of its slot."""
        self.records[record.slot] = record
        packed = self._pack_record(record)
        if os.write(self._file, packed) != len(packed):
            raise OSError("only a part of a record was written")
        self._appended += 1
        if self._appended > 2 * self._slots:
            self._compact_file()

    def clear_index(self, fingerprint: bytes) -> None:
        """Forget everything; from now on records are of `fingerprint`."""
        self._fingerprint = fingerprint
        self.records.clear()
        self._compact_file()

    def close_file(self) -> None:
        """No more records."""
        os.close(self._file)

    def _read_records(self) -> None:
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return
        self.foreign = content[:HEADER_BYTES] != MAGIC + self._fingerprint
        if self.foreign:
            return
        size = self._record.size + _CHECKSUM_BYTES
        for at in range(HEADER_BYTES, len(content), size):
            packed = content[at : at + size]
            if xxhash.xxh3_64_digest(packed[:-_CHECKSUM_BYTES]) != packed[-_CHECKSUM_BYTES:]:
                self.damaged += 1
                continue
            record = SlabRecord(*self._record.unpack(packed[:-_CHECKSUM_BYTES]))
            if 1 <= record.slot <= self._slots:
                self.records.pop(record.slot, None)  # last in the order of writing
                self.records[record.slot] = record

    def _compact_file(self) -> None:
        old, self._file = self._file, self._write_compacted()  # in this order: it may fail
        os.close(old)

    def _write_compacted(self) -> int:
        """A file with the latest record of each slot takes the place of the old one; opened for appending."""
        new = self._path.with_suffix(".new")
        content = MAGIC + self._fingerprint + b"".join(map(self._pack_record, self.records.values()))
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with os.fdopen(os.open(new, flags, 0o600), "wb") as file:  # nobody else may read the tokens
            file.write(content)
        new.replace(self._path)
        self._appended = len(self.records)
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def _pack_record(self, record: SlabRecord) -> bytes:
        bare = self._record.pack(*record)
        return bare + xxhash.xxh3_64_digest(bare)


def collect_chains(records: Iterable[SlabRecord]) -> list[list[SlabRecord]]:
    """The pages of every prefix whose `records` are complete, from its first page to the end of a branch."""
    by_digest = {record.digest: record for record in records}
    inner = {record.parent for record in by_digest.values() if record.page}
    found = []
    for leaf in by_digest.values():
        if leaf.digest in inner:
            continue
        path = [leaf]
        while path[-1].page:
            above = by_digest.get(path[-1].parent)
            if above is None or above.page != path[-1].page - 1:
                path = []
                break
            path.append(above)
        path.reverse()
        if path:
            found.append(path)
    return found


def record_size_bytes(token_bytes: int) -> int:
    """Bytes of a record in the file, with `token_bytes` of packed token ids."""
    return _record_struct(token_bytes).size + _CHECKSUM_BYTES


def _record_struct(token_bytes: int) -> struct.Struct:
    return struct.Struct(f"<II{DIGEST_BYTES}s{DIGEST_BYTES}s{token_bytes}s")
