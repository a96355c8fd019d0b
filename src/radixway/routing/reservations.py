"""Places at workers that other data planes hold, by the id of their request.

Who reserves over HTTP may never come back. A reservation that nothing is heard of ends by itself.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from radixway.routing.load_ledger import WorkerLease


class AlreadyReservedError(Exception):
    """There is a reservation of that id."""


class TooManyReservationsError(Exception):
    """There are as many reservations as may be."""


class LeaseReservations:
    """Leases by request id, the one that was heard of longest ago first out."""

    def __init__(self, ttl_s: float, most: int, clock: Callable[[], float]) -> None:
        """`ttl_s`: how long a reservation lives after its last sign. `most`: how many there may be.

        `clock`: monotonic seconds.
        """
        self._ttl_s = ttl_s
        self._most = most
        self._clock = clock
        self._held: OrderedDict[str, tuple[float, WorkerLease]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def check_capacity(self, request_id: str) -> None:
        """Check that a lease can be held under `request_id`. Raises AlreadyReservedError,
        TooManyReservationsError.
        """
        if request_id in self._held:
            raise AlreadyReservedError(request_id)
        if len(self._held) >= self._most:
            raise TooManyReservationsError

    def hold_lease(self, request_id: str, lease: WorkerLease) -> None:
        """Hold `lease` under `request_id`. Raises AlreadyReservedError, TooManyReservationsError."""
        self.check_capacity(request_id)
        self._held[request_id] = (self._clock() + self._ttl_s, lease)

    def find_lease(self, request_id: str) -> WorkerLease | None:
        """The lease of that id, which thereby lives on; None if there is none, or not any more."""
        held = self._held.get(request_id)
        if held is None:
            return None
        self._held[request_id] = (self._clock() + self._ttl_s, held[1])
        self._held.move_to_end(request_id)
        return held[1]

    def release_reservation(self, request_id: str) -> bool:
        """Release the lease of `request_id`; False if there is none."""
        _, lease = self._held.pop(request_id, (0.0, None))
        if lease is None:
            return False
        lease.release()
        return True

    def sweep_expired(self) -> float | None:
        """Free those whose time is over; seconds until the next one's is, None if none is left."""
        now = self._clock()
        while self._held:
            request_id, (until, lease) = next(iter(self._held.items()))
            if until > now:
                return until - now
            del self._held[request_id]
            lease.release()
        return None

    def release_all(self) -> None:
        """Free all."""
        for _, lease in self._held.values():
            lease.release()
        self._held.clear()
