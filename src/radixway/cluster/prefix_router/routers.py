"""Routers for Ray Serve: by the gateway's default policy, and a drop-in for `PrefixCacheAffinityRouter`."""

import random
from collections.abc import Container, Mapping
from math import inf
from typing import Any

from ray.actor import ActorHandle
from ray.serve.request_router import PendingRequest, ReplicaID, RunningReplica

from radixway.cluster.prefix_router.call_prompt import hash_even_blocks, hash_fine_blocks
from radixway.cluster.prefix_router.indexed_router import IndexedRouter
from radixway.cluster.prefix_router.prefix_tiers import PrefixSettings, PrefixTiers
from radixway.cluster.prefix_router.tree_actor import TreeActorClient, join_prompt_text
from radixway.core.config import ExpectedTimePolicyConfig
from radixway.routing import Worker
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
        tree_actor: ActorHandle[Any] | None = None,
        max_chars: int = 16_000_000,
    ) -> None:
        """`request_router_kwargs`. Raises ValueError that names what makes no sense.

        `imbalanced_threshold`: requests that a replica may have in flight beyond the idlest one and still get
        more for what it has seen. `match_rate_threshold`: share of a prompt that must have been seen.
        `do_eviction` and the three after it: more than so many characters of one replica are cut down to so
        many, looked at so often. `tree_actor`: a `PrefixTreeActor`, Ray's or ours: prompts are reported to
        it, and replicas chosen by the texts in it. `max_chars`: of all replicas together, with or without
        `do_eviction`.
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
        self.initialize_index(settings, is_shared=tree_actor is None)
        self._tree_actor = tree_actor
        self._tree = None if tree_actor is None else TreeActorClient(tree_actor, settings)

    async def find_preferred(
        self, replicas: list[RunningReplica], pending_request: PendingRequest | None
    ) -> Container[ReplicaID]:
        """Return the replicas that the tree actor prefers, if there is one and the request has a prompt."""
        text = None if self._tree is None else self._read_prompt_text(pending_request)
        if self._tree is None or text is None:
            return ()
        by_name = {replica.replica_id.to_full_id_str(): replica.replica_id for replica in replicas}
        return {by_name[name] for name in await self._tree.find_preferred(text, list(by_name))}

    def narrow_candidates(
        self, free: Mapping[Worker, RunningReplica], preferred: Container[ReplicaID]
    ) -> list[Worker]:
        """Return the preferred ones, but for those that are overrun; all if none is left."""
        busiest = (
            min(worker.load.all_requests for worker in free) + self._fleet.seen.settings.imbalanced_threshold
        )
        among = [
            worker
            for worker, replica in free.items()
            if replica.replica_id in preferred and worker.load.all_requests <= busiest
        ]
        return among or list(free)

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """Replace the known replicas by `replicas`, in the tree actor too."""
        super().update_replicas(replicas)
        if self._tree is not None:
            self._tree.update_replicas({replica.replica_id.to_full_id_str() for replica in replicas})

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        """Stop choosing a dead replica, and have the tree actor forget it."""
        super().on_replica_actor_died(replica_id)
        if self._tree is not None:
            self._tree.remove_replica(replica_id.to_full_id_str())

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any) -> None:
        """Report the prompt to other routers, and to the tree actor: a replica has accepted the request."""
        super().on_request_routed(pending_request, replica_id, result)
        if self._tree is not None and (text := self._read_prompt_text(pending_request)):
            self._tree.report_prompt(text, replica_id.to_full_id_str())

    @property
    def _eviction_loop_running(self) -> bool:
        return self._tree is not None and self._tree.evicts

    def _extract_text_from_request(self, pending_request: PendingRequest) -> str:
        """Return the text of the prompt as Ray's tree has it. Raises ValueError where there is no prompt."""
        return join_prompt_text(pending_request.args)

    def _read_prompt_text(self, pending_request: PendingRequest | None) -> str | None:
        if pending_request is None:
            return None
        try:
            return self._extract_text_from_request(pending_request)
        except ValueError:
            return None

    def make_policy(self) -> Policy:
        return PrefixTiers(self._fleet.seen.settings, random.Random(), self._fleet.replica_share)

    def hash_blocks(self, data: bytes, seed: int) -> list[int]:
        return hash_fine_blocks(data, seed)
