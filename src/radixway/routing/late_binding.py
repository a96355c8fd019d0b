"""Late binding: a request waits at the gateway for the worker that it prefers, not in that worker's queue.

A worker serves prefills in the order in which they come. A request that is sent there early can no longer be
overtaken by a shorter one, nor go elsewhere when another worker is done sooner than was thought. So it is
bound when the prefills ahead of it take less than `free_below_s`, and until then waits in the `RequestQueue`.

Whenever a worker may have become free, those that wait are offered a place in order. Each prefers the worker
with the lowest cost, to which is added

    ahead_s     prefills of those before it in the queue that prefer the same worker
    others_s    its own prefill there · those that it holds up: others that wait for that worker, and of those
                that were not asked yet three times their number per worker

and is bound if that worker is free. Otherwise it keeps its place, and the worker for itself: who comes behind
it counts its prefill.

Costs have to be seconds for that (`Policy.binds_late`), and rates learnt: while a candidate has shown too few
first tokens, nothing waits. Only what tokens take is waited for. The fixed part of a prefill is a step of the
engine, which requests that come together share.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

from radixway.core.config import QueueConfig
from radixway.routing.policies import Policy
from radixway.routing.request_queue import QueuedRequest
from radixway.routing.selector import Selector, WorkerChoice
from radixway.routing.worker import Worker
from radixway.routing.worker_load import STEP_S, WorkerLoad

_MIN_FIRST_TOKENS = 8
"""First tokens of a worker before its queue is believed."""
_UNASKED_WEIGHT = 3.0
"""What a second of prefill counts for each request per worker of which it is not known where it will wait."""
_MIN_WAKE_S = 0.002
"""Shortest time until the next look at the queue."""

W = TypeVar("W", bound=QueuedRequest)


class LateBinding:
    """Says which requests may wait for a worker, which of those that wait go where, and when to look again.

    Synchronous and pure. Call `begin_offers`, then `offer_worker` for those that wait, in their order.
    """

    def __init__(self, selector: Selector, config: QueueConfig) -> None:
        self._selector = selector
        self._free_below_s = config.free_below_s
        self._hold_s = config.hold_s
        self._aging_s = config.aging_s
        self.enabled = config.hold_s > 0
        self._ahead_s: dict[Worker, float] = {}
        self._waiting_for: Counter[Worker | None] = Counter()
        """How many wait for each worker; under None, those that have not been asked."""

    def is_free(self, worker: Worker, now: float) -> bool:
        """Return True if a request bound to `worker` at `now` hardly waits there."""
        return self._busy_s(worker.load, now) <= self._free_below_s

    def can_hold(self, policy: Policy, candidates: Sequence[Worker]) -> bool:
        """Return True if a request under `policy` may wait for one of `candidates`."""
        return (
            self.enabled
            and policy.binds_late
            and all(worker.load.own_rate.observed >= _MIN_FIRST_TOKENS for worker in candidates)
        )

    def hold_request(self, waiting: W, candidates: Sequence[Worker], ttft_left_s: float | None = None) -> W:
        """Set until when `waiting` may wait for one of `candidates`, and its expected prefill; return it.

        A step of priority is worth as much waiting as in the queue's order. With `ttft_left_s` until its
        objective for the first token, it goes in time to keep it, if any worker could.
        """
        expected = [
            worker.load.rate.prefill_s(tokens) for worker, tokens in self._uncached(waiting, candidates)
        ]
        waiting.prefill_s = min(expected)
        hold_s = max(0.0, min(2 * self._hold_s, self._hold_s - self._aging_s * waiting.priority))
        if ttft_left_s is not None and ttft_left_s >= waiting.prefill_s:
            hold_s = min(hold_s, ttft_left_s - waiting.prefill_s)
        waiting.hold_until = self._selector.ledger.clock() + hold_s
        return waiting

    def uncached_tokens(self, waiting: QueuedRequest, candidates: Sequence[Worker]) -> int:
        """Return the tokens that `waiting` would still have to prefill at the best of `candidates`."""
        return min(
            (tokens for _, tokens in self._uncached(waiting, candidates)), default=waiting.prompt.tokens
        )

    def begin_offers(self, waiting: Iterable[QueuedRequest]) -> None:
        """Places are offered to the first of `waiting`; nobody is ahead of it."""
        self._ahead_s.clear()
        self._waiting_for = Counter(each.preferred for each in waiting)

    def offer_worker(self, waiting: QueuedRequest, candidates: Sequence[Worker]) -> WorkerChoice | None:
        """Return the choice for `waiting`; None while it may wait and the worker it prefers is not free."""
        selector, request = self._selector, waiting.prompt
        now = selector.ledger.clock()
        may_wait = waiting.hold_until > now
        if may_wait and not any(self.is_free(worker, now) for worker in candidates):
            return None
        choice = selector.score_candidates(request, candidates, selector.policy_for_model(request.model))
        if not may_wait:
            return choice
        scores = choice.scores
        column, waiting_for = scores.terms.index("prefill_s"), self._waiting_for
        prefills = [part[column] for part in scores.parts]
        waiting.prefill_s = min(prefills)
        waiting_for[waiting.preferred] -= 1
        unasked = _UNASKED_WEIGHT * waiting_for[None] / len(candidates)
        added = [
            (self._ahead_s.get(worker, 0.0), (waiting_for[worker] + unasked) * prefill_s)
            for worker, prefill_s in zip(choice.candidates, prefills, strict=True)
        ]
        scores.costs = [cost + sum(more) for cost, more in zip(scores.costs, added, strict=True)]
        scores.terms = (*scores.terms, "ahead_s", "others_s")
        scores.parts = [(*part, *more) for part, more in zip(scores.parts, added, strict=True)]
        selector.redraw_worker(choice)
        worker = choice.worker
        if self._ahead_s.get(worker, 0.0) <= self._free_below_s and self.is_free(worker, now):
            return choice
        waiting.preferred = worker
        waiting_for[worker] += 1
        prefill_s = prefills[choice.candidates.index(worker)]
        self._ahead_s[worker] = self._ahead_s.get(worker, 0.0) + prefill_s
        return None

    def next_wake_s(self, waiting: Iterable[QueuedRequest], workers: Iterable[Worker]) -> float:
        """Return the seconds until one of `workers` is expected to become free, or one has waited enough."""
        now = self._selector.ledger.clock()
        hold_s = min(each.hold_until for each in waiting) - now
        busy = [
            busy_s for worker in workers if (busy_s := self._busy_s(worker.load, now)) > self._free_below_s
        ]
        return max(_MIN_WAKE_S, min(hold_s, min(busy) - self._free_below_s) if busy else hold_s)

    def _uncached(self, waiting: QueuedRequest, candidates: Sequence[Worker]) -> Iterable[tuple[Worker, int]]:
        return zip(candidates, self._selector.uncached_tokens(waiting.prompt, candidates), strict=True)

    @staticmethod
    def _busy_s(load: WorkerLoad, now: float) -> float:
        """Return the seconds that prefills keep the worker from others.

        A first token that is due is waited for, but not if it is later than an engine's step explains. Whole
        replies are not: no first token tells that the worker is as busy as is reckoned.
        """
        visible = load.visible_prefills()
        if not visible:
            return 0.0
        busy_s = load.queue_s(now) if load.drained_at + STEP_S > now else load.min_queue_s
        share = visible / (load.prefilling + load.elsewhere.prefilling)
        return min(busy_s, share * load.all_prefill_tokens * load.rate.seconds_per_token)
