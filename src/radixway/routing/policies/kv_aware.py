"""KV aware: NVIDIA Dynamo's cost, in blocks.

    prefill   = (prefill tokens in flight there + prompt tokens) / block size - credit for cached blocks
    decode    = blocks in use there, this prompt's included, each counted once
    cost      = overlap_weight · max(prefill, 0) + decode

The lowest cost wins. Source: Dynamo, `lib/kv-router/src/scheduling`; the proposal that joins it to vLLM's
Semantic Router prints the opposite sign in one place, and means this.
"""

from collections.abc import Sequence

from radixway.core.config import KvAwarePolicyConfig
from radixway.routing.policies.base import Policy, Scores, View
from radixway.routing.routing_request import RoutingRequest
from radixway.routing.worker import Worker


class KvAware(Policy):
    """Cached prefixes and load, in one sum."""

    name = "kv_aware"
    reads_blocks = True
    counts_blocks = True

    def __init__(self, config: KvAwarePolicyConfig) -> None:
        self._weight = config.overlap_weight
        self._credits = config.host_credit, config.disk_credit
        self.temperature = config.temperature

    def score(self, request: RoutingRequest, candidates: Sequence[Worker], view: View) -> Scores:
        matches, size = view.matches, request.block_tokens
        costs, parts = [], []
        for worker in candidates:
            load = worker.load
            cached = matches.credit(worker.slot, *self._credits)
            prefill = max(0.0, (load.all_prefill_tokens + request.tokens) / size - cached)
            decode = load.all_blocks + self._new_blocks(request, worker)
            costs.append(self._weight * prefill + decode)
            parts.append((cached, prefill, decode))
        return Scores(costs, ("cached_blocks", "prefill_blocks", "decode_blocks"), parts)

    @staticmethod
    def _new_blocks(request: RoutingRequest, worker: Worker) -> int:
        """Count prompt blocks that no request in flight there uses."""
        blocks = max(len(request.blocks), -(-request.tokens // request.block_tokens))
        return blocks - worker.load.shared_blocks(request.blocks)
