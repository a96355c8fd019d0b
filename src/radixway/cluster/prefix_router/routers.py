"""Routers for Ray Serve: by the gateway's default policy, and a drop-in for `PrefixCacheAffinityRouter`."""

import random
from math import inf

from radixway.cluster.prefix_router.call_prompt import hash_even_blocks, hash_fine_blocks
from radixway.cluster.prefix_router.indexed_router import IndexedRouter
from radixway.cluster.prefix_router.prefix_tiers import PrefixSettings, PrefixTiers
from radixway.core.config import ExpectedTimePolicyConfig
from radixway.routing.policies import Policy, make_policy


class ExpectedTimeRouter(IndexedRouter):
    """Sends each request to the replica expected to return its first token soonest.

    See `routing/policies/expected_time.py`.

    Queues are those of Ray's cache and, of this router's own requests, the tokens that are to be prefilled.
    Serve does not tell routers of first tokens, so rates are not learnt: they are given here, or by replicas
    whose `record_routing_stats` returns `prefill_tokens_per_s` (and `prefill_overhead_s`).
    """

    def initialize_state(
        self,
        slowdown: float = 0.02,
        prefill_tokens_per_s: float = 8000.0,
        prefill_overhead_s: float = 0.02,
        max_chars: int = 16_000_000,
    ) -> None:
        """`request_router_kwargs`. Raises ValueError that names what makes no sense.

        `slowdown`: what each second of the whole prompt's prefill costs a request there, in seconds. The next
        two are of replicas that do not say it themselves. `max_chars`: characters remembered of all of them
        together.
        """
        if not prefill_tokens_per_s > 0:
            raise ValueError(f"prefill_tokens_per_s must be above 0, not {prefill_tokens_per_s}")
        if not prefill_overhead_s >= 0:
            raise ValueError(f"prefill_overhead_s must be at least 0, not {prefill_overhead_s}")
        self._config = ExpectedTimePolicyConfig(slowdown=slowdown)
        self.initialize_index(PrefixSettings(max_chars=max_chars))
        rate = self._fleet.fleet_rate
        rate.seconds_per_token, rate.overhead_s = 1 / prefill_tokens_per_s, prefill_overhead_s

    def make_policy(self) -> Policy:
        return make_policy(self._config, random.Random())

    def hash_blocks(self, data: bytes, seed: int) -> list[int]:
        return hash_even_blocks(data, seed)


class PrefixAffinityRouter(IndexedRouter):
    """Requests go where their prompt's beginning has been seen, unless that replica is overrun.

    `PrefixTiers` decides.

    Source of the behaviour, names and defaults: Ray's guide to `PrefixCacheAffinityRouter`.
    """

    def initialize_state(
        self,
        imbalanced_threshold: float | None = 10,
        match_rate_threshold: float | None = 0.1,
        do_eviction: bool | None = False,
        eviction_threshold_chars: int | None = 400_000,
        eviction_target_chars: int | None = 360_000,
        eviction_interval_secs: float | None = 10,
        max_chars: int = 16_000_000,
    ) -> None:
        """`request_router_kwargs`. Raises ValueError that names what makes no sense.

        `imbalanced_threshold`: requests that a replica may have in flight beyond the idlest one and still get
        more for what it has seen. `match_rate_threshold`: share of a prompt that must have been seen.
        `do_eviction` and the three after it: more than so many characters of one replica are cut down to so
        many, looked at so often. `max_chars`: of all replicas together, whatever `do_eviction` says.
        """
        threshold = 400_000 if eviction_threshold_chars is None else eviction_threshold_chars
        settings = PrefixSettings(
            imbalanced_threshold=inf if imbalanced_threshold is None else imbalanced_threshold,
            match_rate_threshold=match_rate_threshold or 0.0,
            do_eviction=bool(do_eviction),
            eviction_threshold_chars=threshold,
            eviction_target_chars=threshold if eviction_target_chars is None else eviction_target_chars,
            eviction_interval_secs=10 if eviction_interval_secs is None else eviction_interval_secs,
            max_chars=max_chars,
        )
        self.initialize_index(settings)

    def make_policy(self) -> Policy:
        return PrefixTiers(self._fleet.seen.settings, random.Random(), self._fleet.replica_share)

    def hash_blocks(self, data: bytes, seed: int) -> list[int]:
        return hash_fine_blocks(data, seed)
