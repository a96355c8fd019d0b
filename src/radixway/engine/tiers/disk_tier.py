"""The disk tier of one directory: its index, and the files behind it."""

import fcntl
import logging
import os
from array import array
from pathlib import Path

from radixway.engine.tiers.slab_file import DIGEST_BYTES, SlabFile, slot_size_bytes
from radixway.engine.tiers.slab_index import (
    HEADER_BYTES,
    SlabIndex,
    SlabRecord,
    collect_chains,
    record_size_bytes,
)
from radixway.engine.tiers.tier_index import TierIndex

log = logging.getLogger(__name__)


class DiskTier:
    """The files of the disk tier, and `tier`, the index of their slots.

    `tier` belongs to the engine thread; `write_page`, `read_page` and `restart_files` to the transfer thread.
    """

    def __init__(self, slab: SlabFile, index: SlabIndex, slots: int, lock: int) -> None:
        self.failed: OSError | None = None
        """What ended the use of the files; after it nothing is read or written."""
        self._slab = slab
        self._index = index
        self._lock = lock
        self.found = collect_chains(index.records.values())
        """What an earlier run left: the pages of each prefix, from the first on."""
        self.tier = TierIndex(slots, DIGEST_BYTES, {page.slot for prefix in self.found for page in prefix})
        for prefix in self.found:
            digests = b"".join(page.digest for page in prefix)
            self.tier.restore_pages(digests, array("i", [page.slot for page in prefix]))

    def write_page(self, record: SlabRecord, page: memoryview) -> None:
        """Write `page` to the slot of `record`. An error is kept in `failed`."""
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
    slots = (budget_bytes - size - 2 * HEADER_BYTES) // (size + 4 * record_size_bytes(token_bytes))
    if slots < 1:
        log.warning("no disk cache: %d bytes hold no page of %d", budget_bytes, page_bytes)
        return None
    try:
        directory = directory.expanduser()
        directory.mkdir(parents=True, exist_ok=True)
        lock = os.open(directory / "kv.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except (OSError, ValueError, RuntimeError) as error:  # a NUL, a home that nobody has
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
        if not slab.kept:
            (directory / "kv.index").unlink(missing_ok=True)
        index = SlabIndex(directory / "kv.index", fingerprint, slots, token_bytes)
        if index.foreign or (slab.found and not slab.kept):
            log.warning("%s was written for another model or is damaged: it starts empty", directory)
    except OSError as error:
        os.close(lock)
        log.warning("no disk cache: the files in %s cannot be used: %s", directory, error)
        return None
    if index.damaged:
        log.warning("%d records of the index in %s are damaged and not used", index.damaged, directory)
    disk = DiskTier(slab, index, slots, lock)
    log.info("the disk cache in %s has room for %d pages and holds %d", directory, slots, disk.tier.num_pages)
    return disk
