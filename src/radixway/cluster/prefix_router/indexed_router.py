"""Base of both routers: Ray Serve's hooks around a `ReplicaFleet`, which decides by a policy of the
gateway's.

A choice reads what this process knows and asks no actor. Replicas whose queue it does not know (new ones, and
those that Ray's cache dropped after ten seconds) are queried first, once for all requests being routed.
"""

import asyncio
import logging
import time
import weakref
from abc import abstractmethod
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ray.serve.request_router import (
    LocalityMixin,
    MultiplexMixin,
    PendingRequest,
    ReplicaID,
    RequestRouter,
    RunningReplica,
)

from radixway.cluster.prefix_router.actor_client import PrefixActorClient, find_or_start_actor
from radixway.cluster.prefix_router.call_prompt import NO_PROMPT, CallPrompt, find_prompt
from radixway.cluster.prefix_router.prefix_tiers import PrefixSettings
from radixway.cluster.prefix_router.replica_fleet import ReplicaFleet
from radixway.cluster.prefix_router.router_metrics import PrefixRouterMetrics
from radixway.routing import RoutingRequest, Worker
from radixway.routing.block_hash import namespace_seed
from radixway.routing.policies import Policy

log = logging.getLogger(__name__)

_BYTES_PER_TOKEN = 4


@dataclass(slots=True)
class _RoutedRequest:
    request: RoutingRequest
    uncached: dict[str, int] = field(default_factory=dict)
    """Tokens to prefill at the replicas that were chosen for it, from before it was noted there itself."""
    replica: str = ""
    """The replica that holds its lease."""
    waits: bool = False
    """It waits for a replica. Else Ray only asks where it would go, and never reports its end."""


