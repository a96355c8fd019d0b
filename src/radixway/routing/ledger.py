"""The load ledger: what each worker has in hand, exact on every way out."""

from __future__ import annotations

from radixway.routing.worker import Worker


class Lease:
    """One request's place at one worker. Released exactly once, however often `release` is called."""

    __slots__ = ("_stream", "_worker")

    def __init__(self, worker: Worker, *, stream: bool) -> None:
        self._worker: Worker | None = worker
        self._stream = stream
        load = worker.load
        load.requests += 1
        load.total += 1
        load.streams += stream

    def release(self) -> None:
        """Give the place back."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.load.requests -= 1
            worker.load.streams -= self._stream
