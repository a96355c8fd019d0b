"""Host memory, and what is copied into it, out of it and past it: by one thread, in order."""

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue

import numpy as np
import torch
from torch import Tensor

from radixway.engine.pool import KVStore
from radixway.engine.request import Request
from radixway.engine.tiers.chain import DIGEST_BYTES
from radixway.engine.tiers.disk import Disk
from radixway.engine.tiers.index import Record
from radixway.engine.tiers.transfer import Transfer

_READ_AT_ONCE = 32  # pages of disk that are put into the device together


@dataclass(slots=True, eq=False)
class Load:
    """A request's pages [start, start + len(host) + len(disk)) on their way up, from these slots."""

    request: Request
    start: int
    host: "array[int]"
    disk: "array[int]"
    digests: bytes
    """Of all its pages, if `disk` is not empty."""
    from_host: int = 0
    """Pages that have arrived, in their order."""
    from_disk: int = 0


class Copies:
    """Called by the engine thread; every copy but that out of the device's pages is the transfer thread's."""

    def __init__(self, store: KVStore, slots: int) -> None:
        self._store = store
        self._rows = _host_memory(slots + 1, store.page_bytes, store.device)
        self._transfer = Transfer(store.device)
        self._arrived: SimpleQueue[Load] = SimpleQueue()
        self._loads = 0

    @property
    def pending_bytes(self) -> int:
        """What is still to be copied down."""
        return self._transfer.pending_bytes

    def keep(self, pages: "array[int]", slots: "array[int]") -> None:
        """Copy the device's `pages` to these slots; they may be written to as soon as this returns."""
        rows = self._store.read(_tensor(pages, self._store.device))
        self._transfer.submit(lambda: self._keep(rows, slots), rows.nbytes)

    def write(self, disk: Disk, records: list[Record], slots: "array[int]") -> None:
        """Write what these slots hold to the disk's slots that `records` name."""
        size = len(records) * self._store.page_bytes
        self._transfer.submit(lambda: self._write(disk, records, slots), size)

    def fetch(self, load: Load, disk: Disk | None) -> None:
        """Fill the device's pages that a request holds; then it is in `arrived`."""
        pages = load.request.pages[load.start : load.start + len(load.host) + len(load.disk)]
        self._loads += 1
        self._transfer.submit(lambda: self._fetch(load, disk, pages))

    def submit(self, work: Callable[[], None]) -> None:
        """Do something else in its turn."""
        self._transfer.submit(work)

    def arrived(self, wait_s: float | None) -> list[Load]:
        """Loads that have ended since; waits up to `wait_s` (None: as long as it takes) for the first."""
        loads: list[Load] = []
        while self._loads:
            try:
                loads.append(self._arrived.get(timeout=None if loads else wait_s, block=not loads))
            except Empty:
                break
            self._loads -= 1
        return loads

    def drain(self) -> None:
        """Return when all that was asked for is done."""
        self._transfer.drain()

    def close(self) -> None:
        """Do what was asked for, and end the thread."""
        self._transfer.close()

    # Below: the transfer thread.

    def _keep(self, rows: Tensor, slots: "array[int]") -> None:
        self._rows.index_copy_(0, _tensor(slots), rows.cpu())

    def _write(self, disk: Disk, records: list[Record], slots: "array[int]") -> None:
        for record, slot in zip(records, slots, strict=True):
            disk.write(record, self._rows[slot].numpy().data)

    def _fetch(self, load: Load, disk: Disk | None, pages: "array[int]") -> None:
        try:
            if load.host:
                self._put(pages[: len(load.host)], self._rows.index_select(0, _tensor(load.host)))
                load.from_host = len(load.host)
            for at in range(0, len(load.disk), _READ_AT_ONCE):
                if disk is None or not self._fetch_from_disk(load, disk, pages, at):
                    break
        finally:
            self._arrived.put(load)

    def _fetch_from_disk(self, load: Load, disk: Disk, pages: "array[int]", at: int) -> bool:
        """Load the next few pages; False if one of them is not to be had."""
        slots = load.disk[at : at + _READ_AT_ONCE]
        rows = torch.empty(len(slots), self._store.page_bytes, dtype=torch.uint8)
        first = load.start + len(load.host) + at
        good = 0
        for page, slot in enumerate(slots, first):
            digest = load.digests[page * DIGEST_BYTES : (page + 1) * DIGEST_BYTES]
            if not disk.read(slot, digest, rows[good].numpy().data):
                break
            good += 1
        if good:
            self._put(pages[len(load.host) + at :][:good], rows[:good])
        load.from_disk += good
        return good == len(slots)

    def _put(self, pages: "array[int]", rows: Tensor) -> None:
        device = self._store.device
        self._store.put(_tensor(pages, device), rows.to(device))


def _host_memory(rows: int, size: int, device: torch.device) -> Tensor:
    """Bytes [rows, size]; pinned where the device copies faster from that."""
    return torch.empty(rows, size, dtype=torch.uint8, pin_memory=device.type == "cuda")


def _tensor(numbers: "array[int]", device: torch.device | None = None) -> Tensor:
    return torch.from_numpy(np.array(numbers, dtype=np.int64)).to(device)
