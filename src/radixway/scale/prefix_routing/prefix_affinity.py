"""The drop-in for Ray Serve's `PrefixCacheAffinityRouter`."""

from __future__ import annotations

import random
from math import inf

from radixway.routing.policies import Policy
from radixway.scale.prefix_routing.prompts import hash_fine_blocks
from radixway.scale.prefix_routing.router import IndexedRouter
from radixway.scale.prefix_routing.settings import PrefixSettings
from radixway.scale.prefix_routing.tiers import PrefixTiers


class PrefixAffinityRouter(IndexedRouter):
    """Requests go where their prompt's beginning has been seen, unless that replica is overrun (`tiers.py`).

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

        `imbalanced_threshold`: requests that a replica may have in hand beyond the idlest one and still get
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
