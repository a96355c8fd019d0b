"""The detached actor around a `PrefixRecord`, which outlives routers, and a router's client of it."""

import asyncio
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayError
from ray.serve._private.constants import SERVE_CONTROLLER_NAME, SERVE_NAMESPACE

from radixway.cluster.prefix_router.prefix_record import (
    PrefixRecord,
    PrefixUpdate,
    PrefixUse,
    ReplicaPrefixes,
    RouterReport,
    iter_all_uses,
    pack_blocks,
    unpack_blocks,
)
from radixway.cluster.prefix_router.prefix_tiers import PrefixSettings

log = logging.getLogger(__name__)

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

    async def tell(self, report: RouterReport) -> None:
        """Apply a router's `report`."""
        self._record.apply_report(report)
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
    """Return the actor of this deployment. Blocks on Ray's directory; raises what Ray raises.

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


_BATCH_S = 0.05
"""Time in which uses are gathered before they are sent."""
_HOLD_S = 10.0
_PAUSES_S = (0.2, 5.0)
"""First and longest pause before an unavailable actor is called again; it doubles."""
_MAX_UNREPORTED_BLOCKS = 2**16
"""Blocks queued while the actor is unavailable; the oldest go first."""
_SLICE = 4096
"""Blocks applied at a time; requests go between."""


class PrefixActorClient:
    """A router's client. All methods but `close` belong to its event loop.

    While the actor is away the router goes by what it knows, and tells it everything when it comes back.
    """

    def __init__(
        self,
        seen: ReplicaPrefixes,
        find: Callable[[], ActorHandle[PrefixActor]],
        clock: Callable[[], float],
    ) -> None:
        """`find` blocks, and is called in a thread. `clock`: monotonic seconds."""
        self._seen = seen
        self._find = find
        self._clock = clock
        self._name = secrets.token_hex(8)
        self._untold: deque[PrefixUse] = deque()
        self._untold_blocks = 0
        self._gone: list[str] = []
        self._replicas: list[str] | None = None
        self._life: str | None = None
        self._upto = 0
        self._wants_all = True
        self._work = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._sync_forever())
        self.alone = True

    def report_use(self, replica: str, blocks: Sequence[int]) -> None:
        """Queue a report: a prompt went to the replica."""
        self._untold.append((replica, pack_blocks(blocks)))
        self._untold_blocks += len(blocks)
        while self._untold_blocks > _MAX_UNREPORTED_BLOCKS:
            self._untold_blocks -= len(self._untold.popleft()[1]) // 8
        self._work.set()

    def report_death(self, replica: str) -> None:
        """Queue a report: this replica is gone."""
        self._gone.append(replica)
        self._work.set()

    def report_replicas(self, replicas: list[str], *, new: bool) -> None:
        """Queue a report of all replicas. `new`: some of them others may have reported before."""
        self._replicas = replicas
        self._wants_all |= new
        self._work.set()

    def close_client(self) -> None:
        """Close from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._task.cancel)

    async def _sync_forever(self) -> None:
        pause_s = _PAUSES_S[0]
        while ray.is_initialized():  # else the next call would start a Ray of its own
            while not self._seen.replicas:  # a deployment that is gone needs no actor again
                self._work.clear()
                await self._work.wait()
            try:
                actor = await asyncio.to_thread(self._find)
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._send_reports(actor))
                    both.create_task(self._poll_updates(actor))
            except* (RayError, ValueError) as failed:  # ValueError: Ray's for an unknown name
                if pause_s == _PAUSES_S[0]:
                    log.warning("the prefix actor is unavailable: %s", failed.exceptions[0])
                self.alone = True
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSES_S[1]) if self.alone else _PAUSES_S[0]

    async def _send_reports(self, actor: ActorHandle[PrefixActor]) -> None:
        while True:
            await self._work.wait()
            await asyncio.sleep(_BATCH_S)
            self._work.clear()
            report = RouterReport(self._name, list(self._untold), self._gone, self._replicas)
            self._untold.clear()
            self._untold_blocks, self._gone, self._replicas = 0, [], None
            try:
                await actor.tell.remote(report)
            except BaseException:  # sent again when it is back: reports may come twice
                self._requeue_report(report)
                raise

    def _requeue_report(self, report: RouterReport) -> None:
        self._untold.extendleft(reversed(report.uses))
        self._untold_blocks += sum(len(packed) // 8 for _, packed in report.uses)
        self._gone = report.gone + self._gone
        if self._replicas is None:
            self._replicas = report.replicas
        self._work.set()

    async def _poll_updates(self, actor: ActorHandle[PrefixActor]) -> None:
        while True:
            life = None if self._wants_all else self._life
            self._wants_all = False
            news: PrefixUpdate = await actor.hear.remote(self._name, life, self._upto, _HOLD_S)
            self.alone = False
            if self._life not in (None, news.life):
                log.info("the prefix actor restarted: sending it %d blocks", len(self._seen))
                self._untold.extendleft(reversed(list(iter_all_uses(self._seen))))
                self._work.set()
            self._life, self._upto = news.life, news.upto
            await self._apply_uses(news.uses)
            await asyncio.sleep(_BATCH_S)

    async def _apply_uses(self, uses: Sequence[PrefixUse]) -> None:
        learnt = 0
        for replica, packed in uses:
            blocks = unpack_blocks(packed)
            self._seen.record_prompt(replica, blocks, self._clock())
            learnt += len(blocks)
            if learnt > _SLICE:
                learnt = 0
                await asyncio.sleep(0)
