"""The one thread that copies between device, host memory and disk, in the order it is told to."""

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import NamedTuple

import torch

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
        """The sizes of what is waiting or under way."""
        return self._pending

    def submit_copy(self, work: Callable[[], None], size: int = 0) -> None:
        """Have `work` done; `size` is what it copies, in bytes."""
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
        """Do what was submitted, and end the thread."""
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
