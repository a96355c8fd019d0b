"""The disk tier of one directory: a slab of pages, an index of what is in them, and a lock.

The slab is one file of fixed-size slots with a page of KV in each:

    0                slot_bytes                    2 * slot_bytes
    [ file header    | digest, checksum, page ...  | digest, checksum, page ... | …

A slot's digest says which page of which prefix of which model this is (see `chain_page_digests`), and the
checksum covers both. So whatever happened to the file, a slot gives the requested page, or nothing.

The index says which page is in each slot, so that a restart need not read the slab. Records are appended as
slots are filled; the last one for a slot counts. One that is damaged, or the torn end of the file, is
skipped. The index is only a hint: the slab verifies every page.
"""

import fcntl
import hashlib
import logging
import os
import struct
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import xxhash

from radixway.engine.kv_identity import FINGERPRINT_BYTES
from radixway.engine.tiers.tier_index import TierIndex

DIGEST_BYTES = 16


def chain_page_digests(fingerprint: bytes, namespace: str, tokens: bytes, page_bytes: int) -> bytes:
    """The digests of all full pages of `tokens` (`page_bytes` of packed ids each), one after another.

    Each is a cryptographic digest of the one before it and the page, so that no one can choose tokens whose
    KV is taken for that of others. 128 bits of BLAKE2b: 0.8 µs per page.
    """
    last = hashlib.blake2b(fingerprint + namespace.encode(), digest_size=DIGEST_BYTES).digest()
    digests = bytearray()
    for at in range(0, len(tokens) - page_bytes + 1, page_bytes):
        last = hashlib.blake2b(last + tokens[at : at + page_bytes], digest_size=DIGEST_BYTES).digest()
        digests += last
    return bytes(digests)


_SLAB_MAGIC = b"rwkvslab"
ALIGNMENT = 4096
"""Slots begin where the file system's blocks do."""
_SLAB_HEADER = struct.Struct("<8s32sQ8s")
_CHECKSUM_BYTES = 16


class SlabFile:
    """Slots 1 … `slots`; slot 0 is the file's header. One thread at a time. Methods raise OSError."""

    def __init__(self, path: Path, page_bytes: int, slots: int, fingerprint: bytes) -> None:
        self.is_reused = False
        """Whether the file existed with the same `fingerprint` and page size."""
        self.found = False
        """Whether a file existed."""
        self.slot_bytes = slot_size_bytes(page_bytes)
        self._page_bytes = page_bytes
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        size = os.fstat(self._file).st_size
        self.found = size > 0
        self.is_reused = os.pread(self._file, _SLAB_HEADER.size, 0) == _make_header(fingerprint, page_bytes)
        if not self.is_reused:
            self.clear_file(fingerprint)
        elif size > (slots + 1) * self.slot_bytes:  # it was larger once
            os.ftruncate(self._file, (slots + 1) * self.slot_bytes)

    def write_slot(self, slot: int, digest: bytes, page: memoryview) -> None:
        """Fill a slot with `page` (page_bytes)."""
        parts: list[bytes | memoryview] = [digest + _page_checksum(digest, page), page]
        written = os.pwritev(self._file, parts, slot * self.slot_bytes)
        if written != DIGEST_BYTES + _CHECKSUM_BYTES + self._page_bytes:
            raise OSError(f"only {written} bytes of a page were written")

    def read_slot(self, slot: int, digest: bytes, page: memoryview) -> bool:
        """Fill `page` from a slot. False if the slot does not hold just what `digest` says, unchanged."""
        head = bytearray(DIGEST_BYTES + _CHECKSUM_BYTES)
        read = os.preadv(self._file, [head, page], slot * self.slot_bytes)
        return read == len(head) + self._page_bytes and head == digest + _page_checksum(digest, page)

    def clear_file(self, fingerprint: bytes) -> None:
        """Empty the file for KV of `fingerprint`, and release its disk space."""
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, _make_header(fingerprint, self._page_bytes), 0)

    def close_file(self) -> None:
        """Close the file after the last use."""
        os.close(self._file)


