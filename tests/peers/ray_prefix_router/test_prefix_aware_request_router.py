"""Ray's cases of its prefix-aware router, of ours under the same name, with a tree that is an actor."""

import asyncio
import itertools
import time
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
import ray
from ray.serve._private.common import (
    DeploymentHandleSource,
    DeploymentID,
    ReplicaID,
    RequestMetadata,
)
from ray.serve.request_router import PendingRequest

from radixway.cluster.ray_router import PrefixCacheAffinityRouter, PrefixTree, PrefixTreeActor
from support.ported_cases import ported

pytestmark = pytest.mark.slow

SOURCE = "python/ray/llm/tests/serve/cpu/deployments/test_prefix_aware_request_router.py"
DEPLOYMENT = DeploymentID(name="TEST_DEPLOYMENT")
TIMES = 10
EVICTION = {
    "do_eviction": True,
    "eviction_threshold_chars": 10,
    "eviction_target_chars": 5,
    "eviction_interval_secs": 0.2,
}
_numbers = itertools.count()


def case(name: str) -> pytest.MarkDecorator:
    return ported(SOURCE, name)


@dataclass(eq=False)
class KnownReplica:
    """A replica as the router sees it."""

    name: str
    queue: int = 0
    max_ongoing_requests: int = 10
    node_id: str = ""
    availability_zone: str | None = None
    multiplexed_model_ids: set[str] = field(default_factory=set)
    routing_stats: dict[str, object] = field(default_factory=dict)

    @property
    def replica_id(self) -> ReplicaID:
        return ReplicaID(unique_id=self.name, deployment_id=DEPLOYMENT)

    @property
    def tenant(self) -> str:
        """Its name in the tree."""
        return self.replica_id.to_full_id_str()

    async def get_queue_len(self, *, deadline_s: float) -> int:
        return self.queue


@pytest.fixture
def tree(running_ray):
    actor = PrefixTreeActor.remote()
    yield actor
    ray.kill(actor)


def make_router(tree, deployment: DeploymentID = DEPLOYMENT, **settings) -> PrefixCacheAffinityRouter:
    router = PrefixCacheAffinityRouter(
        deployment_id=deployment,
        handle_source=DeploymentHandleSource.REPLICA,
        use_replica_queue_len_cache=False,
    )
    router.initialize_state(**{"imbalanced_threshold": float("inf"), **settings}, tree_actor=tree)
    return router


def ask(**fields) -> PendingRequest:
    """A request whose argument has these attributes; without any it has no argument."""
    number = next(_numbers)
    return PendingRequest(
        args=[SimpleNamespace(**fields)] if fields else [],
        kwargs={},
        metadata=RequestMetadata(request_id=f"r{number}", internal_request_id=f"i{number}"),
        created_at=time.time(),
    )


async def choose(router, request: PendingRequest) -> set[str]:
    """The names of the replicas that are chosen for `request`, asked ten times."""
    chosen = {(await router._choose_replica_for_request(request)).name for _ in range(TIMES)}
    async with asyncio.timeout(10):
        while router.curr_num_routing_tasks:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert router.num_pending_requests == 0
    return chosen


def seen(tree) -> dict[str, int]:
    return ray.get(tree.getattr.remote("tenant_to_char_count"))


def note(tree, text: str, replica: KnownReplica) -> None:
    ray.get(tree.insert.remote(text, replica.tenant, time.time()))


@case("TestPow2FallbackBehavior::test_fallback_when_no_prompt")
async def test_without_a_prompt_the_idlest_replica_is_chosen(tree):
    router, idle, busy = make_router(tree), KnownReplica("r1"), KnownReplica("r2", queue=5)
    router.update_replicas([idle, busy])
    assert seen(tree) == {idle.tenant: 0, busy.tenant: 0}
    assert await choose(router, ask()) == {"r1"}


@case("TestPow2FallbackBehavior::test_fallback_when_imbalanced")
@pytest.mark.parametrize("room", [10, 100], ids=["full", "not-full"])
async def test_an_overrun_replica_gets_nothing_more_for_what_it_has_seen(tree, room):
    router = make_router(tree, imbalanced_threshold=2)
    idle, overrun = KnownReplica("r1"), KnownReplica("r2", queue=10, max_ongoing_requests=room)
    router.update_replicas([idle, overrun])
    note(tree, "hello world", overrun)
    assert seen(tree) == {idle.tenant: 0, overrun.tenant: 11}
    assert ray.get(tree.prefix_match.remote("hello world")) == ("hello world", [overrun.tenant])
    assert await choose(router, ask(prompt="hello world")) == {"r1"}


