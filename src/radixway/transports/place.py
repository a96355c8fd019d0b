"""What a request takes up at a worker, or at two."""

from __future__ import annotations

from dataclasses import dataclass

from radixway.routing import Worker, WorkerChoice, WorkerLease


@dataclass(frozen=True, slots=True)
class WorkerAssignment:
    """A worker for a request, and what the request takes up there."""

    choice: WorkerChoice
    lease: WorkerLease
    prefill: WorkerAssignment | None = None
    """Where its prompt is prefilled, if not there."""

    @property
    def worker(self) -> Worker:
        return self.choice.worker

    def release(self) -> None:
        """Give all of it back."""
        self.lease.release()
        if self.prefill is not None:
            self.prefill.release()
