"""The load ledger: requests in flight at each worker, however they end, and leases held over HTTP."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from radixway.routing.routing_request import RoutingRequest
from radixway.routing.worker import Worker
from radixway.routing.worker_load import LoadShare, PrefillRateRegistry

_NOTHING = RoutingRequest()


class LoadLedger:
    """Grants leases, and learns from them how fast workers are."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        """Monotonic seconds."""
        self.rates = PrefillRateRegistry()
        self.on_release: Callable[[], None] | None = None
        """Called when capacity may be free: a lease has ended, here or at another gateway."""
        self.on_first_token: Callable[[], None] | None = None
        """Called when a prefill has ended with a first token, after all that is learnt of it."""
        self.on_step: Callable[[Worker], None] | None = None
        """Called at each step of a lease, after the worker's load has changed."""

    def reserve(
        self,
        worker: Worker,
        request: RoutingRequest = _NOTHING,
        uncached_tokens: int = 0,
        *,
        count_blocks: bool = True,
        prefills: bool = True,
    ) -> WorkerLease:
        """Lease a place at `worker` for `request`, which has to prefill `uncached_tokens` there.

        `count_blocks`: whether `Load.active_blocks` should know of the prompt's. `prefills`: False where
        another worker does it for this one: nothing waits for the prefill here, and nothing is learnt of it.
        """
        blocks = request.blocks if count_blocks else ()
        return WorkerLease(self, worker, request, uncached_tokens, blocks, prefills=prefills)

    def set_remote_load(self, worker: Worker, elsewhere: LoadShare) -> None:
        """Set `elsewhere`, the load of all other gateways together at `worker`. No lease of ours is touched.

        What they sent since the last time joins the queue of prefills, in which there is never more than what
        all gateways have in flight. That also corrects what was missed, and what a stopped gateway left.
        """
        load, now = worker.load, self.clock()
        countdown_s, rate = load.countdown_s(now), load.rate
        before, was_telling = load.elsewhere, load.visible_prefills()
        load.elsewhere = elsewhere
        if elsewhere.prefilled > before.prefilled or not (was_telling or countdown_s):
            load.busy_since = now
        countdown_s += max(0, elsewhere.total - before.total) * rate.overhead_s
        countdown_s += max(0, elsewhere.sent_tokens - before.sent_tokens) * rate.seconds_per_token
        load.update_queue(now, countdown_s)
        if elsewhere.requests < before.requests and self.on_release is not None:
            self.on_release()


