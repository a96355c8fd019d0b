"""Where the rooms meet: builds a gateway from its configuration and serves it as one ASGI application."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from fastapi import Depends, FastAPI
from fastapi import Request as HttpRequest
from fastapi import Response as HttpResponse
from starlette.exceptions import HTTPException

from radixway import __version__
from radixway.config import Config, ConfigError, radixway_home
from radixway.erasure import Erasure, PendingErasures
from radixway.guard.audit import build_audit
from radixway.pipeline import (
    AbortedRequests,
    Erasable,
    InHand,
    Middleware,
    Pipeline,
    Services,
    load_middlewares,
)
from radixway.routing import (
    BreakerState,
    ErasablePrompts,
    HealthMonitor,
    KvEventsState,
    ModelTokenizers,
    PromptReader,
    Registry,
    Reservations,
    Selector,
    Tokenizers,
    WeightVersions,
    WorkersOfModel,
    WorkerState,
    state_of_model,
)
from radixway.routing.kv_events import KvEventCounts, KvEvents
from radixway.scale import LoadSync, build_load_sync
from radixway.surfaces import (
    AgentCalls,
    AgentExchange,
    AgentRoad,
    ChatCompletions,
    Completions,
    ErasableJournals,
    ErasableSessions,
    Exchange,
    Fleet,
    Gate,
    Generate,
    SessionKeeper,
    Surface,
    admin_routes,
    affinity_routes,
    count_routes,
    erasure_routes,
    fleet_routes,
    model_routes,
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
from radixway.surfaces.chats import Chats, is_for_chats
from radixway.surfaces.classification import LazyRoom, classification_routes
from radixway.telemetry import JournalBook, Metrics
from radixway.tenants import build_tenants
from radixway.trajectories import RadixTreeMiddleware, ResumeAborted
from radixway.transports import (
    Dispatch,
    ErasableWorkers,
    FanOut,
    HttpProbe,
    HttpTokenize,
    HttpTransport,
    Tap,
    Traffic,
    WorkerCalls,
)
from radixway.understanding import Understanding, is_guarded
from radixway.web import HttpError, Receive, Scope, Send, Via, limited

if TYPE_CHECKING:
    from radixway.semantic_cache import CacheRoom
    from radixway.surfaces.extproc import EnvoyDoor

HOT_PATHS: dict[str, Callable[[], Surface]] = {
    "/v1/chat/completions": ChatCompletions,
    "/v1/completions": Completions,
    "/generate": Generate,
}
"""Served raw; every other path is FastAPI's."""

_OPENNESS = {BreakerState.CLOSED: 0.0, BreakerState.HALF_OPEN: 0.5, BreakerState.OPEN: 1.0}
"""Circuit breakers in numbers, for `/metrics`."""