class IndexedRouter(LocalityMixin, MultiplexMixin, RequestRouter):  # type: ignore[misc]
    """Routes by replicas' cached prefixes and requests in flight; subclasses say how.

    Requests go out of order, each to the replica chosen for it. `FIFOMixin` in front of a subclass keeps
    their order instead, and gives the oldest request the replica that was chosen for another.
    """

    def initialize_index(self, settings: PrefixSettings, *, is_shared: bool = True) -> None:
        """Initialize for `initialize_state`: no prefixes, no replicas.

        `is_shared`: other routers of the deployment are told through an actor what went where.
        """
        self._is_shared = is_shared
        self._fleet = ReplicaFleet(settings, time.monotonic)
        self._policy = self.make_policy()
        self._actor_client: PrefixActorClient | None = None
        self._counts = PrefixRouterMetrics(
            self._deployment_id.app_name, self._deployment_id.name, self._index_state
        )
        self._asking: dict[ReplicaID, asyncio.Task[None]] = {}
        """Running queue-length calls by replica."""
        self._doubted: set[ReplicaID] = set()
        """Unreachable replicas whose queue length is unknown since."""

    @abstractmethod
    def make_policy(self) -> Policy:
        """Return the policy that chooses a replica."""

    @abstractmethod
    def hash_blocks(self, data: bytes, seed: int) -> list[int]:
        """Return the names of the blocks of `data`, a prompt; `seed` sets namespaces apart."""

    async def find_preferred(
        self, replicas: list[RunningReplica], pending_request: PendingRequest | None
    ) -> Container[ReplicaID]:
        """Return those of `replicas` that something beside the index prefers for this request; none here."""
        return ()

    def narrow_candidates(
        self, free: Mapping[Worker, RunningReplica], preferred: Container[ReplicaID]
    ) -> list[Worker]:
        """Return those of `free`, which have capacity, among which the policy chooses; here all."""
        return list(free)

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Return the chosen one, then all others with capacity, then those that are full."""
        allowed = self._filter_allowed(candidate_replicas, pending_request)
        preferred = await self.find_preferred(allowed, pending_request)
        await self._ask_queues(allowed)
        free, full = self._split_by_capacity(allowed)
        if not free:
            return [full] if full else []
        routed = self._routed_request(pending_request)
        among = self.narrow_candidates(free, preferred)
        choice = self._fleet.choose_replica(routed.request, among, self._policy)
        tokens, seen = routed.request.tokens, choice.cached_tokens
        if not routed.uncached:  # else it is tried again, and counted already
            self._counts.record_choice(choice.scores.reason or choice.policy, tokens, seen)
        best = free.pop(choice.worker)
        routed.uncached.setdefault(best.replica_id.unique_id, max(0, tokens - seen))
        if pending_request is not None and routed.waits and not pending_request.future.done():
            # Those that are routed before it is sent should see it there.
            self._move_lease(pending_request.metadata.internal_request_id, routed, best.replica_id.unique_id)
        return [group for group in ([best], list(free.values()), full) if group]

    async def _choose_replica_for_request(
        self, pending_request: PendingRequest, *, is_retry: bool = False
    ) -> RunningReplica:
        """Choose a replica: Ray sends to it at once, or gives the request up."""
        routed = self._routed_request(pending_request)
        routed.waits = True
        name = pending_request.metadata.internal_request_id
        try:
            replica = await super()._choose_replica_for_request(pending_request, is_retry=is_retry)
        except BaseException:  # the client left, perhaps when a replica had been found
            self._fleet.end_request(routed.replica, name)
            raise
        finally:
            routed.waits = False
        if replica.replica_id.unique_id != routed.replica:
            self._move_lease(name, routed, replica.replica_id.unique_id)
        return replica

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any) -> None:
        """Report the prompt to other routers: a replica has accepted the request."""
        super().on_request_routed(pending_request, replica_id, result)
        routed = self._routed_request(pending_request)
        if self._actor_client is not None and routed.request.blocks:
            self._actor_client.report_use(replica_id.unique_id, routed.request.blocks)

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        """The request is over."""
        super().on_request_completed(replica_id, internal_request_id)
        self._fleet.end_request(replica_id.unique_id, internal_request_id)

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        """Stop choosing a dead replica."""
        super().on_replica_actor_died(replica_id)
        self._fleet.remove_replica(replica_id.unique_id)
        if self._actor_client is not None:
            self._actor_client.report_death(replica_id.unique_id)

    def on_replica_actor_unavailable(self, replica_id: ReplicaID) -> None:
        """Stop choosing the replica until it reports its queue length again."""
        super().on_replica_actor_unavailable(replica_id)
        self._doubted.add(replica_id)

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """Replace the known replicas by `replicas`."""
        super().update_replicas(replicas)
        self._doubted.intersection_update(self._replica_id_set)
        names = [replica.replica_id.unique_id for replica in replicas]
        gone = set(self._fleet.seen.replicas).difference(names)
        new = [name for name in names if name not in self._fleet]
        for name in gone:
            self._fleet.remove_replica(name)
        for replica, name in zip(replicas, names, strict=True):
            if name not in self._fleet:
                self._fleet.add_replica(name)
            self._fleet.update_stats(name, replica.routing_stats)
        if self._actor_client is None and self._is_shared:
            self._actor_client = self._connect_actor()
        if self._actor_client is not None and (gone or new):
            self._actor_client.report_replicas(names, new=bool(new))

    def _connect_actor(self) -> PrefixActorClient:
        find = partial(
            find_or_start_actor,
            self._deployment_id.app_name,
            self._deployment_id.name,
            self._fleet.seen.settings,
        )
        client = PrefixActorClient(self._fleet.seen, find, time.monotonic)
        weakref.finalize(self, client.close_client)
        return client

    def _index_state(self) -> tuple[int, bool]:
        return len(self._fleet.seen), self._actor_client is None or self._actor_client.alone

    def _filter_allowed(
        self, candidates: list[RunningReplica], pending: PendingRequest | None
    ) -> list[RunningReplica]:
        """Return the candidates that locality and multiplexing allow; each call counts as a try."""
        if pending is not None and pending.metadata.multiplexed_model_id:
            ids = self.apply_multiplex_routing(pending_request=pending)
        else:
            ids = self.apply_locality_routing(pending_request=pending)
        if len(ids) == len(candidates):
            return candidates
        return [replica for replica in candidates if replica.replica_id in ids]

    async def _ask_queues(self, replicas: list[RunningReplica]) -> None:
        """Wait for the queue lengths of `replicas` that are unknown.

        Replicas with a doubtful length are queried too, but not awaited.
        """
        waited_for = []
        for replica in replicas:
            replica_id = replica.replica_id
            if self._replica_queue_len_cache.get(replica_id) is not None:
                continue
            asking = self._asking.get(replica_id)
            if asking is None:
                asking = self._asking[replica_id] = self._event_loop.create_task(self._ask_queue(replica))
            if replica_id not in self._doubted:
                waited_for.append(asking)
        if waited_for:
            await asyncio.wait(waited_for)

    async def _ask_queue(self, replica: RunningReplica) -> None:
        """Ask for a queue length; a replica that exceeds Ray's timeout is doubted."""
        try:
            ((_, queue),) = await self._probe_queue_lens([replica], 0)
            if queue is None:
                self._doubted.add(replica.replica_id)
        finally:
            del self._asking[replica.replica_id]

    def _split_by_capacity(
        self, replicas: list[RunningReplica]
    ) -> tuple[dict[Worker, RunningReplica], list[RunningReplica]]:
        """Split into replicas with known capacity and those that are full or doubted, which Ray asks."""
        free: dict[Worker, RunningReplica] = {}
        full: list[RunningReplica] = []
        for replica in replicas:
            replica_id = replica.replica_id
            if replica_id.unique_id not in self._fleet:
                continue  # it died while it was queried
            worker = self._fleet.find_worker(replica_id.unique_id)
            queue = self._replica_queue_len_cache.get(replica_id)
            if queue is not None:
                self._doubted.discard(replica_id)
                self._fleet.set_queue_length(worker, queue)
            if replica_id in self._doubted or (queue is not None and queue >= replica.max_ongoing_requests):
                full.append(replica)
            else:
                free[worker] = replica
        return free, full

    def _routed_request(self, pending: PendingRequest | None) -> _RoutedRequest:
        """Return the request's state; its prompt is read once."""
        if pending is None:
            return _RoutedRequest(RoutingRequest())
        routed = getattr(pending.routing_context, "radixway", None)
        if routed is None:
            routed = _RoutedRequest(self._build_routing_request(pending))
            pending.routing_context.radixway = routed
        return routed

    def _build_routing_request(self, pending: PendingRequest) -> RoutingRequest:
        prompt = _find_prompt_safely(pending)
        seed = namespace_seed(pending.metadata.multiplexed_model_id, prompt.salt)
        return RoutingRequest(
            tokens=-(-len(prompt.data) // _BYTES_PER_TOKEN),
            blocks=self.hash_blocks(prompt.data, seed),
        )

    def _move_lease(self, request_id: str, routed: _RoutedRequest, replica: str) -> None:
        self._fleet.end_request(routed.replica, request_id)
        uncached = routed.uncached.get(replica, routed.request.tokens)
        self._fleet.start_request(replica, request_id, routed.request, uncached)
        routed.replica = replica


def _find_prompt_safely(pending: PendingRequest) -> CallPrompt:
    try:
        return find_prompt(pending.args, pending.kwargs)
    except Exception as error:  # noqa: BLE001 - a stranger's argument: Ray would let the request wait for ever
        kind = type(error).__name__  # its words may be the prompt's
        log.warning("a prompt could not be read (%s): routing its request by load", kind)
        return NO_PROMPT
