"""The room put together for a gateway: the middleware, and what reloads and judges it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from radixway.component import Component
from radixway.config.semantic import SemanticSection
from radixway.net.stopping import stop
from radixway.pipeline import ModelStates
from radixway.semantic.cache_rules import CacheDefault
from radixway.semantic.counts import Counts
from radixway.semantic.detect import Detect
from radixway.semantic.holder import Snapshots, watch
from radixway.semantic.middleware import Semantic
from radixway.semantic.reading import Reader
from radixway.semantic.scores import Feedback
from radixway.semantic.signals.guard import GuardHook
from radixway.semantic.snapshot import Encode, Snapshot
from radixway.semantic.tools import Profiles
from radixway.semantic.tools.client_lists import ClientLists
from radixway.semantic.tools.middleware import ToolSelection
from radixway.semantic.trial import Tryout
from radixway.telemetry import Metrics

if TYPE_CHECKING:
    from radixway.encoders import EncoderService
    from radixway.semantic.signals.domain import DomainHead

log = logging.getLogger(__name__)


def build_room(
    section: SemanticSection,
    states: ModelStates,
    encoders: EncoderService,
    *,
    cache: CacheDefault | None,
    guard: GuardHook | None = None,
    home: Path | None = None,
    metrics: Metrics | None = None,
) -> SemanticRoom:
    """The room of a gateway. `cache`: see `Detect`. `guard`: who finds personal data and attacks.
    `home`: where vectors of tools are kept between runs. `metrics`: where decisions are counted, if somebody
    reads that.
    """

    async def load_head() -> DomainHead | None:
        from radixway.encoders import EncoderError
        from radixway.encoders.domain import domain_head

        try:
            return await domain_head(encoders)
        except EncoderError as error:
            log.warning("semantic: domains are not read: %s", error)
            return None

    return SemanticRoom(
        section,
        states,
        encode=encoders.encode,
        load_head=load_head,
        guard=guard,
        cache=cache,
        profiles=Profiles(encoders, home=home),
        metrics=metrics,
    )


async def _no_head() -> DomainHead | None:
    return None


class SemanticRoom(Component):
    """What a gateway has of this room. Nothing answers before `start`."""

    name = "semantic"

    def __init__(
        self,
        section: SemanticSection,
        states: ModelStates,
        encode: Encode | None = None,
        load_head: Callable[[], Awaitable[DomainHead | None]] = _no_head,
        guard: GuardHook | None = None,
        cache: CacheDefault | None = None,
        profiles: Profiles | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """Without `encode` and a head the signals that need them say nothing; without `profiles` no tools are
        selected.
        """
        self.snapshots = Snapshots(section, encode, load_head, profiles)
        self.feedback = Feedback(section.feedback)
        reader = Reader(encode, guard)

        def current() -> Snapshot:
            return self.snapshots.current

        self.detect = Detect(current, reader, cache)
        self.middleware = Semantic(current, reader, states, self.feedback, Counts(metrics or Metrics()))
        self.tryout = Tryout(reader, states, self.feedback)
        self._lists = None if profiles is None else ClientLists(profiles)
        self.tools = ToolSelection(current, encode, self._lists)
        """Stands behind `middleware`, which changes what the model is told."""
        self._watch = section.watch
        self._watching: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Compile the configuration, and watch its file. Raises ConfigError."""
        watching = [asyncio.create_task(watch(self.snapshots))] if self._watch else []
        try:
            await self.snapshots.start()
        except BaseException:
            await stop(watching)
            raise
        self._watching = watching

    async def stop(self) -> None:
        """Watch no more, and let go of what reads clients' tools."""
        await stop(self._watching)
        if self._lists is not None:
            await self._lists.close()

    def describe(self) -> dict[str, Any]:
        """See `Component`: which configuration is in force."""
        return self.snapshots.describe()
