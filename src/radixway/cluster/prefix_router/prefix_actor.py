"""The detached actor around a `PrefixRecord`: it outlives routers, replicas and the proxies they live in."""

from __future__ import annotations

import asyncio
import secrets
import time

import ray
from ray.actor import ActorHandle
from ray.serve._private.constants import SERVE_CONTROLLER_NAME, SERVE_NAMESPACE

from radixway.cluster.prefix_router.prefix_record import PrefixRecord, PrefixUpdate, RouterReport
from radixway.cluster.prefix_router.prefix_tiers import PrefixSettings

ACTOR_NAME = "RadixwayPrefixes"
_MAX_ROUTERS = 10_000


class PrefixActor:
    """Takes what routers tell and holds their questions until there is news."""

    def __init__(self, settings: PrefixSettings) -> None:
        self._record = PrefixRecord(secrets.token_hex(8), settings, time.monotonic)
        self._changed = asyncio.Event()

    async def settle(self, settings: PrefixSettings) -> None:
        """Other limits from now on."""
        self._record.apply_settings(settings)

    async def tell(self, told: RouterReport) -> None:
        """A router tells something."""
        self._record.apply_report(told)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def hear(self, router: str, life: str | None, since: int, wait_s: float) -> PrefixUpdate:
        """Wait up to `wait_s` seconds for what routers other than `router` reported after number `since`."""
        deadline = time.monotonic() + wait_s
        while (found := self._record.updates_since(router, life, since)) is None:
            since = self._record.last_number
            try:
                await asyncio.wait_for(self._changed.wait(), deadline - time.monotonic())
            except TimeoutError:
                return PrefixUpdate(self._record.life, since, [])
        return found


def find_or_start_actor(app: str, deployment: str, settings: PrefixSettings) -> ActorHandle[PrefixActor]:
    """The actor of this deployment. Blocks while Ray's directory is asked; raises what Ray raises.

    Each deployment has its own: replicas of two, as of one that prefills and one that decodes, are never
    mixed. It ends with Serve.
    """
    controller = ray.get_actor(SERVE_CONTROLLER_NAME, namespace=SERVE_NAMESPACE)  # first: no Serve, no actor
    namespace = "::".join(filter(None, (SERVE_NAMESPACE, app, deployment)))
    actor = (
        ray.remote(PrefixActor)
        .options(
            name=ACTOR_NAME,
            namespace=namespace,
            lifetime="detached",
            get_if_exists=True,
            num_cpus=0,
            max_restarts=-1,
            max_concurrency=_MAX_ROUTERS,
        )
        .remote(settings)
    )
    controller._register_shutdown_cleanup_actor.remote(actor)
    actor.settle.remote(settings)
    return actor