class WorkerLease:
    """A request's place at a worker: reserved, then past its prefill, then released.

    Each step is taken once, however often it is called, and a release ends whatever there is.
    """

    __slots__ = (
        "_blocks",
        "_first_token_at",
        "_ledger",
        "_output_blocks",
        "_prefilling",
        "_prompt_tokens",
        "_stream",
        "_tokens",
        "_uncounted_tokens",
        "_worker",
    )

    def __init__(
        self,
        ledger: LoadLedger,
        worker: Worker,
        request: RoutingRequest,
        uncached_tokens: int,
        blocks: Sequence[int],
        *,
        prefills: bool,
    ) -> None:
        self._ledger = ledger
        self._worker: Worker | None = worker
        self._stream = request.stream
        self._blocks = blocks
        self._tokens = uncached_tokens
        self._output_blocks = 0
        self._prompt_tokens = request.tokens
        self._uncounted_tokens = 0 if blocks else request.tokens
        self._first_token_at: float | None = None
        self._prefilling = prefills
        now = ledger.clock()
        load = worker.load
        countdown_s = load.countdown_s(now)
        if prefills and not countdown_s and not load.visible_prefills():
            load.busy_since = now
        load.requests += 1
        load.total += 1
        load.streams += self._stream
        load.prefilling += prefills
        load.prefill_tokens += uncached_tokens
        load.sent_tokens += uncached_tokens
        load.prompt_tokens += self._prompt_tokens
        load.uncounted_tokens += self._uncounted_tokens
        if prefills:
            if request.stream:
                load.due_tokens.append(uncached_tokens)
            rate = load.rate
            load.update_queue(now, countdown_s + rate.overhead_s + uncached_tokens * rate.seconds_per_token)
        active = load.active_blocks
        for block in self._blocks:
            active[block] = active.get(block, 0) + 1
        if ledger.on_step is not None:
            ledger.on_step(worker)

    @property
    def held(self) -> bool:
        """Return whether it is unreleased."""
        return self._worker is not None

    def mark_prefill_done(self) -> None:
        """The first token has come: the prefill's load is gone, and its time says how fast the worker is."""
        worker = self._worker
        if worker is None or not self._prefilling:
            return
        now = self._ledger.clock()
        began = worker.load.busy_since
        self._end_prefill(worker, now)
        worker.load.busy_since = self._first_token_at = now
        if self._tokens and began is not None:
            self._ledger.rates.observe_prefill(worker.load, self._tokens, now - began)
        if self._ledger.on_step is not None:
            self._ledger.on_step(worker)
        if self._ledger.on_first_token is not None:
            self._ledger.on_first_token()

    def add_output_blocks(self, blocks: int = 1) -> None:
        """Count `blocks` more that the answer has filled."""
        if self._worker is not None:
            self._output_blocks += blocks
            self._worker.load.output_blocks += blocks

    def release(self) -> None:
        """Give the place back."""
        worker = self._worker
        if worker is None:
            return
        load = worker.load
        if self._prefilling:
            self._end_prefill(worker, self._ledger.clock())
            if self._stream:
                load.busy_since = None  # it may have been at work, or behind others that are
        self._worker = None
        if self._first_token_at is not None:
            load.observe_answer(self._ledger.clock() - self._first_token_at)
        load.requests -= 1
        load.prompt_tokens -= self._prompt_tokens
        load.uncounted_tokens -= self._uncounted_tokens
        load.streams -= self._stream
        load.output_blocks -= self._output_blocks
        active = load.active_blocks
        for block in self._blocks:
            uses = active[block]
            if uses == 1:
                del active[block]
            else:
                active[block] = uses - 1
        if self._ledger.on_step is not None:
            self._ledger.on_step(worker)
        if self._ledger.on_release is not None:
            self._ledger.on_release()

    def _end_prefill(self, worker: Worker, now: float) -> None:
        self._prefilling = False
        load = worker.load
        countdown_s = load.countdown_s(now)
        load.prefilling -= 1
        if self._stream:
            load.due_tokens.remove(self._tokens)
        load.prefill_tokens -= self._tokens
        load.update_queue(now, countdown_s)


class AlreadyReservedError(Exception):
    """A reservation of that id exists."""


class TooManyReservationsError(Exception):
    """The limit of reservations is reached."""


class LeaseReservations:
    """Leases by request id, the least recently used first out."""

    def __init__(self, ttl_s: float, max_reservations: int, clock: Callable[[], float]) -> None:
        """Hold up to `max_reservations`, each for `ttl_s` seconds after its last use.

        `clock`: monotonic seconds.
        """
        self._ttl_s = ttl_s
        self._max_reservations = max_reservations
        self._clock = clock
        self._leases: OrderedDict[str, tuple[float, WorkerLease]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._leases)

    def check_capacity(self, request_id: str) -> None:
        """Check that a lease can be held under `request_id`. Raises as `hold_lease`."""
        if request_id in self._leases:
            raise AlreadyReservedError(request_id)
        if len(self._leases) >= self._max_reservations:
            raise TooManyReservationsError

    def hold_lease(self, request_id: str, lease: WorkerLease) -> None:
        """Hold `lease` under `request_id`. Raises AlreadyReservedError, TooManyReservationsError."""
        self.check_capacity(request_id)
        self._leases[request_id] = (self._clock() + self._ttl_s, lease)

    def find_lease(self, request_id: str) -> WorkerLease | None:
        """Return the lease of `request_id` and extend it; None if there is none, or it has expired."""
        entry = self._leases.get(request_id)
        if entry is None:
            return None
        self._leases[request_id] = (self._clock() + self._ttl_s, entry[1])
        self._leases.move_to_end(request_id)
        return entry[1]

    def release_reservation(self, request_id: str) -> bool:
        """Release the lease of `request_id`; False if there is none."""
        _, lease = self._leases.pop(request_id, (0.0, None))
        if lease is None:
            return False
        lease.release()
        return True

    def sweep_expired(self) -> float | None:
        """Release expired leases; return the seconds until the next one expires, None without any."""
        now = self._clock()
        while self._leases:
            request_id, (until, lease) = next(iter(self._leases.items()))
            if until > now:
                return until - now
            del self._leases[request_id]
            lease.release()
        return None

    def release_all(self) -> None:
        """Free all."""
        for _, lease in self._leases.values():
            lease.release()
        self._leases.clear()
