"""The parts of a gateway beneath its HTTP interface: built from a configuration, not started."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from radixway.api import PathAuthorization, SessionService
from radixway.api.chats import ChatSafetyScreening, ChatsApplication
from radixway.api.classification import LazyClassificationService
from radixway.api.native_surfaces import ResponseRouter
from radixway.api.request_log import TracedPipeline
from radixway.api.worker_files import FileOwnerStore, FilePlacement, ResponsePlacement, WorkerFiles
from radixway.chat.answer_metrics import AnswerMetrics
from radixway.cluster import (
    ConfiguredWorkers,
    DiscoverySource,
    LoadTransport,
    WorkerRegistrations,
    build_discovery,
    build_load_sync,
    warn_unshared_state,
)
from radixway.cluster.planner import PlannerService
from radixway.core.component import Component
from radixway.core.config import Config, radixway_home
from radixway.core.erasure import ErasureService, PendingErasureStore
from radixway.core.http import LoopGuard
from radixway.core.pipeline import AbortedRequests, InFlightRequests, Services, load_middlewares
from radixway.core.renamed_modules import find_renamed_module
from radixway.core.telemetry import EventLoopLag, JournalStore, MetricsRegistry
from radixway.core.telemetry.tracing import build_tracing
from radixway.core.tenants import build_tenant_service
from radixway.core.tenants.account import LimitsBackend
from radixway.gateway.inference_routes import InferenceRoutes
from radixway.gateway.semantics_builder import SemanticsBuilder, is_guarded
from radixway.gateway.upstream_stack import UpstreamStack
from radixway.routing import (
    DefaultModelResolver,
    FleetMembership,
    ModelTokenizerLookup,
    ModelWorkers,
    Selector,
    TokenizerRegistry,
    WorkerRegistry,
    find_model_state,
)
from radixway.routing.kv_events import KvEventCounts
from radixway.routing.simulator import SimulationJobQueue
from radixway.routing.transports import TrafficFeed
from radixway.semantics.guard.audit import build_audit
from radixway.trajectories import RadixTreeMiddleware

if TYPE_CHECKING:
    from radixway.api.keys.store.access_service import AccessService
    from radixway.gateway.processes.process_group import ProcessGroup

log = logging.getLogger(__name__)


class GatewayParts:
    """The parts of a gateway, each built from those above it. None: not configured."""

    def __init__(
        self,
        config: Config,
        sources: Sequence[DiscoverySource],
        load_transport: LoadTransport | None,
        processes: ProcessGroup | None = None,
        limits: LimitsBackend | None = None,
    ) -> None:
        """`sources`: of workers, beside those configured. `load_transport`: carries `scale.sync` where
        gateways are replicas of a Ray application. `processes`: of which this is one; `limits`: judges
        tenants' requests for all of them.

        Raises ConfigError.
        """
        self.processes, given = processes, config
        if processes is not None:
            config = processes.own_config(config)
        self.config = config
        # What is measured and recorded of requests.
        self.metrics = MetricsRegistry()
        self.event_loop_lag = EventLoopLag(self.metrics)
        self.journals = JournalStore(config.telemetry.journal_capacity)
        self.tracing = build_tracing(config.telemetry.tracing, self.metrics)
        self.traffic = TrafficFeed(None if processes is None else processes.traffic_key())
        self.answer_metrics = AnswerMetrics(self.metrics)
        self.kv_event_counts = KvEventCounts()
        # The workers, and what is recorded of their answers.
        self.registry = WorkerRegistry()
        self.membership = FleetMembership(self.registry)
        self.tokenizers = TokenizerRegistry(config.routing)
        self.tokenizer_of = ModelTokenizerLookup(
            self.registry, self.tokenizers, config.trajectories.tokenizer
        )
        services = Services(config=config, metrics=self.metrics, tokenizer_of=self.tokenizer_of)
        _log_renamed_paths(config.pipeline.middlewares)
        self.middlewares = load_middlewares(config.pipeline.middlewares, services)
        self.recorder = next((m for m in self.middlewares if isinstance(m, RadixTreeMiddleware)), None)
        if self.recorder is None and config.trajectories.enabled:
            self.recorder = RadixTreeMiddleware(services)
            self.middlewares.insert(0, self.recorder)
        self.tries = None if self.recorder is None else self.recorder.tries
        memory = None if self.tries is None else self.tries.memory
        owns = (lambda _: True) if processes is None else processes.owns_session
        self.sessions = SessionService(config.trajectories, self.tokenizer_of, memory=memory, owns=owns)
        # Who may call what, and the audit log.
        self.tenants = build_tenant_service(
            config.tenants,
            self.metrics,
            config.scale.limits,
            limits,
            reads_usage_file=processes is not None,
            has_store=config.keys.is_on(radixway_home(), has_admin_key=config.gateway.admin_key is not None),
        )
        self.access = self._build_access()
        self.hosts = (*config.gateway.hosts, *config.console.hosts)
        self.authorization = PathAuthorization(config.gateway, self.tenants, self.hosts)
        guard_is_on = is_guarded(config) or "audit" in config.guard.model_fields_set
        self.audit = build_audit(config.guard.audit, self.metrics, guard_is_on=guard_is_on)
        self.audit_log = None if self.audit is None else self.audit.log
        # What takes a request to its worker, and what reads its texts before.
        self.via = LoopGuard()
        self.in_hand = InFlightRequests()
        self.aborted = AbortedRequests()
        self.selector = Selector(config.routing)
        self.upstream = UpstreamStack(
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
        self.kv_events = self.upstream.kv_events
        self.semantics = SemanticsBuilder(
            config, self.metrics, self._state_of, self.tokenizer_of, self.audit_log
        )
        self.cache = self.semantics.cache
        if self.cache is not None:
            self.cache.entry_of = self.journals.cache_entry_of
            if self.tenants is not None:
                self.cache.namespace_of = self.tenants.namespace_of
        # Other gateways, and how many workers there should be.
        ledger = self.selector.ledger
        self.load_sync = build_load_sync(
            config,
            self.registry,
            ledger,
            self.metrics,
            load_transport,
            None if processes is None else processes.make_load_transport(given),
        )
        self.planner: PlannerService | None = None
        if config.scale.planner is not None:
            self.planner = PlannerService(config.scale.planner, self.registry, self.metrics, ledger.clock)
            self.upstream.dispatch = self.planner.observe_dispatch(self.upstream.dispatch)
            if self.load_sync is not None:
                self.planner.gateways = self.load_sync.known_peers
        self.unshared = warn_unshared_state(
            given, records=self.recorder is not None, processes=1 if processes is None else processes.count
        )
        # Where workers come from.
        self.configured_workers = ConfiguredWorkers(
            self.registry, self.membership, config.workers, self.semantics.configured_workers
        )
        self.registrations = WorkerRegistrations(config.discovery.registration, self.membership)
        self.discovery = build_discovery(
            config, self.membership, self.metrics, [self.registrations, *sources]
        )
        # What is served.
        self.models = DefaultModelResolver(
            self.registry,
            self.semantics.default_model,
            self.semantics.is_auto,
            config.routing.model_aliases,
            config.routing.session,
        )
        self.files = WorkerFiles(
            self.registry,
            self.upstream.transport,
            self.upstream.surfaces,
            FileOwnerStore(radixway_home() / "files.sqlite"),
            timeout_s=config.gateway.request_timeout_s,
            max_answer_bytes=config.limits.workers.max_answer_bytes,
        )
        self.inference = InferenceRoutes(
            config,
            self.metrics,
            self.semantics,
            self.upstream,
            middlewares=self.middlewares,
            recorder=self.recorder,
            tenants=self.tenants,
            audit=self.audit,
            aborted=self.aborted,
            sessions=self.sessions,
            placements=(FilePlacement(self.files, self.models), ResponsePlacement(self.files)),
            book=self.journals,
            via=self.via,
            callers=self.authorization.callers,
            in_hand=self.in_hand,
            default_model=self.models,
            tracing=self.tracing,
        )
        safety = config.chat.safety
        self.response_router = ResponseRouter(
            self.inference.responses,
            self.inference.response_tokens,
            self.inference.native,
            self.models,
            self.authorization,
            config.gateway.max_body_bytes,
            has_chats=config.chat.enabled,
            screens=config.chat.enabled and safety.level + sum(safety.models.values()) > 0,
        )
        self.simulations = SimulationJobQueue(config.simulations)
        self.classification = LazyClassificationService(
            config,
            self._state_of,
            self.semantics.encoders,
            self.semantics.semantic,
            self.semantics.build_guards,
        )
        self.components: list[Component] = []
        """Components in starting order."""
        self.erasure = ErasureService(
            self.components,
            PendingErasureStore(radixway_home() / "erasures"),
            workers=self.upstream.fan_out,
            note=None if self.audit_log is None else self.audit_log.record_event,
            mark_requests=self.in_hand.mark_erased,
        )
        self.screening = ChatSafetyScreening(
            config, self.metrics, self.semantics.encoders, self.semantics.build_scanner
        )
        self.chats = self._build_chats() if config.chat.enabled else None

    def _build_access(self) -> AccessService | None:
        if self.tenants is None or not self.tenants.has_store:
            return None
        from radixway.api.keys.store.access_service import build_access_service  # SQLAlchemy takes a while

        return build_access_service(self.config.keys, radixway_home(), self.tenants)

    def _state_of(self, model: str) -> ModelWorkers | None:
        return find_model_state(self.registry, model, self.selector.ledger.clock())

    def _build_chats(self) -> ChatsApplication:
        return ChatsApplication(
            self.config.chat,
            self.registry,
            TracedPipeline(self.inference.pipeline, self.tracing, "chats", self.models),
            TracedPipeline(self.inference.count_response_tokens, self.tracing, "chats", self.models),
            self.erasure,
            self.screening.screen,
            self.answer_metrics,
            least_priority=self.config.routing.queue.least_priority,
            tenants=self.tenants,
            named=self.semantics.model_names,
            access=self.authorization.access,
        )


def _log_renamed_paths(paths: Iterable[str]) -> None:
    """Log each of `paths` that has moved: a served process shows no DeprecationWarning of the import."""
    for path in paths:
        new = find_renamed_module(path)
        if new is not None:
            log.warning("pipeline.middlewares: %s is now %s", path, new)
