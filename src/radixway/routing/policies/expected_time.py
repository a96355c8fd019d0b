"""Expected time: seconds until the first token, and seconds taken from the answers already running.

    queue_s     tokens that wait for their prefill there, at the worker's rate
    prefill_s   tokens of this prompt that the worker does not hold, at the same rate
    slowdown_s  what that prefill costs the answers running there: slowdown · prefill_s · their number
    cost        the sum

Everything is in seconds, so there is no weight to tune between cache and load: a prefix is worth the time
that it saves, no more. Rates are learnt from first tokens, per worker (see `load.PrefillRate`).
"""

from __future__ import annotations

from collections.abc import Sequence

from radixway.config import ExpectedTimePolicy
from radixway.routing.policies.base import Policy, Scores, View
from radixway.routing.request import RoutingRequest
from radixway.routing.worker import Worker


class ExpectedTime(Policy):
    """The default: where the answer begins soonest, without making others wait more than it gains."""

    name = "expected_time"
    reads_blocks = True

    def __init__(self, config: ExpectedTimePolicy) -> None:
        self._slowdown = config.slowdown
        self._host_credit = config.host_credit
        self._disk_credit = config.disk_credit
        self.temperature = config.temperature

    def score(self, request: RoutingRequest, candidates: Sequence[Worker], view: View) -> Scores:
        ledger, matches, now = view.ledger, view.matches, view.now
        queues, prefills, slowdowns, uncached, costs = [], [], [], [], []
        for worker in candidates:
            load, rate = worker.load, ledger.rate(worker)
            credit = matches.credit(worker.slot, self._host_credit, self._disk_credit)
            tokens = max(1.0, request.tokens - credit * request.block_tokens)
            waiting = load.waiting_tokens(now, rate)
            queue_s = waiting * rate.seconds_per_token
            prefill_s = rate.overhead_s + tokens * rate.seconds_per_token
            slowdown_s = self._slowdown * prefill_s * load.decoding(waiting)
            queues.append(queue_s)
            prefills.append(prefill_s)
            slowdowns.append(slowdown_s)
            uncached.append(tokens)
            costs.append(queue_s + prefill_s + slowdown_s)
        terms = {
            "uncached_tokens": uncached,
            "queue_s": queues,
            "prefill_s": prefills,
            "slowdown_s": slowdowns,
        }
        return Scores(costs, terms)
