"""The routers in a real Ray: hooks as Serve calls them, and the actor that outlives them."""

import asyncio
import contextlib
import random
import shutil
import tempfile
from types import SimpleNamespace

import pytest
import ray
import ray.exceptions
from ray import serve
from ray.serve.config import RequestRouterConfig

from radixway.cluster.prefix_router.actor_client import ACTOR_NAME
from radixway.cluster.prefix_router.call_prompt import find_prompt, hash_fine_blocks
from radixway.cluster.prefix_router.prefix_record import unpack_blocks
from radixway.cluster.ray_router import PrefixCacheAffinityRouter
from radixway.routing.block_hash import namespace_seed
from support.ordered_router import OrderedRouter

pytestmark = pytest.mark.slow

PUBLISHED = {
    "imbalanced_threshold": 5,
    "match_rate_threshold": 0.15,
    "do_eviction": True,
    "eviction_threshold_chars": 500_000,
    "eviction_target_chars": 400_000,
    "eviction_interval_secs": 30,
}
"""As in Ray's guide."""
ROUTERS = {
    "published": (PrefixCacheAffinityRouter, PUBLISHED),
    "expected": ("radixway.cluster.ray_router:ExpectedTimeRouter", {"prefill_tokens_per_s": 100}),
    "ordered": (OrderedRouter, {}),
}


@pytest.fixture(scope="module")
def running_ray():
    folder = tempfile.mkdtemp(prefix="rw", dir="/tmp")
    ray.init(
        num_cpus=4,
        include_dashboard=False,
        object_store_memory=100 * 2**20,
        log_to_driver=False,
        _temp_dir=folder,
    )
    serve.start(proxy_location="Disabled")
    yield
    serve.shutdown()
    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


def deploy(name, router, kwargs):
    """Two replicas that say who they are."""

    @serve.deployment(
        name=name,
        num_replicas=2,
        max_ongoing_requests=4,
        ray_actor_options={"num_cpus": 0},
        graceful_shutdown_timeout_s=0,
        request_router_config=RequestRouterConfig(request_router_class=router, request_router_kwargs=kwargs),
    )
    class Replica:
        async def __call__(self, *args, **kwargs):
            return serve.get_replica_context().replica_id.unique_id

    return serve.run(Replica.bind(), name=name, route_prefix=None)


@pytest.fixture(scope="module")
def apps(running_ray):
    return {name: deploy(name, *router) for name, router in ROUTERS.items()}


@pytest.fixture(params=ROUTERS)
def app(request, apps):
    return apps[request.param]


def router_of(handle):
    """The router in this process."""
    return handle._router._asyncio_router.request_router


async def settled(handle):
    """Nothing is in hand: completions reach the router's own loop after their answers reach the caller's."""
    router = router_of(handle)
    workers = [router._fleet.find_worker(name) for name in router._fleet.seen.replicas]
    async with asyncio.timeout(60):
        while any(worker.load.requests for worker in workers):
            await asyncio.wrap_future(
                asyncio.run_coroutine_threadsafe(asyncio.sleep(0.01), router._event_loop)
            )


async def ask(handle, body):
    place = await handle.remote(body)
    await settled(handle)
    return place


def router_places(handle):
    return router_of(handle)._fleet.seen.replicas


def conversation(seed):
    """Its turns, each with all before it."""
    rng = random.Random(seed)
    messages = []
    for _ in range(6):
        words = " ".join(f"{rng.random():.6f}" for _ in range(80))
        messages = [*messages, {"role": "user", "content": words}]
        yield messages


def truth(name):
    """What the actor of a deployment remembers, once it remembers anything."""
    actor = ray.get_actor(ACTOR_NAME, namespace=f"serve::{name}::{name}")
    news = ray.get(actor.hear.remote("a test", None, 0, 0))
    while not news.uses:
        news = ray.get(actor.hear.remote("a test", news.life, news.upto, 60))
    return news


def blocks_of(news):
    return {(replica, block) for replica, packed in news.uses for block in unpack_blocks(packed)}


