"""Where the rooms meet: builds a gateway from its configuration and serves it as one ASGI application."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi import Request as HttpRequest
from starlette.middleware.cors import CORSMiddleware

from radixway import __version__
from radixway.chat.metrics import AnswerMetrics
from radixway.config import Config, ConfigError
from radixway.erasure import Erasure
from radixway.forgetting import Keepers
from radixway.gauges import publish_kv_events, publish_reports, publish_server, publish_workers
from radixway.guard.audit import build_audit
from radixway.hot_paths import HOT_PATHS, Along, HotPaths
from radixway.pipeline import (
    AbortedRequests,
    InHand,
    Services,
    load_middlewares,
)
from radixway.road import Road
from radixway.routing import (
    API,
    CONFIG,
    DefaultModel,
    Found,
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
    Discovery,
    LoadSync,
    LoadTransport,
    Registrations,
    Source,
    build_discovery,
    build_forwarding,
    build_load_sync,
    is_sealed,
    warn_of_unshared,
)
from radixway.scale.planner import PlannerRoom, plan_routes
from radixway.seeing import Seeing
from radixway.surfaces import (
    Fleet,
    Gate,
    SessionKeeper,
    admin_routes,
    affinity_routes,
    count_routes,
    describe_raw,
    erasure_routes,
    fleet_routes,
    model_routes,
    registration_routes,
    rehearsal_routes,
    selector_routes,
    semantic_routes,
    session_routes,
    sglang_routes,
    traffic_routes,
    trajectory_routes,
    usage_routes,
    worker_routes,
)
from radixway.surfaces.asgi_middlewares import Router, wrap
from radixway.surfaces.chats import Chats, Screening, closed_routes, is_for_chats
from radixway.surfaces.classification import LazyRoom, classification_routes
from radixway.surfaces.console import ConsoleDoor, open_console
from radixway.surfaces.errors import add_error_handlers
from radixway.surfaces.exchange import CARRIER
from radixway.surfaces.rim import Rim
from radixway.surfaces.telling import ToldRoad
from radixway.telemetry import JournalBook, Metrics
from radixway.telemetry.tracing import build_tracing
from radixway.tenants import build_tenants
from radixway.trajectories import RadixTreeMiddleware
from radixway.transports import ErasableWorkers, Traffic
from radixway.understanding import Understanding, is_guarded
from radixway.web import (
    App,
    AppServer,
    HttpError,
    Receive,
    Scope,
    Send,
    ServerCounts,
    ServerLimits,
    Via,
    join,
    limited,
    send_error,
)

if TYPE_CHECKING:
    from radixway.semantic_cache import CacheRoom
    from radixway.surfaces.extproc import EnvoyDoor


_EXPOSED_HEADERS = ("retry-after", "x-radixway-worker", "x-request-id")
"""Of answers, for scripts of pages at `gateway.cors_origins`."""


class Gateway:
    """The ASGI application. It answers while `running()` holds, inside one event loop."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.registry = Registry()
        self.membership = Membership(self.registry)
        self.sources: list[Source] = []
        """Of workers, beside those configured; followed while it runs."""
        self.metrics = Metrics()
        self.kv_event_counts = KvEventCounts()
        self.journals = journals = JournalBook(config.telemetry.journal_capacity)
        self.metrics.gauge(
            "radixway_journal_bytes",
            "Bytes of the journals of the latest requests",
            lambda: journals.size_bytes,
        )
        self.tracing = build_tracing(config.telemetry.tracing, self.metrics)
        """While traces are kept."""
        self.traffic = Traffic()
        self.aborted = AbortedRequests()
        """Told of every `/abort_request`: what clients end on purpose is not resumed."""
        self.tokenizers = Tokenizers(config.routing)
        self.tokenizer_of = ModelTokenizers(self.registry, self.tokenizers, config.trajectories.tokenizer)
        services = Services(config=config, metrics=self.metrics, tokenizer_of=self.tokenizer_of)
        self._middlewares = load_middlewares(config.pipeline.middlewares, services)
        self.recorder = next((m for m in self._middlewares if isinstance(m, RadixTreeMiddleware)), None)
        """Records trajectories, if it is to be."""
        if self.recorder is None and config.trajectories.enabled:
            self.recorder = RadixTreeMiddleware(services)
            self._middlewares.insert(0, self.recorder)
        self.tenants = build_tenants(config.tenants, self.metrics, config.scale.limits)
        """While anything is configured of them."""
        guard_is_on = is_guarded(config) or "audit" in config.guard.model_fields_set
        self.audit = build_audit(config.guard.audit, self.metrics, guard_is_on=guard_is_on)
        """While the guard is on: what it did."""
        hosts = (*config.gateway.hosts, *config.console.hosts)
        self._console = config.console.model_copy(update={"hosts": hosts})
        self._gate = Gate(config.gateway, self.tenants, hosts)
        self._via = Via()
        self._in_hand = InHand()
        self._hot: HotPaths | None = None
        memory = None if self.recorder is None else self.recorder.tries.memory
        self.sessions = SessionKeeper(config.trajectories, self.tokenizer_of, memory=memory)
        self.envoy_door: EnvoyDoor | None = None
        """While it runs, and if it is open."""
        self.console: ConsoleDoor | None = None
        """While it runs, and unless it is switched off."""
        self.chats: Chats | None = None
        """While it runs, and unless they are switched off."""
        self.load_transport: LoadTransport | None = None
        """Carries `scale.sync` where gateways are replicas of a Ray application; set before it runs."""
        self.load_sync: LoadSync | None = None
        """While it runs, and if there are to be several gateways."""
        self.planner: PlannerRoom | None = None
        """While it runs, and if anybody is to count how many workers there should be."""
        self.discovery: Discovery | None = None
        """While it runs."""
        self._rest = FastAPI(
            title="Radixway",
            version=__version__,
            redirect_slashes=False,
            dependencies=[Depends(self._admit)],  # of routes that a middleware adds
        )
        add_error_handlers(self._rest)
        describe_raw(self._rest)
        self.cache: CacheRoom | None = None
        """While it runs, and if answers are to be used again."""
        self._server_counts = ServerCounts()
        publish_server(self.metrics, self._server_counts)
        publish_workers(self.metrics, self.registry)
        publish_reports(self.metrics, self.registry)
        publish_kv_events(self.metrics, self.registry, self.kv_event_counts)
        self._answer_metrics = AnswerMetrics(self.metrics)
        self.router = Router(config, self.registry, self.membership, self._rest)
        """What middlewares of Starlette's kind see of the gateway."""
        if self.recorder is not None:
            self.router.radix_tree = self.recorder.tries
        self._app = wrap(
            self._answer, config.pipeline.middlewares, self.router, config.gateway.max_body_bytes
        )
        records = self.recorder is not None
        self._rim = Rim(self._beside, None if self.audit is None else self.audit.log)
        self._forwarding = build_forwarding(
            config, self._app, self.metrics, self._gate.knows, records=records
        )
        """While there are gateways to which requests may belong."""
        self._entry_app: App = self._forwarding or self._app
        if config.gateway.cors_origins:
            self._entry_app = CORSMiddleware(
                self._entry_app,
                allow_origins=config.gateway.cors_origins,
                allow_methods=["*"],
                allow_headers=["*"],
                expose_headers=_EXPOSED_HEADERS,
            )
        self._unshared = warn_of_unshared(config, records=records)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Envoy has its own say in who asks it; what another gateway passes on was looked at there.
        if CARRIER not in scope and not (self._forwarding is not None and is_sealed(scope)):
            try:
                self._gate.check_origin(scope)
            except HttpError as error:
                await send_error(scope, send, error)
                return
        await self._entry_app(scope, receive, send)

    def make_server(self, listener: socket.socket) -> AppServer:
        """The server that clients reach it by, with the limits of its configuration."""
        return AppServer(
            self,
            listener,
            drain_s=self.config.gateway.drain_s,
            on_stop=self.stopping,
            websockets=True,
            limits=ServerLimits(**self.config.limits.server.model_dump()),
            counts=self._server_counts,
        )

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            exchange = None if self._hot is None else self._hot.find(scope)
            if exchange is not None:
                await exchange(scope, receive, send)
                return
            receive = limited(receive, self.config.gateway.max_body_bytes)
        await self._rim(scope, receive, send)

    async def _beside(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Everything but the hot paths."""
        if self.chats is not None and is_for_chats(scope["path"]):
            await self.chats(scope, receive, send)
            return
        await self._rest(scope, receive, send)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Connect the rooms and watch the workers; at the end, let go of them."""
        config = self.config
        selector = Selector(config.routing)

        def states(model: str) -> WorkersOfModel | None:
            return state_of_model(self.registry, model, selector.ledger.clock())

        recorder = None if self.audit is None else self.audit.log
        reading = Understanding(config, self.metrics, states, self.tokenizer_of, recorder)
        self.cache = reading.cache
        screening = Screening(config, self.metrics, reading.encoders, reading.scan)
        road = Road(  # from here on there is something to close
            config.routing,
            self.registry,
            selector,
            self.tokenizers,
            self.metrics,
            self.kv_event_counts,
            self.traffic,
            self._via,
            config.limits.workers,
        )
        self.kv_events = road.kv_events
        planner = config.scale.planner
        if planner is not None:
            self.planner = PlannerRoom(planner, self.registry, self.metrics, selector.ledger.clock)
            road.end = self.planner.watch(road.end)
        self._hot = self._hot_paths(reading, road)
        self.load_sync = sync = build_load_sync(
            config, self.registry, selector.ledger, self.metrics, self.load_transport
        )
        if sync is not None and self.planner is not None:
            self.planner.gateways = sync.heard_from
        registrations = Registrations(config.discovery.registration, self.membership)
        self.discovery = discovery = build_discovery(
            config, self.membership, self.metrics, [registrations, *self.sources]
        )
        erasure = self._erasure(road)
        self._open_reports(reading, road, erasure, screening)
        self._open_routes(reading, road, registrations)
        tries = None if self.recorder is None else self.recorder.tries
        self.seeing = Seeing(config, self.registry, self.journals, tries, reading, road, self._gate)
        self._serve(*self.seeing.routes)
        classification = LazyRoom(config, states, reading.encoders, reading.semantic, reading.guards)
        self._serve(
            *classification_routes(classification, reading.semantic, self._gate.access, self.metrics),
        )
        self._add_workers(reading)
        if config.chat.enabled:
            queue = config.routing.queue
            least = queue.most_priority if queue.lower_priority_first else -queue.most_priority
            self.chats = Chats(
                config.chat,
                self.registry,
                ToldRoad(self._hot.pipeline, self.tracing, "chats"),
                erasure,
                screening,
                self._answer_metrics,
                least_priority=least,
                tenants=self.tenants,
                named=reading.model_names,
                access=self._gate.access,
            )
        else:
            self._serve(closed_routes())
        await self.sessions.open()
        try:
            async with (
                self.metrics.running(),
                self.tracing.running() if self.tracing is not None else nullcontext(),
                self.audit.running() if self.audit is not None else nullcontext(),
                sync.running() if sync is not None else nullcontext(),
                self._forwarding.running() if self._forwarding is not None else nullcontext(),
                self.planner.running() if self.planner is not None else nullcontext(),
                self.tenants.running() if self.tenants is not None else nullcontext(),
                reading.running(),
                discovery.running(),
                self.seeing.running(),
                erasure.running(),
                self._open_to_envoy(),
                open_console(self._console, self, self._rest, self._gate) as self.console,
                self.chats.running() if self.chats is not None else nullcontext(),
            ):
                yield
        finally:
            await classification.aclose()
            await self.sessions.close()
            await road.aclose()

    def _hot_paths(self, reading: Understanding, road: Road) -> HotPaths:
        along = Along(
            middlewares=self._middlewares,
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
            reading,
            road,
            book=self.journals,
            via=self._via,
            callers=self._gate.callers,
            in_hand=self._in_hand,
            default_model=DefaultModel(self.registry, reading.default_model, reading.is_auto),
            tracing=self.tracing,
        )

    def _open_reports(
        self, reading: Understanding, road: Road, erasure: Erasure, screening: Screening
    ) -> None:
        """How the gateway is, and what an administrator may have it forget."""
        reports: dict[str, Callable[[], Any]] = {"weights": road.weights.describe} | reading.reports()
        if self.load_sync is not None:
            reports["load_sync"] = self.load_sync.describe
        if self._forwarding is not None:
            reports["gateways"] = self._forwarding.describe
        if self.tracing is not None:
            reports["tracing"] = self.tracing.describe
        if self._unshared:
            reports["unshared"] = lambda: self._unshared
        if self.tenants is not None:
            reports["tenants"] = self.tenants.describe
        if self.audit is not None:
            reports["audit"] = self.audit.describe
        if self.discovery is not None:
            reports["discovery"] = self.discovery.describe
        reports |= screening.reports()
        reports["erasure"] = erasure.describe
        reports["chats"] = lambda: None if self.chats is None else self.chats.describe()
        admin = admin_routes(self.registry, self.metrics, reports, self.router.cache_stats, self._gate)
        self._serve(erasure_routes(erasure, self._gate.access), admin)

    def _open_routes(self, reading: Understanding, road: Road, registrations: Registrations) -> None:
        """What FastAPI serves."""
        gate, registry = self._gate, self.registry
        fleet = Fleet(registry, road.fan_out, road.weights, self._in_hand, self.aborted)
        self._serve(
            model_routes(registry, reading.model_names, gate.tenancy_of),
            worker_routes(registry, self.membership, road.health, gate.workers_access),
            registration_routes(registry, registrations, road.health, gate.workers_access),
            sglang_routes(registry, road.transport),
            fleet_routes(fleet, gate.access),
            affinity_routes(road.selector),
            trajectory_routes(None if self.recorder is None else self.recorder.tries, self.tokenizer_of),
            session_routes(self.sessions, gate.access),
            count_routes(self.sessions, gate),
            selector_routes(registry, road.selector, road.prompts, road.reservations, gate.access),
            traffic_routes(self.traffic, gate.access),
            usage_routes(self.tenants, gate.confined_to),
            plan_routes(self.planner),
            semantic_routes(reading.semantic, self.journals, gate, self.audit),
            rehearsal_routes(reading.middlewares(), registry, road, gate.access),
        )
        if reading.cache is not None:
            from radixway.surfaces.semantic_cache import cache_routes

            self._serve(cache_routes(reading.cache, self.journals, gate))

    def _add_workers(self, reading: Understanding) -> None:
        """Those configured, those that a middleware added when it was built, and those of other sections."""
        members = self.membership
        for section in [worker.given for worker in self.registry]:
            members.join(API, section)  # again, for whoever listens now
        members.tell(CONFIG, map(Found, self.config.workers))
        others = [section for section in reading.workers() if self.registry.get(section.url) is None]
        members.tell("semantic", map(Found, others))

    @asynccontextmanager
    async def _open_to_envoy(self) -> AsyncIterator[None]:
        """The same road by another door, where it is to be open."""
        config = self.config
        if not config.ext_proc.enabled:
            yield
            return
        try:
            from radixway.surfaces.extproc import open_door
        except ImportError as error:
            raise ConfigError(f"ext_proc needs radixway[envoy]: {error}") from None
        self.envoy_door = door = open_door(config, self, HOT_PATHS, self._via.value)
        async with door.running():
            yield

    def _erasure(self, road: Road) -> Erasure:
        """What an administrator's one call removes, here and at the workers."""
        keepers = Keepers(
            journals=self.journals,
            sessions=self.sessions,
            chats=(lambda: self.chats) if self.config.chat.enabled else None,
            cache=self.cache,
            tenants=self.tenants,
            recorder=self.recorder,
            audit=self.audit,
            selector=road.selector,
            tokenizers=self.tokenizers,
        )
        return keepers.erasure(ErasableWorkers(self.registry, road.fan_out))

    def warm_up(self) -> None:
        """Prepare in the background for first calls that would take seconds. Called once a server listens."""
        if self.chats is not None:
            self.chats.warm_up()

    def stopping(self) -> None:
        """The server has been asked to stop: end the answers that would go on for ever."""
        self.traffic.close()
        if self.envoy_door is not None:
            self.envoy_door.begin_to_stop()

    def _serve(self, *routers: APIRouter) -> None:
        join(self._rest.router, *routers, guard=lambda scope: self._admit(HttpRequest(scope)))

    def _admit(self, request: HttpRequest) -> None:
        """A FastAPI dependency, too. Raises LoopDetected, Unauthorized, Forbidden."""
        self._via.check(request.scope)
        self._gate(request)
