"""Policies for the two workers of a pair: one prefills a prompt, the other answers with its KV.

Source: the two stages of NVIDIA Dynamo's router ("Disaggregated Serving" in its documentation): prefill
workers by cached prefix and queue, without the blocks in use there; decode workers by the KV they hold,
without credit for cached prefixes and without the prefill that happens elsewhere.
"""

from collections.abc import Sequence

from radixway.routing.policies.base import Policy, Scores, View
from radixway.routing.routing_request import RoutingRequest
from radixway.routing.worker import Worker


class PrefillSoonest(Policy):
    """Chooses the worker that prefills the prompt soonest, in seconds::

    queue_s     tokens that wait for their prefill there, at the worker's rate
    prefill_s   tokens of this prompt that the worker does not hold, at the same rate
    cost        the sum
    """

    name = "prefill_soonest"
    reads_blocks = True

    def score(self, request: RoutingRequest, candidates: Sequence[Worker], view: View) -> Scores:
        costs, parts = [], []
        on_disk, size = view.matches.disk, request.block_tokens
        for worker in candidates:
            tokens = request.tokens - on_disk.get(worker.slot, 0) * size
            queue_s = worker.load.queue_s(view.now)
            prefill_s = worker.load.rate.prefill_s(tokens)
            costs.append(queue_s + prefill_s)
            parts.append((tokens, queue_s, prefill_s))
        return Scores(costs, ("uncached_tokens", "queue_s", "prefill_s"), parts)


class LeastKvInUse(Policy):
    """Chooses the worker with the fewest tokens held and queued, this prompt's included::

    held_tokens     KV of the requests in flight, their last blocks counted as full
    queued_tokens   prefills of its own that it has before it
    cost            held_tokens + queued_tokens + the prompt, of the worker's KV where everybody's is known
    """

    name = "least_kv_in_use"

    def score(self, request: RoutingRequest, candidates: Sequence[Worker], view: View) -> Scores:
        costs, parts = [], []
        known = all(worker.kv_tokens for worker in candidates)
        for worker in candidates:
            load = worker.load
            in_use = (load.all_blocks + load.all_requests) * request.block_tokens
            queued = load.all_prefill_tokens
            costs.append((in_use + queued + request.tokens) / ((known and worker.kv_tokens) or 1))
            parts.append((in_use, queued))
        return Scores(costs, ("held_tokens", "queued_tokens"), parts)
