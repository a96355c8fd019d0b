"""Expected time: seconds until the first token, and seconds taken from the answers already running.

    queue_s     prefills that the worker has before it, at its rate (`WorkerLoad.queue_s`)
    prefill_s   tokens of this prompt that the worker does not hold, at the same rate
    slowdown_s  what it costs the other requests there: slowdown · seconds for the whole prompt · their number
    room_s      until answers that end have freed the room that the prompt will need in the KV cache; 0 where
                that is far from full, or its size is not known (`WorkerLoad.room_s`)
    cost        the sum

Everything is in seconds, so there is no weight to tune between cache and load: a prefix is worth the time
that it saves, no more: hence the whole prompt in the slowdown, which spreads requests and does not count
what is cached a second time. Rates are learnt from first tokens. Workers whose own is not clearly another
share the fleet's (`worker_load.py`), so those with nothing cached and nothing to do cost the same and take
turns.
"""

from collections.abc import Sequence

from radixway.core.config import ExpectedTimePolicyConfig
from radixway.routing.policies.base import Policy, Scores, View
from radixway.routing.prefix_matches import PrefixMatches
from radixway.routing.routing_request import RoutingRequest
from radixway.routing.worker import Worker
from radixway.routing.worker_load import STEP_S

_TERMS = ("uncached_tokens", "queue_s", "prefill_s", "slowdown_s", "room_s")


class ExpectedTime(Policy):
    """The default: where the answer begins soonest, without making others wait more than it gains."""

    name = "expected_time"
    reads_blocks = True
    counts_room = True
    binds_late = True

    def __init__(self, config: ExpectedTimePolicyConfig) -> None:
        self._slowdown = config.slowdown
        self._credits = config.host_credit, config.disk_credit
        self.temperature = config.temperature

    def score(self, request: RoutingRequest, candidates: Sequence[Worker], view: View) -> Scores:
        now, prompt_tokens, slowdown = view.now, request.tokens, self._slowdown
        cached_tokens = self._cached_tokens(request, view.matches)
        costs, parts = [], []
        for worker in candidates:  # there may be a hundred of them: hardly a call in here
            load = worker.load
            overhead_s, per_token_s = load.rate.overhead_s, load.rate.seconds_per_token
            tokens = prompt_tokens - cached_tokens.get(worker.slot, 0)
            prefill_s = overhead_s + (tokens if tokens > 1 else 1) * per_token_s
            queue_s, due_s = load.drained_at - now, load.due_s  # as `WorkerLoad.queue_s`
            if queue_s < load.min_queue_s:
                queue_s = load.min_queue_s
            if due_s > queue_s:
                queue_s = queue_s + STEP_S if due_s > queue_s + STEP_S else due_s
            requests = load.requests + load.elsewhere.requests
            slowdown_s = slowdown * (overhead_s + prompt_tokens * per_token_s) * requests
            room_s = 0.0
            if load.prompt_tokens + prompt_tokens > load.room_tokens:
                room_s = load.room_s(prompt_tokens, request.blocks, request.block_tokens)
            costs.append(queue_s + prefill_s + slowdown_s + room_s)
            parts.append((tokens, queue_s, prefill_s, slowdown_s, room_s))
        return Scores(costs, _TERMS, parts)

    def _cached_tokens(self, request: RoutingRequest, matches: PrefixMatches) -> dict[int, float]:
        """Return cached tokens by slot; slower tiers count for less."""
        size = request.block_tokens
        if not matches.disk:
            return {}
        if matches.disk is matches.device:
            return {slot: blocks * size for slot, blocks in matches.device.items()}
        credit = matches.credit
        return {slot: credit(slot, *self._credits) * size for slot in matches.disk}