class Gateway:
    """The ASGI application. It answers while `running()` holds, inside one event loop."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.registry = Registry()
        self.metrics = Metrics()
        self.kv_event_counts = KvEventCounts()
        self.journals = JournalBook(config.telemetry.journal_capacity)
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
        self.tenants = build_tenants(config.tenants, self.metrics)
        """While anything is configured of them."""
        self.audit = build_audit(
            config.guard.audit,
            self.metrics,
            guard_is_on=is_guarded(config) or "audit" in config.guard.model_fields_set,
        )
        """While the guard is on: what it did."""
        self._gate = Gate(config.gateway, self.tenants)
        self._via = Via()
        self._hot: dict[str, Exchange] = {}
        memory = None if self.recorder is None else self.recorder.tries.memory
        self.sessions = SessionKeeper(config.trajectories, self.tokenizer_of, memory=memory)
        self._agents: AgentCalls | None = None
        self.envoy_door: EnvoyDoor | None = None
        """While it runs, and if it is open."""
        self.chats: Chats | None = None
        """While it runs, and unless they are switched off."""
        self.load_sync: LoadSync | None = None
        """While it runs, and if there are to be several gateways."""
        self._rest = FastAPI(
            title="Radixway",
            version=__version__,
            redirect_slashes=False,
            dependencies=[Depends(self._refuse_loops), Depends(self._gate)],
        )
        self._rest.add_exception_handler(HttpError, _error_response)
        self._rest.add_exception_handler(HTTPException, _http_error_response)
        self._rest.add_exception_handler(Exception, _defect_response)
        self.cache: CacheRoom | None = None
        """While it runs, and if answers are to be used again."""
        self._publish_loads()
        self.router = Router(config, self.registry, self._rest)
        """What middlewares of Starlette's kind see of the gateway."""
        if self.recorder is not None:
            self.router.radix_tree = self.recorder.tries
        self._app = wrap(
            self._answer, config.pipeline.middlewares, self.router, config.gateway.max_body_bytes
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            exchange = self._hot.get(scope["path"])
            if exchange is None and self._agents is not None:
                exchange = self._agents.find(scope)
            if exchange is not None:
                await exchange(scope, receive, send)
                return
            receive = limited(receive, self.config.gateway.max_body_bytes)
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
        semantic, cache = reading.semantic, reading.cache
        self.cache = cache
        transport = HttpTransport(self._via)  # from here on there is something to close
        probe = HttpProbe(transport.session, config.routing.health.timeout_s)
        self.registry.on_remove.append(transport.forget)
        weights = WeightVersions(self.registry, config.routing.weights)
        health = HealthMonitor(self.registry, probe, config.routing.health, weights)
        health.on_silence.append(transport.break_stuck)
        self.registry.on_add.append(selector.enroll)
        kv_events = self.kv_events = KvEvents(
            self.registry, selector.index, config.routing.block_size, self.kv_event_counts
        )
        self.registry.on_remove.append(selector.forget)
        prompts = PromptReader(
            config.routing,
            self.tokenizers,
            HttpTokenize(transport.session, config.routing.tokenize.ask_timeout_s),
            clock=selector.ledger.clock,
            on_fallback=self.metrics.prompt_as_text,
        )
        self.registry.on_remove.append(prompts.forget)
        dispatch = Dispatch(
            self.registry, selector, prompts, transport, health, self.metrics, config.routing, weights
        )
        worker_calls = WorkerCalls(self.registry, transport, self.tokenizers)
        tenants = self.tenants
        middlewares = [*self._middlewares]
        resume = ResumeAborted(config.trajectories.abort, self.aborted, worker_calls)

        if self.recorder is not None:
            middlewares.insert(middlewares.index(self.recorder) + 1, resume)
        if tenants is None:
            limits: list[Middleware] = []
            middlewares[:0] = reading.middlewares()
        else:
            limits = tenants.middlewares(reading.is_auto, reading.pricing_of)
            middlewares[:0] = [limits[0], *reading.middlewares(), *limits[1:]]
        audited: list[Middleware] = [] if self.audit is None else self.audit.middlewares()
        middlewares[:0] = audited
        tap = Tap(dispatch, self.registry, prompts, self.traffic)
        pipeline = Pipeline(middlewares, tap)
        callers, access = self._gate.callers, self._gate.access
        in_hand = InHand()
        for path, surface in HOT_PATHS.items():
            self._hot[path] = Exchange(
                surface(),
                pipeline,
                self.metrics,
                self.journals,
                self._via,
                callers,
                in_hand,
                max_body_bytes=config.gateway.max_body_bytes,
                timeout_s=config.gateway.request_timeout_s,
            )
        # Sessions keep their own record, and their answers are always resumed.
        others = [middleware for middleware in self._middlewares if middleware is not self.recorder]
        to_workers = Pipeline([*reading.behind_agents(), *limits, resume, *others], tap)
        doors: list[Middleware] = [] if tenants is None else [tenants.door()]
        around = [*audited, *doors, *reading.agents_middlewares()]
        session_header = (
            config.routing.session.headers[0] if config.routing.session.headers else "x-session-id"
        )
        self._agents = AgentCalls(
            lambda wire: AgentExchange(
                wire,
                Pipeline(
                    around,
                    AgentRoad(
                        wire,
                        self.sessions,
                        to_workers,
                        session_header.encode("ascii"),
                        reading.guard_of_parts,
                    ),
                ),
                self.metrics,
                self.journals,
                self._via,
                callers,
                in_hand,
                max_body_bytes=config.gateway.max_body_bytes,
                timeout_s=config.gateway.request_timeout_s,
            )
        )
        self.load_sync = sync = build_load_sync(config, self.registry, selector.ledger, self.metrics)
        reports: dict[str, Callable[[], Any]] = {"weights": weights.describe} | reading.reports()
        if sync is not None:
            reports["load_sync"] = sync.describe
        if tenants is not None:
            reports["tenants"] = tenants.describe
        if self.audit is not None:
            reports["audit"] = self.audit.describe
        fan_out = FanOut(transport, config.routing.weights.update_timeout_s)
        erasure = Erasure(
            self._erasables(selector),
            PendingErasures(radixway_home() / "erasures"),
            workers=ErasableWorkers(self.registry, fan_out),
            note=None if self.audit is None else self.audit.log.note,
        )
        reports["erasure"] = erasure.describe
        self._rest.include_router(erasure_routes(erasure, access))
        self._rest.include_router(
            admin_routes(
                self.registry, self.metrics, self.journals, reports, self.router.cache_stats, self._gate
            )
        )
        self._rest.include_router(model_routes(self.registry, reading.model_names, self._gate.tenancy_of))
        self._rest.include_router(worker_routes(self.registry, health, self._gate.workers_access))
        self._rest.include_router(sglang_routes(self.registry, transport))
        fleet = Fleet(self.registry, fan_out, weights, in_hand, self.aborted)
        self._rest.include_router(fleet_routes(fleet, access))
        self._rest.include_router(affinity_routes(selector))
        tries = self.recorder.tries if self.recorder is not None else None
        self._rest.include_router(trajectory_routes(tries, self.tokenizer_of))
        self._rest.include_router(session_routes(self.sessions, access))
        self._rest.include_router(count_routes(self.sessions, self._gate))
        reservations = Reservations(
            config.routing.reservation_ttl_s, config.routing.most_reservations, selector.ledger.clock
        )
        self._rest.include_router(selector_routes(self.registry, selector, prompts, reservations, access))
        self._rest.include_router(traffic_routes(self.traffic, access))
        self._rest.include_router(usage_routes(tenants, self._gate.confined_to))
        if cache is not None:
            from radixway.surfaces.semantic_cache import cache_routes

            self._rest.include_router(cache_routes(cache, self.journals, self._gate))
        classification = LazyRoom(config, states, reading.encoders, semantic, reading.guards)
        for router in classification_routes(classification, semantic, access, self.metrics):
            self._rest.include_router(router)
        if semantic is not None:
            self._rest.include_router(semantic_routes(semantic, self._gate))
        early = [worker.given for worker in self.registry]  # added by a middleware when it was built
        for section in (*early, *config.workers):
            self.registry.add(section)
        for section in reading.workers():
            if self.registry.get(section.url) is None:
                self.registry.add(section)
        if config.chat.enabled:
            self.chats = Chats(config.chat, self.registry, pipeline)
        await self.sessions.open()
        try:
            async with (
                self.audit.running() if self.audit is not None else nullcontext(),
                sync.running() if sync is not None else nullcontext(),
                tenants.running() if tenants is not None else nullcontext(),
                reading.running(),
                erasure.running(),
                self._open_to_envoy(),
                self.chats.running() if self.chats is not None else nullcontext(),
            ):
                yield
        finally:
            reservations.close()
            await classification.aclose()
            prompts.close()
            await worker_calls.close()
            await self.sessions.close()
            await health.close()
            await kv_events.close()
            await transport.close()

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

    def _erasables(self, selector: Selector) -> list[Erasable]:
        """What keeps something of people."""
        journals = ErasableJournals(self.journals)
        rooms: list[Erasable] = [ErasableSessions(self.sessions)]
        if self.cache is not None:
            from radixway.semantic_cache import ErasableCache

            tenancies = {} if self.tenants is None else self.tenants.tenancies

            def namespace_of(tenant: str) -> str:
                known = tenancies.get(tenant)
                return tenant if known is None else known.cache_namespace or tenant

            rooms.append(ErasableCache(self.cache, namespace_of, journals.entry_of))
        if self.recorder is not None:
            rooms.append(self.recorder.tries.owners)
        if self.audit is not None:
            rooms.append(self.audit)
        return [*rooms, ErasablePrompts(selector, self.tokenizers.cache), journals]

    def stopping(self) -> None:
        """The server has been asked to stop: end the answers that would go on for ever."""
        self.traffic.close()
        if self.envoy_door is not None:
            self.envoy_door.begin_to_stop()

    def _refuse_loops(self, request: HttpRequest) -> None:
        self._via.check(request.scope)

    def _publish_loads(self) -> None:
        workers = self.registry
        gauge = self.metrics.gauge
        gauge("radixway_workers_ready", "Workers that can answer", lambda: len(workers.candidates(None)))
        gauge("radixway_workers", "Workers known", lambda: len(workers))
        gauge(
            "radixway_workers_stale",
            "Workers that wait for weights",
            lambda: sum(worker.state is WorkerState.STALE for worker in workers),
        )
        gauge(
            "radixway_in_flight",
            "Requests at workers now",
            lambda: sum(worker.load.requests for worker in workers),
        )
        self.metrics.gauges(
            "radixway_breaker",
            "Circuit breakers: 0 closed, 0.5 half-open, 1 open",
            "worker",
            lambda: [(worker.name, _OPENNESS[worker.breaker.state(time.monotonic())]) for worker in workers],
        )
        self.metrics.gauges(
            "inference_active_workers",
            "Workers that are connected to fetch chats' jobs",
            "model",
            lambda: [] if self.chats is None else self.chats.pulling(),
        )
        counts = self.kv_event_counts
        self.metrics.counters("radixway_kv_events", "KV events heard from workers", "kind", counts.events)
        self.metrics.counters(
            "radixway_kv_event_incidents", "What befell the streams of KV events", "kind", counts.incidents
        )
        self.metrics.gauges(
            "radixway_kv_event_workers",
            "Workers by the state of their KV events",
            "state",
            lambda: [
                (state.value, sum(worker.kv_events.state is state for worker in workers))
                for state in KvEventsState
            ],
        )


async def _error_response(_: HttpRequest, error: Exception) -> HttpResponse:
    assert isinstance(error, HttpError)
    headers = {name.decode("ascii"): value.decode("ascii") for name, value in error.headers()}
    return HttpResponse(error.body(), error.status, headers)


async def _http_error_response(request: HttpRequest, error: Exception) -> HttpResponse:
    """Starlette's own 404 and 405, in the shape of our errors."""
    assert isinstance(error, HTTPException)
    message = f"{error.detail}: {request.method} {request.url.path}"
    code = "not_found" if error.status_code == 404 else "invalid_request"
    return await _error_response(request, HttpError(message, status=error.status_code, code=code))


async def _defect_response(request: HttpRequest, error: Exception) -> HttpResponse:
    """A defect of ours; Starlette logs it."""
    return await _error_response(request, HttpError(f"internal error ({type(error).__name__})"))
