"""What is between a router and the actor, with an actor that fails when the test says so."""

import asyncio
from types import SimpleNamespace

import pytest
from ray.exceptions import RayError

from radixway.cluster.prefix_router import actor_client
from radixway.cluster.prefix_router.prefix_record import PrefixUpdate, ReplicaPrefixes, unpack_blocks
from radixway.cluster.prefix_router.prefix_tiers import PrefixSettings
from radixway.routing import BlockIndex


class Actor:
    """Fails at the first tale, and keeps the later ones; has no news."""

    def __init__(self):
        self.told = asyncio.Queue()
        self.tell = SimpleNamespace(remote=self._tell)
        self.hear = SimpleNamespace(remote=self._hear)
        self._failures = [RayError("it is away")]

    async def _tell(self, told):
        if self._failures:
            raise self._failures.pop()
        self.told.put_nowait(told)

    async def _hear(self, router, life, since, wait_s):
        if life is not None:
            await asyncio.Event().wait()
        return PrefixUpdate("first life", 0, [])


async def test_what_the_actor_did_not_take_is_told_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(actor_client.ray, "is_initialized", lambda: True)
    seen = ReplicaPrefixes(PrefixSettings(), BlockIndex())
    seen.add_replica("a")
    actor = Actor()
    linked = actor_client.PrefixActorClient(seen, lambda: actor, lambda: 0.0)
    linked.report_use("a", [1, 2])
    linked.report_death("b")
    linked.report_replicas(["a"], new=False)
    async with asyncio.timeout(60):
        told = await actor.told.get()
    assert [(replica, unpack_blocks(packed)) for replica, packed in told.uses] == [("a", [1, 2])]
    assert (told.gone, told.replicas) == (["b"], ["a"])
    linked.close_client()
