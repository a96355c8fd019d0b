"""What a gateway is made of, beneath its HTTP interface: built from a configuration, opened by nobody yet."""

from __future__ import annotations

from collections.abc import Sequence

from radixway.chat.metrics import AnswerMetrics
from radixway.component import Component
from radixway.config import Config, radixway_home
from radixway.erasure import Erasure, PendingErasures
from radixway.guard.audit import build_audit
from radixway.hot_paths import Along, HotPaths
from radixway.pipeline import AbortedRequests, InHand, Services, load_middlewares
from radixway.road import Road
from radixway.routing import (
    DefaultModel,
    Membership,
    ModelTokenizers,
    Registry,
    Selector,
    Tokenizers,
    WorkersOfModel,
    state_of_model,
)
from radixway.routing.kv_events import KvEventCounts
from radixway.scale import (
    ConfiguredWorkers,
    LoadTransport,
    Registrations,
    Source,
    build_discovery,
    build_load_sync,
    warn_of_unshared,
)
from radixway.scale.planner import PlannerRoom
from radixway.simulate import Jobs
from radixway.surfaces import Gate, SessionKeeper
from radixway.surfaces.chats import Chats, Screening
from radixway.surfaces.classification import LazyRoom
from radixway.surfaces.telling import ToldRoad
from radixway.telemetry import JournalBook, Metrics
from radixway.telemetry.tracing import build_tracing
from radixway.tenants import build_tenants
from radixway.trajectories import RadixTreeMiddleware
from radixway.transports import Traffic
from radixway.understanding import Understanding, is_guarded
from radixway.web import Via


class GatewayParts:
    """Each part is built from those above it. What is None is not configured."""

    def __init__(
        self, config: Config, sources: Sequence[Source], load_transport: LoadTransport | None
    ) -> None:
        """`sources`: of workers, beside those configured. `load_transport`: carries `scale.sync` where
        gateways are replicas of a Ray application.

        Raises ConfigError.
        """
        self.config = config
        # What is measured and remembered of requests.
        self.metrics = Metrics()
        self.journals = JournalBook(config.telemetry.journal_capacity)
        self.tracing = build_tracing(config.telemetry.tracing, self.metrics)
        self.traffic = Traffic()
        self.answer_metrics = AnswerMetrics(self.metrics)
        self.kv_event_counts = KvEventCounts()
        # The workers, and what is recorded of their answers.
        self.registry = Registry()
        self.membership = Membership(self.registry)
        self.tokenizers = Tokenizers(config.routing)
        self.tokenizer_of = ModelTokenizers(self.registry, self.tokenizers, config.trajectories.tokenizer)
        services = Services(config=config, metrics=self.metrics, tokenizer_of=self.tokenizer_of)
        self.middlewares = load_middlewares(config.pipeline.middlewares, services)
        self.recorder = next((m for m in self.middlewares if isinstance(m, RadixTreeMiddleware)), None)
        if self.recorder is None and config.trajectories.enabled:
            self.recorder = RadixTreeMiddleware(services)
            self.middlewares.insert(0, self.recorder)
        self.tries = None if self.recorder is None else self.recorder.tries
        memory = None if self.tries is None else self.tries.memory
        self.sessions = SessionKeeper(config.trajectories, self.tokenizer_of, memory=memory)
        # Who may ask for what, and what is written down of it.
        self.tenants = build_tenants(config.tenants, self.metrics, config.scale.limits)
        self.hosts = (*config.gateway.hosts, *config.console.hosts)
        self.gate = Gate(config.gateway, self.tenants, self.hosts)
        guard_is_on = is_guarded(config) or "audit" in config.guard.model_fields_set
        self.audit = build_audit(config.guard.audit, self.metrics, guard_is_on=guard_is_on)
        self.audit_log = None if self.audit is None else self.audit.log
        # The way of a request to its worker, from the end, and what reads it along that way.
        self.via = Via()
        self.in_hand = InHand()
        self.aborted = AbortedRequests()
        self.selector = Selector(config.routing)
        self.road = Road(
            config.routing,
            self.registry,
            self.selector,
            self.tokenizers,
            self.metrics,
            self.kv_event_counts,
            self.traffic,
            self.via,
            config.limits.workers,
        )
        self.kv_events = self.road.kv_events
        self.reading = Understanding(config, self.metrics, self._state_of, self.tokenizer_of, self.audit_log)
        self.cache = self.reading.cache
        if self.cache is not None:
            self.cache.entry_of = self.journals.cache_entry_of
            if self.tenants is not None:
                self.cache.namespace_of = self.tenants.namespace_of
        # Other gateways, and how many workers there should be.
        ledger = self.selector.ledger
        self.load_sync = build_load_sync(config, self.registry, ledger, self.metrics, load_transport)
        self.planner: PlannerRoom | None = None
        if config.scale.planner is not None:
            self.planner = PlannerRoom(config.scale.planner, self.registry, self.metrics, ledger.clock)
            self.road.end = self.planner.watch(self.road.end)
            if self.load_sync is not None:
                self.planner.gateways = self.load_sync.heard_from
        self.unshared = warn_of_unshared(config, records=self.recorder is not None)
        # Where workers come from.
        self.configured_workers = ConfiguredWorkers(
            self.registry, self.membership, config.workers, self.reading.workers
        )
        self.registrations = Registrations(config.discovery.registration, self.membership)
        self.discovery = build_discovery(
            config, self.membership, self.metrics, [self.registrations, *sources]
        )
        # What is served.
        self.hot = self._build_hot_paths()
        self.simulations = Jobs(config.simulations)
        self.classification = LazyRoom(
            config, self._state_of, self.reading.encoders, self.reading.semantic, self.reading.guards
        )
        self.components: list[Component] = []
        """In the order of their start; listed when all are there."""
        self.erasure = Erasure(
            self.components,
            PendingErasures(radixway_home() / "erasures"),
            workers=self.road.fan_out,
            note=None if self.audit_log is None else self.audit_log.note,
        )
        self.screening = Screening(config, self.metrics, self.reading.encoders, self.reading.scan)
        self.chats = self._build_chats() if config.chat.enabled else None

    def _state_of(self, model: str) -> WorkersOfModel | None:
        return state_of_model(self.registry, model, self.selector.ledger.clock())

    def _build_hot_paths(self) -> HotPaths:
        along = Along(
            middlewares=self.middlewares,
            recorder=self.recorder,
            tenants=self.tenants,
            audit=self.audit,
            aborted=self.aborted,
            sessions=self.sessions,
        )
        return HotPaths(
            self.config,
            self.metrics,
            along,
            self.reading,
            self.road,
            book=self.journals,
            via=self.via,
            callers=self.gate.callers,
            in_hand=self.in_hand,
            default_model=DefaultModel(self.registry, self.reading.default_model, self.reading.is_auto),
            tracing=self.tracing,
        )

    def _build_chats(self) -> Chats:
        return Chats(
            self.config.chat,
            self.registry,
            ToldRoad(self.hot.pipeline, self.tracing, "chats"),
            self.erasure,
            self.screening.screen,
            self.answer_metrics,
            least_priority=self.config.routing.queue.least_priority,
            tenants=self.tenants,
            named=self.reading.model_names,
            access=self.gate.access,
        )