@case("TestPrefixAwareLogic::test_high_match_rate_selects_matching_replica")
async def test_the_replica_that_has_seen_the_prompt_is_chosen(tree):
    router, other, knows = make_router(tree), KnownReplica("r1"), KnownReplica("r2")
    router.update_replicas([other, knows])
    note(tree, "Hello", knows)
    assert ray.get(tree.prefix_match.remote("Hello world")) == ("Hello", [knows.tenant])
    assert seen(tree) == {other.tenant: 0, knows.tenant: 5}
    assert await choose(router, ask(prompt="Hello world")) == {"r2"}
    assert await choose(router, ask(messages=[{"content": "Hello"}, {"content": " world"}])) == {"r2"}


@case("TestPrefixAwareLogic::test_low_match_rate_uses_smallest_tree")
async def test_an_unseen_prompt_goes_where_the_least_was_seen(tree):
    router, small, large = make_router(tree), KnownReplica("r1"), KnownReplica("r2")
    router.update_replicas([small, large])
    note(tree, "hi", small)
    note(tree, "longtext", large)
    assert seen(tree) == {small.tenant: 2, large.tenant: 8}
    assert await choose(router, ask(prompt="z")) == {"r1"}
    assert await choose(router, ask(messages=[{"content": "z"}])) == {"r1"}


@case("TestEvictionBehavior::test_eviction_task_creation")
async def test_the_eviction_loop_begins_with_the_first_replicas(tree):
    router = make_router(tree, **EVICTION)
    assert not router._eviction_loop_running
    router.update_replicas([KnownReplica("r1")])
    assert router._eviction_loop_running
    assert not ray.get(tree.start_eviction_loop.remote(10, 5, 1.0)), "it runs in the actor, too"
    ray.get(tree.stop_eviction_loop.remote())


@case("TestPromptNormalization::test_eviction_threshold_behavior")
async def test_the_eviction_loop_cuts_a_replica_down(tree):
    router, replica = make_router(tree, **EVICTION), KnownReplica("r1")
    router.update_replicas([replica])
    ray.get([tree.insert.remote(text, replica.tenant, at) for at, text in enumerate(("x" * 12, "y" * 15))])
    async with asyncio.timeout(20):
        while seen(tree)[replica.tenant] > 5:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    ray.get(tree.stop_eviction_loop.remote())


TEXT = "Hello world"


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        pytest.param(
            {"prompt": TEXT}, TEXT, marks=case("TestPromptNormalization::test_normalize_prompt_string")
        ),
        pytest.param(
            {"messages": ["Hello", " ", "world"]},
            TEXT,
            marks=case("TestPromptNormalization::test_normalize_messages_list_of_strings"),
        ),
        pytest.param(
            {"messages": [{"content": "Hello"}, {"content": " world"}]},
            TEXT,
            marks=case("TestPromptNormalization::test_normalize_messages_dict_content_string"),
        ),
        pytest.param(
            {
                "messages": [
                    {"content": [{"type": "text", "text": "Hello"}, {"type": "text", "text": " world"}]}
                ]
            },
            TEXT,
            marks=case("TestPromptNormalization::test_normalize_messages_dict_content_list_of_dicts_text"),
        ),
        pytest.param(
            {"messages": [{"content": ["Hello", " ", "world"]}]},
            TEXT,
            marks=case("TestPromptNormalization::test_normalize_messages_dict_content_list_of_strings"),
        ),
        pytest.param(
            {"messages": [{"content": [{"type": "image_url", "image_url": {"url": "http://example.com"}}]}]},
            "",
            marks=case("TestPromptNormalization::test_normalize_unsupported_returns_empty"),
        ),
    ],
    ids=["prompt", "texts", "messages", "parts", "text-parts", "picture"],
)
async def test_the_text_of_a_prompt_is_that_of_its_messages(argument, text):
    assert make_router(None)._extract_text_from_request(ask(**argument)) == text


