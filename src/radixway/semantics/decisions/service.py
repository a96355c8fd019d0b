"""The semantic layer of a gateway: its middlewares, and what reloads and judges their rules."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from radixway.core.component import Component
from radixway.core.config.semantic import SemanticConfig
from radixway.core.net.task_cancellation import cancel_tasks
from radixway.core.pipeline import ModelStates
from radixway.core.telemetry import MetricsRegistry
from radixway.semantics.decisions.cache_rules import CacheDefault
from radixway.semantics.decisions.decision_metrics import DecisionMetrics
from radixway.semantics.decisions.detection import Detect
from radixway.semantics.decisions.middleware import Semantic
from radixway.semantics.decisions.replay import RulesTryout
from radixway.semantics.decisions.score_feedback import ScoreFeedback
from radixway.semantics.decisions.signal_reader import SignalReader
from radixway.semantics.decisions.snapshot import Encode, SemanticSnapshot
from radixway.semantics.decisions.snapshot_store import SnapshotStore, watch_files
from radixway.semantics.decisions.tool_middleware import ToolSelection
from radixway.semantics.signals.guard_findings import GuardHook
from radixway.semantics.tools import ToolProfileCache
from radixway.semantics.tools.client_tools import ClientToolIndexes

if TYPE_CHECKING:
    from radixway.semantics.encoders import EncoderService
    from radixway.semantics.signals.domain import DomainClassifier

log = logging.getLogger(__name__)


def build_semantic_service(
    section: SemanticConfig,
    states: ModelStates,
    encoders: EncoderService,
    *,
    cache: CacheDefault | None,
    guard: GuardHook | None = None,
    home: Path | None = None,
    metrics: MetricsRegistry | None = None,
) -> SemanticService:
    """Build the service of a gateway. `cache`: see `Detect`. `guard`: who finds personal data and attacks.
    `home`: where vectors of tools are kept between runs. `metrics`: where decisions are counted, if somebody
    reads that.
    """

    async def load_head() -> DomainClassifier | None:
        from radixway.semantics.encoders import EncoderError
        from radixway.semantics.encoders.classifiers.category_head import load_domain_classifier

        try:
            return await load_domain_classifier(encoders)
        except EncoderError as error:
            log.warning("semantic: domains are not classified: %s", error)
            return None

    return SemanticService(
        section,
        states,
        encode=encoders.encode,
        load_head=load_head,
        guard=guard,
        cache=cache,
        profiles=ToolProfileCache(encoders, home=home),
        metrics=metrics,
    )


async def _no_head() -> DomainClassifier | None:
    return None


class SemanticService(Component):
    """The semantic layer of a gateway. Nothing answers before `start`."""

    name = "semantic"

    def __init__(
        self,
        section: SemanticConfig,
        states: ModelStates,
        encode: Encode | None = None,
        load_head: Callable[[], Awaitable[DomainClassifier | None]] = _no_head,
        guard: GuardHook | None = None,
        cache: CacheDefault | None = None,
        profiles: ToolProfileCache | None = None,
        metrics: MetricsRegistry | None = None,
    ) -> None:
        """Build the service; signals without `encode` and heads are empty, and without `profiles` no tools
        are selected."""
        self.snapshots = SnapshotStore(section, encode, load_head, profiles)
        self.feedback = ScoreFeedback(section.feedback)
        reader = SignalReader(encode, guard)

        def current() -> SemanticSnapshot:
            return self.snapshots.current

        self.detect = Detect(current, reader, cache)
        self.middleware = Semantic(
            current, reader, states, self.feedback, DecisionMetrics(metrics or MetricsRegistry())
        )
        self.tryout = RulesTryout(reader, states, self.feedback)
        self._lists = None if profiles is None else ClientToolIndexes(profiles)
        self.tools = ToolSelection(current, encode, self._lists)
        """Selects tools after `middleware`, which changes the model's input."""
        self._watch = section.watch
        self._watching: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Compile the configuration, and watch its file. Raises ConfigError."""
        watching = [asyncio.create_task(watch_files(self.snapshots))] if self._watch else []
        try:
            await self.snapshots.load_initial()
        except BaseException:
            await cancel_tasks(watching)
            raise
        self._watching = watching

    async def stop(self) -> None:
        """Watch no more, and let go of what reads clients' tools."""
        await cancel_tasks(self._watching)
        if self._lists is not None:
            await self._lists.cancel_builds()

    def describe(self) -> dict[str, Any]:
        """See `Component`: which configuration is in force."""
        return self.snapshots.describe()
