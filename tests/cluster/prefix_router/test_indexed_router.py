"""Ray's hooks, with Ray's own base class and without a running Ray: replicas are what it knows of them."""

import asyncio
from dataclasses import dataclass, field

import pytest
from ray.serve._private.common import (
    DeploymentHandleSource,
    DeploymentID,
    ReplicaID,
    RequestMetadata,
)
from ray.serve.request_router import PendingRequest

from radixway.cluster.ray_router import ExpectedTimeRouter, PrefixAffinityRouter

DEPLOYMENT = DeploymentID("engine", "app")
CHAT = "You answer questions about boats. " * 20


@dataclass(eq=False)
class KnownReplica:
    """As a router sees one."""

    name: str
    node_id: str = "elsewhere"
    availability_zone: str | None = None
    multiplexed_model_ids: set[str] = field(default_factory=set)
    max_ongoing_requests: int = 3
    routing_stats: dict[str, object] = field(default_factory=dict)
    asked: int = 0
    """How often for the length of its queue."""
    queue: int = 0
    silent: bool = False
    """It gives no answer."""
    asked_twice: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def replica_id(self):
        return ReplicaID(self.name, DEPLOYMENT)

    async def get_queue_len(self, *, deadline_s):
        self.asked += 1
        if self.asked == 2:
            self.asked_twice.set()
        if self.silent:
            await asyncio.Event().wait()
        return self.queue


def make_router(*replicas, kind=PrefixAffinityRouter, **settings):
    router = kind(
        deployment_id=DEPLOYMENT,
        handle_source=DeploymentHandleSource.UNKNOWN,
        self_node_id="here",
        use_replica_queue_len_cache=True,
        prefer_local_node_routing=True,
    )
    router.initialize_state(**settings)
    router.update_replicas(list(replicas))
    return router


def request(prompt, name="a request", model=""):
    metadata = RequestMetadata(name, name, multiplexed_model_id=model)
    return PendingRequest(args=[{"prompt": prompt}], kwargs={}, metadata=metadata)


async def places(router, pending):
    """The groups that a choice gives, by name."""
    groups = await router.choose_replicas(list(router.curr_replicas.values()), pending)
    return [sorted(replica.name for replica in group) for group in groups]


def in_hand(router):
    return {name: router._fleet.find_worker(name).load.requests for name in router._fleet.seen.replicas}


@pytest.fixture(params=[PrefixAffinityRouter, ExpectedTimeRouter])
def kind(request):
    return request.param


async def test_the_chosen_one_comes_first_and_who_is_full_comes_last(kind):
    router = make_router(*map(KnownReplica, "abc"), kind=kind)
    await router._choose_replica_for_request(request(CHAT, "first"))
    chosen = next(name for name, count in in_hand(router).items() if count)
    router.on_request_completed(ReplicaID(chosen, DEPLOYMENT), "first")
    full = next(name for name in "abc" if name != chosen)
    router.on_new_queue_len_info(ReplicaID(full, DEPLOYMENT), 3)
    (third,) = set("abc") - {chosen, full}
    assert await places(router, request(CHAT)) == [[chosen], [third], [full]]


async def test_a_choice_asks_no_replica_whose_queue_is_known(kind):
    """The published router asks two actors, and blocks meanwhile."""
    replicas = [KnownReplica(name) for name in "ab"]
    router = make_router(*replicas, kind=kind)
    await asyncio.gather(*(places(router, request(f"{number} " + CHAT)) for number in range(4)))
    assert [replica.asked for replica in replicas] == [2, 2], "by Ray, and once for all four choices"
    for number in range(4):
        await places(router, request(f"{number} " + CHAT))
    assert [replica.asked for replica in replicas] == [2, 2]


async def test_a_new_router_asks_how_long_queues_are_before_its_first_choice(kind):
    for number in range(20):
        router = make_router(KnownReplica("busy", queue=2), KnownReplica("idle"), kind=kind)
        assert (await places(router, request(f"{number} " + CHAT)))[0] == ["idle"]


async def test_new_routers_do_not_all_begin_with_the_first_replica(kind):
    firsts = set()
    for _ in range(40):
        router = make_router(*map(KnownReplica, "ab"), kind=kind)
        firsts.add((await places(router, request(CHAT)))[0][0])
    assert firsts == {"a", "b"}


async def test_a_replica_that_does_not_say_its_queue_is_waited_for_once(kind):
    router = make_router(KnownReplica("silent", silent=True), KnownReplica("b"), kind=kind)
    router.queue_len_response_deadline_s = 0.01
    for number in range(3):
        assert await places(router, request(f"{number} " + CHAT)) == [["b"], ["silent"]]
    router.on_new_queue_len_info(ReplicaID("silent", DEPLOYMENT), 0)
    assert await places(router, request("another")) == [["silent"], ["b"]], "b was chosen before"


async def test_a_replica_that_dies_while_it_is_asked_is_no_candidate(kind):
    dying = KnownReplica("dying", silent=True)
    router = make_router(dying, KnownReplica("b"), kind=kind)
    choosing = asyncio.ensure_future(places(router, request(CHAT)))
    await dying.asked_twice.wait()
    router.on_replica_actor_died(dying.replica_id)
    assert await choosing == [["b"]]