@case("TestPromptNormalization::test_extract_raises_when_no_prompt_or_messages")
async def test_without_a_prompt_there_is_no_text():
    with pytest.raises(ValueError):
        make_router(None)._extract_text_from_request(ask())


@case("TestMultiDeploymentIsolation::test_two_deployments_get_separate_tree_actors")
async def test_two_deployments_with_a_tree_each_know_nothing_of_each_other(running_ray):
    trees = {name: PrefixTreeActor.remote() for name in ("prefill", "decode")}
    for name, tree in trees.items():
        router = make_router(tree, DeploymentID(name=name))
        replicas = [KnownReplica(f"{name}-r1"), KnownReplica(f"{name}-r2")]
        router.update_replicas(replicas)
        assert set(seen(tree)) == {replica.tenant for replica in replicas}
        note(tree, f"{name} text", replicas[0])
        assert await choose(router, ask(prompt=f"{name} text continued")) == {f"{name}-r1"}
        assert seen(tree) == {replicas[0].tenant: len(f"{name} text"), replicas[1].tenant: 0}
    for tree in trees.values():
        ray.kill(tree)


@pytest.fixture
def waiting_tree(running_ray):
    class WaitingTree(PrefixTree):
        """A tree in an actor whose lookups and insertions wait to be let go on."""

        def __init__(self) -> None:
            super().__init__()
            self.may_go_on = asyncio.Event()
            self.waiting = 0

        async def let_go_on(self) -> None:
            self.may_go_on.set()

        async def count_waiting(self) -> int:
            return self.waiting

        async def count_chars(self) -> dict[str, int]:
            return dict(self.tenant_to_char_count)

        async def add_tenants(self, tenants, time_s):
            super().add_tenants(tenants, time_s)

        async def note(self, text, tenant):
            super().insert(text, tenant, 0.0)

        async def insert(self, text, tenant, time_s):
            await self._wait()
            super().insert(text, tenant, time_s)

        async def prefix_match(self, text, available_tenants=None):
            await self._wait()
            return super().prefix_match(text, available_tenants)

        async def get_smallest_tenants(self):
            return super().get_smallest_tenants()

        async def remove_tenants(self, tenants):
            return super().remove_tenants(tenants)

        async def _wait(self) -> None:
            self.waiting += 1
            await self.may_go_on.wait()

    actor = ray.remote(WaitingTree).remote()
    yield actor
    ray.kill(actor)


async def until_waiting(tree) -> None:
    async with asyncio.timeout(20):
        while not await tree.count_waiting.remote():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@case("TestNonBlockingTreeCalls::test_tree_lookup_does_not_block_event_loop")
async def test_other_requests_go_on_while_the_tree_is_asked(waiting_tree):
    router, replica = make_router(waiting_tree), KnownReplica("r1")
    router.update_replicas([replica])
    routing = asyncio.create_task(router._choose_replica_for_request(ask(prompt="hello")))
    await until_waiting(waiting_tree)  # in this very loop
    assert not routing.done()
    waiting_tree.let_go_on.remote()
    assert await routing is replica


@case("TestNonBlockingTreeCalls::test_on_request_routed_does_not_wait_for_insert")
async def test_a_routed_request_does_not_wait_to_be_noted(waiting_tree):
    router, replica = make_router(waiting_tree), KnownReplica("r1")
    router.update_replicas([replica])
    router.on_request_routed(ask(prompt="hello"), replica.replica_id, result=None)
    await until_waiting(waiting_tree)
    waiting_tree.let_go_on.remote()
    async with asyncio.timeout(20):
        while await waiting_tree.count_chars.remote() != {replica.tenant: 5}:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@case("TestNonBlockingTreeCalls::test_replica_removed_during_tree_lookup_is_not_chosen")
async def test_a_replica_that_goes_while_the_tree_is_asked_is_not_chosen(waiting_tree):
    router, stays, goes = make_router(waiting_tree), KnownReplica("r1"), KnownReplica("r2")
    router.update_replicas([stays, goes])
    await waiting_tree.note.remote("hello", goes.tenant)
    routing = asyncio.create_task(router._choose_replica_for_request(ask(prompt="hello world")))
    await until_waiting(waiting_tree)
    router.update_replicas([stays])
    waiting_tree.let_go_on.remote()
    assert await asyncio.wait_for(routing, 20) is stays