async def test_conversations_stay_where_they_began(app):
    for seed in range(4):
        places = {await ask(app, {"messages": messages}) for messages in conversation(seed)}
        assert len(places) == 1


async def test_conversations_are_known_however_they_are_brought(apps):
    one, two, *_ = conversation("brought")
    first = await apps["published"].remote(SimpleNamespace(messages=one))
    assert await apps["published"].remote(messages=two) == first


async def test_conversations_are_dealt_out(app):
    places = [await ask(app, {"messages": next(conversation(f"dealt {n}"))}) for n in range(12)]
    assert min(places.count(place) for place in router_places(app)) >= 3


async def test_calls_without_a_prompt_are_answered(app):
    """With the published router they are never answered: it raises in Ray's task."""

    class Hostile:
        @property
        def messages(self):
            raise OSError("a property that reads a file that is gone")

    for args in [(), (7,), ("",), ({"messages": []},), (b"{",), (Hostile(),)]:
        assert await app.remote(*args)
    assert await app.options(multiplexed_model_id="an adapter").remote({"prompt": "Hi"})


async def test_a_burst_beyond_all_queues_leaves_nothing_in_hand(app):
    """Refusals, retries, requests whose clients leave: what was taken is given back on every way out."""
    calls = [app.remote({"prompt": f"{n % 7} begins like some others do. " * 9}) for n in range(60)]
    for call in calls[::6]:
        call.cancel()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(answer, str) for answer in answers) >= 50
    await settled(app)
    router_of(app)._fleet.check()


async def test_another_router_goes_where_the_first_one_did(apps):
    @serve.deployment(ray_actor_options={"num_cpus": 0})
    class Caller:
        def __init__(self, handle):
            self.handle = handle

        async def call(self, body):
            return await self.handle.remote(body)

        async def knows(self, blocks):
            router = self.handle._router._asyncio_router.request_router

            async def look():
                uses = router._fleet.seen.iter_uses()
                return blocks <= {(replica, block) for replica, use in uses for block in use}

            looking = asyncio.run_coroutine_threadsafe(look(), router._event_loop)
            return await asyncio.wrap_future(looking)

    turns = [list(conversation(f"shared {n}")) for n in range(6)]
    places = [await apps["published"].remote({"messages": messages[3]}) for messages in turns]
    sent = [find_prompt(({"messages": messages[3]},), {}).data for messages in turns]
    told = {
        (place, block)
        for place, data in zip(places, sent, strict=True)
        for block in hash_fine_blocks(data, namespace_seed())
    }
    caller = serve.run(Caller.bind(apps["published"]), name="caller", route_prefix=None)
    await caller.call.remote({})
    async with asyncio.timeout(120):
        while not await caller.knows.remote(told):
            pass
    assert [await caller.call.remote({"messages": messages[4]}) for messages in turns] == places


async def test_an_actor_that_begins_anew_is_told_everything(apps):
    before = truth("ordered")
    assert {replica for replica, _ in before.uses} <= set(router_places(apps["ordered"])), "Ray #58835"
    ray.kill(ray.get_actor(ACTOR_NAME, namespace="serve::ordered::ordered"), no_restart=False)
    assert await apps["ordered"].remote({"messages": next(conversation("meanwhile"))})
    after = before
    async with asyncio.timeout(120):
        while after.life == before.life or not blocks_of(before) <= blocks_of(after):
            await asyncio.sleep(0)
            with contextlib.suppress(ray.exceptions.RayError):  # it is on its way
                after = truth("ordered")


async def test_a_replica_that_is_killed_is_forgotten_and_its_conversations_go_on(apps):
    turns = [list(conversation(f"orphan {n}")) for n in range(4)]
    places = [await apps["expected"].remote({"messages": messages[1]}) for messages in turns]
    ray.kill(ray.get_actor(f"SERVE_REPLICA::expected#expected#{places[0]}", namespace="serve"))
    moved = [await apps["expected"].remote({"messages": messages[2]}) for messages in turns]
    assert places[0] not in moved
    router = router_of(apps["expected"])
    assert places[0] not in router._fleet
    router._fleet.check()