async def test_the_own_node_comes_first_and_then_all(kind):
    router = make_router(KnownReplica("far"), KnownReplica("near", node_id="here"), kind=kind)
    pending = request(CHAT)
    assert await places(router, pending) == [["near"]]
    assert sorted(await places(router, pending)) == [["far"], ["near"]]


async def test_requests_for_an_adapter_go_where_it_is_loaded(kind):
    loaded = KnownReplica("with it", multiplexed_model_ids={"adapter"})
    router = make_router(KnownReplica("without"), loaded, kind=kind)
    for number in range(3):
        assert (await places(router, request(CHAT, f"{number}", model="adapter")))[0] == ["with it"]


async def test_prefixes_of_an_adapter_are_its_own():
    router = make_router(*map(KnownReplica, "ab"))
    plain, adapted = request(CHAT), request(CHAT, model="adapter")
    assert set(router._routed_request(plain).request.blocks).isdisjoint(
        router._routed_request(adapted).request.blocks
    )


async def test_a_replica_takes_the_request_until_it_is_completed(kind):
    router = make_router(*map(KnownReplica, "ab"), kind=kind)
    replica = await router._choose_replica_for_request(request(CHAT, "one"))
    assert in_hand(router)[replica.name] == 1
    router.on_request_completed(replica.replica_id, "one")
    assert set(in_hand(router).values()) == {0}
    router._fleet.check()


async def test_a_request_that_is_tried_again_is_no_hit_of_its_own(kind):
    router = make_router(KnownReplica("a"), kind=kind)
    pending = request(CHAT, "one")
    await router._choose_replica_for_request(pending)
    await router._choose_replica_for_request(pending, is_retry=True)
    tokens = len(CHAT) // 4
    assert router._fleet.find_worker("a").load.prefill_tokens == tokens
    assert (router._counts._reasons.total(), router._counts._tokens, router._counts._seen) == (1, tokens, 0)


async def test_a_client_that_leaves_while_it_waits_leaves_nothing(kind):
    router = make_router(kind=kind)
    waiting = asyncio.ensure_future(router._choose_replica_for_request(request(CHAT)))
    await asyncio.sleep(0)
    waiting.cancel()
    router.update_replicas([KnownReplica("a")])
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert in_hand(router) == {"a": 0}


async def test_a_client_that_leaves_as_its_replica_is_found_leaves_nothing(kind):
    """Ray never sends such a request, and never says that it is over."""
    router = make_router(KnownReplica("a"), kind=kind)
    pending = request(CHAT)
    pending.future.add_done_callback(lambda _: waiting.cancel())
    waiting = asyncio.ensure_future(router._choose_replica_for_request(pending))
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not pending.future.cancelled()
    assert in_hand(router) == {"a": 0}
    router._fleet.check()


async def test_who_only_asks_where_a_request_would_go_has_nothing_in_hand(kind):
    router = make_router(*map(KnownReplica, "ab"), kind=kind)
    await places(router, request(CHAT))
    assert in_hand(router) == {"a": 0, "b": 0}


async def test_a_dead_replica_is_forgotten_with_what_it_had_in_hand(kind):
    router = make_router(*map(KnownReplica, "ab"), kind=kind)
    replica = await router._choose_replica_for_request(request(CHAT, "one"))
    router.on_replica_actor_died(replica.replica_id)
    router.on_request_completed(replica.replica_id, "one")
    (other,) = set("ab") - {replica.name}
    assert in_hand(router) == {other: 0}
    assert await places(router, request(CHAT)) == [[other]]


async def test_a_replica_that_could_not_be_reached_gets_nothing_before_it_has_said_its_queue(kind):
    """Ray has its cache forget the replica, so that it is asked first, and tries the request again."""
    router = make_router(*map(KnownReplica, "ab"), kind=kind)
    away = await router._choose_replica_for_request(request(CHAT, "one"))
    router.on_request_completed(away.replica_id, "one")
    (other,) = set("ab") - {away.name}
    assert await places(router, request(CHAT)) == [[away.name], [other]]
    router.on_replica_actor_unavailable(away.replica_id)
    for _ in range(3):
        assert await places(router, request(CHAT)) == [[other], [away.name]]
    router.on_new_queue_len_info(away.replica_id, 0)
    assert await places(router, request(CHAT)) == [[away.name], [other]]


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"imbalanced_threshold": -1}, "imbalanced_threshold"),
        ({"match_rate_threshold": 2}, "match_rate_threshold"),
        ({"eviction_interval_secs": -1}, "eviction_interval_secs"),
        ({"max_chars": 10}, "max_chars"),
    ],
)
async def test_settings_without_sense_are_named(settings, field):
    with pytest.raises(ValueError, match=field):
        make_router(**settings)


async def test_none_means_what_it_does_in_the_published_router():
    router = make_router(imbalanced_threshold=None, eviction_target_chars=None, eviction_threshold_chars=7)
    settings = router._fleet.seen.settings
    assert settings.imbalanced_threshold == float("inf")
    assert settings.eviction_target_chars == 7


async def test_speeds_without_sense_are_named():
    with pytest.raises(ValueError, match="prefill_tokens_per_s must be above 0, not 0"):
        make_router(kind=ExpectedTimeRouter, prefill_tokens_per_s=0)
