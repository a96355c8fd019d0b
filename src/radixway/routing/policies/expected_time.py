"""Expected time: seconds until the first token, and seconds taken from the answers already running.

    queue_s     tokens that wait for their prefill there, at the worker's rate
    prefill_s   tokens of this prompt that the worker does not hold, at the same rate
    slowdown_s  what that prefill costs the answers running there: slowdown · prefill_s · their number
    cost        the sum

Everything is in seconds, so there is no weight to tune between cache and load: a prefix is worth the time
that it saves, no more. Rates are learnt from first tokens. Workers whose own is not clearly another share the
fleet's (`worker_load.py`), so those with nothing cached and nothing to do cost the same and take turns.
"""

from collections.abc import Sequence

from radixway.core.config import ExpectedTimePolicyConfig
from radixway.routing.policies.base import Policy, Scores, View
from radixway.routing.prefix_matches import PrefixMatches
from radixway.routing.routing_request import RoutingRequest
from radixway.routing.worker import Worker
from radixway.routing.worker_load import NOTHING


class ExpectedTime(Policy):
    """The default: where the answer begins soonest, without making others wait more than it gains."""

    name = "expected_time"
    reads_blocks = True

    def __init__(self, config: ExpectedTimePolicyConfig) -> None:
        self._slowdown = config.slowdown
        self._credits = config.host_credit, config.disk_credit
        self.temperature = config.temperature

    def score(self, request: RoutingRequest, candidates: Sequence[Worker], view: View) -> Scores:
        now, prompt_tokens = view.now, request.tokens
        cached_tokens = self._cached_tokens(request, view.matches)
        costs, parts = [], []
        for worker in candidates:  # there may be a hundred of them: hardly a call in here
            load = worker.load
            elsewhere = load.elsewhere
            decoding = load.requests - load.prefilling
            if elsewhere is not NOTHING:
                decoding += elsewhere.requests - elsewhere.prefilling
            rate = load.rate
            tokens = prompt_tokens - cached_tokens.get(worker.slot, 0)
            prefill_s = rate.overhead_s + (tokens if tokens > 1 else 1) * rate.seconds_per_token
            queue_s = load.drained_at - now
            if queue_s <= load.min_queue_s:
                if queue_s <= 0:
                    decoding += load.silent + elsewhere.silent
                queue_s = load.min_queue_s
            slowdown_s = self._slowdown * prefill_s * decoding
            costs.append(queue_s + prefill_s + slowdown_s)
            parts.append((tokens, queue_s, prefill_s, slowdown_s))
        return Scores(costs, ("uncached_tokens", "queue_s", "prefill_s", "slowdown_s"), parts)

    def _cached_tokens(self, request: RoutingRequest, matches: PrefixMatches) -> dict[int, float]:
        """Return cached tokens by slot; slower tiers count for less."""
        size = request.block_tokens
        if not matches.disk:
            return {}
        if matches.disk is matches.device:
            return {slot: blocks * size for slot, blocks in matches.device.items()}
        credit = matches.credit
        return {slot: credit(slot, *self._credits) * size for slot in matches.disk}
