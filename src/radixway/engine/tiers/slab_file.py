"""One file of fixed-size slots with a page of KV in each, and the digests by which pages are found again.

    0                slot_bytes                    2 * slot_bytes
    [ file header    | digest, checksum, page ...  | digest, checksum, page ... | …

A slot's digest says which page of which prefix of which model this is (see `chain_page_digests`), and the
checksum covers both. So whatever happened to the file, a slot gives the page that was asked for, or nothing.
"""

import hashlib
import os
import struct
from pathlib import Path

import xxhash

DIGEST_BYTES = 16


def chain_page_digests(fingerprint: bytes, namespace: str, tokens: bytes, page_bytes: int) -> bytes:
    """The digests of all full pages of `tokens` (`page_bytes` of packed ids each), one after another.

    Each is a cryptographic digest of the one before it and the page, so that nobody can choose tokens whose
    KV is taken for that of others. 128 bits of BLAKE2b: 0.8 µs per page.
    """
    last = hashlib.blake2b(fingerprint + namespace.encode(), digest_size=DIGEST_BYTES).digest()
    digests = bytearray()
    for at in range(0, len(tokens) - page_bytes + 1, page_bytes):
        last = hashlib.blake2b(last + tokens[at : at + page_bytes], digest_size=DIGEST_BYTES).digest()
        digests += last
    return bytes(digests)


MAGIC = b"rwkvslab"
ALIGNMENT = 4096
"""Slots begin where the file system's blocks do."""
_HEADER = struct.Struct("<8s32sQ8s")
_CHECKSUM_BYTES = 16


class SlabFile:
    """Slots 1 … `slots`; slot 0 is the file's header. One thread at a time. Methods raise OSError."""

    def __init__(self, path: Path, page_bytes: int, slots: int, fingerprint: bytes) -> None:
        self.kept = False
        """Whether the file was there and was written with the same `fingerprint` and page size."""
        self.found = False
        """Whether there was a file at all."""
        self.slot_bytes = slot_size_bytes(page_bytes)
        self._page_bytes = page_bytes
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        size = os.fstat(self._file).st_size
        self.found = size > 0
        self.kept = os.pread(self._file, _HEADER.size, 0) == _make_header(fingerprint, page_bytes)
        if not self.kept:
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
        """No more reads and writes."""
        os.close(self._file)


def slot_size_bytes(page_bytes: int) -> int:
    """Bytes of a slot that holds a page of `page_bytes`."""
    return -(-(DIGEST_BYTES + _CHECKSUM_BYTES + page_bytes) // ALIGNMENT) * ALIGNMENT


def _page_checksum(digest: bytes, page: memoryview) -> bytes:
    state = xxhash.xxh3_128(digest)
    state.update(page)
    return state.digest()


def _make_header(fingerprint: bytes, page_bytes: int) -> bytes:
    bare = _HEADER.pack(MAGIC, fingerprint, page_bytes, b"")
    return bare[:-8] + xxhash.xxh3_64_digest(bare[:-8])
