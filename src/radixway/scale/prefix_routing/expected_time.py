"""Ray Serve's requests by the gateway's default policy."""

from __future__ import annotations

import random

from radixway.config import ExpectedTimePolicyConfig
from radixway.routing.policies import Policy, make_policy
from radixway.scale.prefix_routing.prompts import hash_even_blocks
from radixway.scale.prefix_routing.router import IndexedRouter
from radixway.scale.prefix_routing.settings import PrefixSettings


class ExpectedTimeRouter(IndexedRouter):
    """Requests go where their first token is expected soonest (`routing/policies/expected_time.py`).

    Queues are those of Ray's cache and, of this router's own requests, the tokens that are to be prefilled.
    Serve does not tell routers of first tokens, so rates are not learnt: they are given here, or by replicas
    whose `record_routing_stats` returns `prefill_tokens_per_s` (and `prefill_overhead_s`).
    """

    def initialize_state(
        self,
        slowdown: float = 0.05,
        prefill_tokens_per_s: float = 8000.0,
        prefill_overhead_s: float = 0.02,
        max_chars: int = 16_000_000,
    ) -> None:
        """`request_router_kwargs`. Raises ValueError that names what makes no sense.

        `slowdown`: what a second of prefill costs each answer that runs there, in seconds. The next two are
        of replicas that do not say it themselves. `max_chars`: characters remembered of all of them together.
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
