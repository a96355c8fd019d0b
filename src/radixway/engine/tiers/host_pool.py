"""The host tier's memory, and the one thread that copies between device, host and disk."""

import logging
import threading
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from radixway.engine.engine_request import EngineRequest
from radixway.engine.kv_store import KVStore
from radixway.engine.tiers.disk_tier import DIGEST_BYTES, DiskTier, SlabRecord

log = logging.getLogger(__name__)


class _TransferJob(NamedTuple):
    work: Callable[[], None]
    size: int
    ready: torch.cuda.Event | None


class TransferThread:
    """First in, first out: so what is read later always finds what was to be written before it.

    On CUDA jobs run on a stream of their own, each after all that the engine's stream had been given when it
    was submitted. (Not run on a GPU yet.)
    """

    def __init__(self, device: torch.device) -> None:
        self._jobs: SimpleQueue[_TransferJob | None] = SimpleQueue()
        self._pending = 0
        self._lock = threading.Lock()
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._thread = threading.Thread(target=self._copy_loop, name="radixway-transfer", daemon=True)
        self._thread.start()

    @property
    def pending_bytes(self) -> int:
        """The sizes of the copies that are waiting or running."""
        return self._pending

    def submit_copy(self, work: Callable[[], None], size: int = 0) -> None:
        """Queue `work`; `size` is what it copies, in bytes."""
        ready = None
        if self._stream is not None:
            ready = torch.cuda.Event()  # type: ignore[no-untyped-call]
            ready.record(torch.cuda.current_stream(self._stream.device))
        with self._lock:
            self._pending += size
        self._jobs.put(_TransferJob(work, size, ready))

    def drain_copies(self) -> None:
        """Return when all that was submitted before is done."""
        done = threading.Event()
        self.submit_copy(done.set)
        done.wait()

    def shutdown(self) -> None:
        """Finish the queue, and end the thread."""
        self._jobs.put(None)
        self._thread.join()

    @torch.inference_mode()
    def _copy_loop(self) -> None:
        torch.set_num_threads(1)
        while (job := self._jobs.get()) is not None:
            try:
                self._run_job(job)
            except Exception:
                log.exception("copying between the tiers of the cache failed")
            with self._lock:
                self._pending -= job.size

    def _run_job(self, job: _TransferJob) -> None:
        if self._stream is None or job.ready is None:
            job.work()
            return
        with torch.cuda.stream(self._stream):
            self._stream.wait_event(job.ready)
            job.work()
            self._stream.synchronize()


_PAGES_PER_READ = 32  # pages of disk that are put into the device together


@dataclass(slots=True, eq=False)
class TierLoad:
    """A load of a request's pages [start, start + len(host) + len(disk)) from these slots."""

    request: EngineRequest
    start: int
    host: "array[int]"
    disk: "array[int]"
    digests: bytes
    """Digests of all its pages, if `disk` is not empty."""
    from_host: int = 0
    """Pages that have arrived, in their order."""
    from_disk: int = 0


class HostKVPool:
    """The host tier's slots. All copies but those out of the device are the transfer thread's."""

    def __init__(self, store: KVStore, slots: int) -> None:
        self._store = store
        self._rows = _allocate_host_memory(slots + 1, store.page_bytes, store.device)
        self.transfer = TransferThread(store.device)
        self._arrived: SimpleQueue[TierLoad] = SimpleQueue()
        self._loads = 0

    def save_pages(self, pages: "array[int]", slots: "array[int]") -> None:
        """Copy the device's `pages` to these slots; they may be written to as soon as this returns."""
        rows = self._store.read_pages(_index_tensor(pages, self._store.device))
        self.transfer.submit_copy(lambda: self._store_rows(rows, slots), rows.nbytes)

    def write_to_disk(self, disk: DiskTier, records: list[SlabRecord], slots: "array[int]") -> None:
        """Write what these slots hold to the disk's slots that `records` name."""
        size = len(records) * self._store.page_bytes
        self.transfer.submit_copy(lambda: self._write_records(disk, records, slots), size)

    def start_load(self, load: TierLoad, disk: DiskTier | None) -> None:
        """Fill the device's pages that the request of `load` holds; `poll_loads` returns it later."""
        pages = load.request.pages[load.start : load.start + len(load.host) + len(load.disk)]
        self._loads += 1
        self.transfer.submit_copy(lambda: self._run_load(load, disk, pages))

    def poll_loads(self, wait_s: float | None) -> list[TierLoad]:
        """Loads that have ended since; waits up to `wait_s` (None: as long as it takes) for the first."""
        loads: list[TierLoad] = []
        while self._loads:
            try:
                loads.append(self._arrived.get(timeout=None if loads else wait_s, block=not loads))
            except Empty:
                break
            self._loads -= 1
        return loads

    # Below: the transfer thread.

    def _store_rows(self, rows: Tensor, slots: "array[int]") -> None:
        self._rows.index_copy_(0, _index_tensor(slots), rows.cpu())

    def _write_records(self, disk: DiskTier, records: list[SlabRecord], slots: "array[int]") -> None:
        for record, slot in zip(records, slots, strict=True):
            disk.write_page(record, self._rows[slot].numpy().data)

    def _run_load(self, load: TierLoad, disk: DiskTier | None, pages: "array[int]") -> None:
        try:
            if load.host:
                rows = self._rows.index_select(0, _index_tensor(load.host))
                self._write_pages(pages[: len(load.host)], rows)
                load.from_host = len(load.host)
            for at in range(0, len(load.disk), _PAGES_PER_READ):
                if disk is None or not self._load_from_disk(load, disk, pages, at):
                    break
        finally:
            self._arrived.put(load)

    def _load_from_disk(self, load: TierLoad, disk: DiskTier, pages: "array[int]", at: int) -> bool:
        """Load the next few pages; return False if one is missing."""
        slots = load.disk[at : at + _PAGES_PER_READ]
        rows = torch.empty(len(slots), self._store.page_bytes, dtype=torch.uint8)
        first = load.start + len(load.host) + at
        good = 0
        for page, slot in enumerate(slots, first):
            digest = load.digests[page * DIGEST_BYTES : (page + 1) * DIGEST_BYTES]
            if not disk.read_page(slot, digest, rows[good].numpy().data):
                break
            good += 1
        if good:
            self._write_pages(pages[len(load.host) + at :][:good], rows[:good])
        load.from_disk += good
        return good == len(slots)

    def _write_pages(self, pages: "array[int]", rows: Tensor) -> None:
        device = self._store.device
        self._store.write_pages(_index_tensor(pages, device), rows.to(device))


def _allocate_host_memory(rows: int, size: int, device: torch.device) -> Tensor:
    """Allocate bytes [rows, size], pinned where the device copies faster from that."""
    return torch.empty(rows, size, dtype=torch.uint8, pin_memory=device.type == "cuda")


def _index_tensor(numbers: "array[int]", device: torch.device | None = None) -> Tensor:
    return torch.from_numpy(np.array(numbers, dtype=np.int64)).to(device)
