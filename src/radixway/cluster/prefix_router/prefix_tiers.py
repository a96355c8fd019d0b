"""The prefix router's settings, and its policy of three tiers: prefix, the idlest replica, power of two.

Source: Ray's guide to `PrefixCacheAffinityRouter`. Two things differ. Whether queues are too uneven is asked
of each replica, not of all together: one that is overrun does not switch affinity off for the others. And
if no replica knows the prompt, load decides first and the size of what was seen second, among the candidates
alone; the published router looks at the size only, and of all replicas.
"""

import random
from collections.abc import Callable, Sequence
from math import inf

from pydantic import Field

from radixway.cluster.prefix_router.call_prompt import BLOCK_BYTES, count_fine_bytes
from radixway.core.config import PrefixAffinityPolicyConfig
from radixway.routing import RoutingRequest, Worker
from radixway.routing.policies import Policy, Scores, View
from radixway.routing.policies.simple import power_of_two


class PrefixSettings(PrefixAffinityPolicyConfig):
    """Names and defaults as in Ray's guide, checked; and how much is remembered at all.

    Characters are bytes of UTF-8, and counted in blocks of 64.
    """

    max_chars: int = Field(default=16_000_000, ge=1_000_000)
    """Characters remembered of all replicas together, in each router and in the actor, whatever
    `do_eviction` says."""

    @property
    def most_blocks(self) -> int:
        """`max_chars` in blocks."""
        return self.max_chars // BLOCK_BYTES


class PrefixTiers(Policy):
    """Costs are requests in flight; infinity for those outside the tier that decides."""

    name = "prefix_tiers"
    reads_blocks = True

    def __init__(
        self, settings: PrefixSettings, rng: random.Random, seen_share: Callable[[Worker], float]
    ) -> None:
        """`seen_share`: how much a replica has seen, from 0 to below 1."""
        self._settings = settings
        self._rng = rng
        self._seen_share = seen_share

    def score(self, request: RoutingRequest, candidates: Sequence[Worker], view: View) -> Scores:
        queues = [worker.load.all_requests for worker in candidates]
        if not request.blocks:
            costs = power_of_two(self._rng, candidates, range(len(candidates)))
            return Scores(costs, reason="no prompt")
        known = view.matches.device
        depths = [known.get(worker.slot, 0) for worker in candidates]
        deepest, busiest = max(depths), min(queues) + self._settings.imbalanced_threshold
        if not self._is_long_match(deepest, request):
            cold = [q + self._seen_share(worker) for q, worker in zip(queues, candidates, strict=True)]
            return Scores(cold, reason="cold")
        best = max(depth for depth, q in zip(depths, queues, strict=True) if q <= busiest)
        if not self._is_long_match(best, request):
            costs = power_of_two(self._rng, candidates, range(len(candidates)))
            return Scores(costs, reason="imbalanced")
        costs = [
            q if depth == best and q <= busiest else inf for depth, q in zip(depths, queues, strict=True)
        ]
        return Scores(costs, reason="prefix")

    def _is_long_match(self, depth: int, request: RoutingRequest) -> bool:
        """Return whether the match is long enough to prefer the replica."""
        return (
            depth > 0 and count_fine_bytes(depth) >= self._settings.match_rate_threshold * 4 * request.tokens
        )