def slot_size_bytes(page_bytes: int) -> int:
    """Bytes of a slot that holds a page of `page_bytes`."""
    return -(-(DIGEST_BYTES + _CHECKSUM_BYTES + page_bytes) // ALIGNMENT) * ALIGNMENT


def _page_checksum(digest: bytes, page: memoryview) -> bytes:
    state = xxhash.xxh3_128(digest)
    state.update(page)
    return state.digest()


def _make_header(fingerprint: bytes, page_bytes: int) -> bytes:
    bare = _SLAB_HEADER.pack(_SLAB_MAGIC, fingerprint, page_bytes, b"")
    return bare[:-8] + xxhash.xxh3_64_digest(bare[:-8])


_INDEX_MAGIC = b"rwkvidx2"
_RECORD_CHECKSUM_BYTES = 8
_INDEX_HEADER_BYTES = len(_INDEX_MAGIC) + FINGERPRINT_BYTES


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
        """Whether the existing file is not an index of `fingerprint`."""
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
        """Close the file after the last record."""
        os.close(self._file)

    def _read_records(self) -> None:
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return
        self.foreign = content[:_INDEX_HEADER_BYTES] != _INDEX_MAGIC + self._fingerprint
        if self.foreign:
            return
        size = self._record.size + _RECORD_CHECKSUM_BYTES
        for at in range(_INDEX_HEADER_BYTES, len(content), size):
            packed = content[at : at + size]
            if xxhash.xxh3_64_digest(packed[:-_RECORD_CHECKSUM_BYTES]) != packed[-_RECORD_CHECKSUM_BYTES:]:
                self.damaged += 1
                continue
            record = SlabRecord(*self._record.unpack(packed[:-_RECORD_CHECKSUM_BYTES]))
            if 1 <= record.slot <= self._slots:
                self.records.pop(record.slot, None)  # last in the order of writing
                self.records[record.slot] = record

    def _compact_file(self) -> None:
        old, self._file = self._file, self._write_compacted()  # in this order: it may fail
        os.close(old)

    def _write_compacted(self) -> int:
        """Replace the file by one with each slot's latest record; return it opened for appending."""
        new = self._path.with_suffix(".new")
        content = _INDEX_MAGIC + self._fingerprint + b"".join(map(self._pack_record, self.records.values()))
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with os.fdopen(os.open(new, flags, 0o600), "wb") as file:  # only the owner may read the tokens
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
    return _record_struct(token_bytes).size + _RECORD_CHECKSUM_BYTES


def _record_struct(token_bytes: int) -> struct.Struct:
    return struct.Struct(f"<II{DIGEST_BYTES}s{DIGEST_BYTES}s{token_bytes}s")


log = logging.getLogger(__name__)


class DiskTier:
    """The files of the disk tier, and `tier`, the index of their slots.

    `tier` belongs to the engine thread; `write_page`, `read_page` and `restart_files` to the transfer thread.
    """

    def __init__(self, slab: SlabFile, index: SlabIndex, slots: int, lock: int) -> None:
        self.failed: OSError | None = None
        """The error that ended the use of the files; after it nothing is read or written."""
        self._slab = slab
        self._index = index
        self._lock = lock
        self.found = collect_chains(index.records.values())
        """Pages of each prefix that an earlier run left, in order."""
        self.tier = TierIndex(slots, DIGEST_BYTES, {page.slot for prefix in self.found for page in prefix})
        for prefix in self.found:
            digests = b"".join(page.digest for page in prefix)
            self.tier.restore_pages(digests, array("i", [page.slot for page in prefix]))

    def write_page(self, record: SlabRecord, page: memoryview) -> None:
        """Write `page` to the slot of `record`. An error is stored in `failed`."""
        if self.failed is None:
            try:
                self._slab.write_slot(record.slot, record.digest, page)
                self._index.append_record(record)
            except OSError as error:
                self.failed = error

    def read_page(self, slot: int, digest: bytes, page: memoryview) -> bool:
        """Fill `page`. False if the slot does not hold what it should."""
        try:
            return self.failed is None and self._slab.read_slot(slot, digest, page)
        except OSError as error:
            self.failed = error
            return False

    def restart_files(self, fingerprint: bytes) -> None:
        """Empty the files; what follows is of `fingerprint`."""
        if self.failed is None:
            try:
                self._slab.clear_file(fingerprint)
                self._index.clear_index(fingerprint)
            except OSError as error:
                self.failed = error

    def close_files(self) -> None:
        """Close the files and let another process have them."""
        self._slab.close_file()
        self._index.close_file()
        os.close(self._lock)


def open_disk_tier(
    directory: Path, budget_bytes: int, page_bytes: int, token_bytes: int, fingerprint: bytes
) -> DiskTier | None:
    """The cache in `directory`, with what an earlier run left there, in at most `budget_bytes`.

    A page has `page_bytes` of KV and `token_bytes` of token ids.

    None if it cannot be used (another process has it, no right to write, too small): a log line says why, and
    the engine does without. What is damaged or of another model is not used, which a log line says as well.
    """
    size = slot_size_bytes(page_bytes)
    # an index holds at most twice as many records as there are slots, and for a moment its copy does too
    slots = (budget_bytes - size - 2 * _INDEX_HEADER_BYTES) // (size + 4 * record_size_bytes(token_bytes))
    if slots < 1:
        log.warning("no disk cache: %d bytes are less than a page of %d", budget_bytes, page_bytes)
        return None
    try:
        directory = directory.expanduser()
        directory.mkdir(parents=True, exist_ok=True)
        lock = os.open(directory / "kv.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except (OSError, ValueError, RuntimeError) as error:  # a NUL, the home of an unknown user
        log.warning("no disk cache: %s cannot be used: %s", directory, error)
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        log.warning("no disk cache: another process uses %s; give each a directory of its own", directory)
        return None
    try:
        slab = SlabFile(directory / "kv.slab", page_bytes, slots, fingerprint)
        if not slab.is_reused:
            (directory / "kv.index").unlink(missing_ok=True)
        index = SlabIndex(directory / "kv.index", fingerprint, slots, token_bytes)
        if index.foreign or (slab.found and not slab.is_reused):
            log.warning("%s was written for another model or is damaged: it starts empty", directory)
    except OSError as error:
        os.close(lock)
        log.warning("no disk cache: the files in %s cannot be used: %s", directory, error)
        return None
    if index.damaged:
        log.warning("%d records of the index in %s are damaged and not used", index.damaged, directory)
    disk = DiskTier(slab, index, slots, lock)
    log.info("the disk cache in %s has %d pages, %d of them in use", directory, slots, disk.tier.num_pages)
    return disk
