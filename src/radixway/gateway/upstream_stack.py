"""Everything between a request that knows its model and the worker that answers it."""

from radixway.core.component import Component, Subject
from radixway.core.config import RoutingConfig, WorkerLimitsConfig
from radixway.core.http import LoopGuard
from radixway.core.pipeline import Next
from radixway.core.telemetry import MetricsRegistry
from radixway.routing import (
    HealthMonitor,
    LeaseReservations,
    PromptReader,
    Selector,
    TokenizerRegistry,
    WeightVersionTracker,
    WorkerRegistry,
)
from radixway.routing.kv_events import KvEventCounts, KvEventService
from radixway.routing.transports import (
    EngineMetricsPoller,
    FanOut,
    HttpProbe,
    HttpTransport,
    RequestDispatcher,
    SurfaceSelection,
    TrafficFeed,
    TrafficTap,
    WorkerClient,
    WorkerSurfaceReader,
    make_tokenize_call,
)


class UpstreamStack(Component):
    """Follows the workers that come and go, from `start` on, inside one event loop.

    It keeps texts and tokens of prompts to choose workers by. They are not kept by user, so erasing anyone
    empties these caches, which costs only time.
    """

    name = "routing"
    erasable_by = frozenset({"tenant", "user", "session", "request"})

    def __init__(
        self,
        config: RoutingConfig,
        registry: WorkerRegistry,
        selector: Selector,
        tokenizers: TokenizerRegistry,
        metrics: MetricsRegistry,
        kv_event_counts: KvEventCounts,
        traffic: TrafficFeed,
        via: LoopGuard,
        limits: WorkerLimitsConfig,
    ) -> None:
        self.selector = selector
        self.registry = registry
        self._tokens = tokenizers.cache
        self.transport = transport = HttpTransport(via, limits)
        probe = HttpProbe(transport, config.health.timeout_s)
        self.weights = WeightVersionTracker(registry, config.weights)
        self.health = HealthMonitor(registry, probe, config.health, self.weights)
        self.health.on_silence.append(transport.abort_stalled)
        self.kv_events = KvEventService(registry, selector.index, config.block_size, kv_event_counts)
        self.prompts = PromptReader(
            config,
            tokenizers,
            make_tokenize_call(transport, config.tokenize.ask_timeout_s),
            clock=selector.ledger.clock,
            on_fallback=lambda reason: metrics.prompts_as_text(reason).inc(),
        )
        dispatcher = RequestDispatcher(
            registry, selector, self.prompts, transport, self.health, metrics, config, self.weights
        )
        self.dispatch: Next = TrafficTap(dispatcher, registry, self.prompts, traffic)
        """The innermost step of every pipeline; followers of the traffic see what it sends."""
        self.calls = WorkerClient(registry, transport, tokenizers)
        self.surfaces = WorkerSurfaceReader(registry, transport)
        self.surface_selection = SurfaceSelection(registry, self.surfaces)
        self._metrics, self.poll_engines = metrics, EngineMetricsPoller(registry, transport).poll_workers
        self.fan_out = FanOut(registry, transport, config.weights.update_timeout_s)
        self.reservations = LeaseReservations(
            config.reservation_ttl_s, config.most_reservations, selector.ledger.clock
        )

    async def start(self) -> None:
        """Follow the workers that come and go."""
        registry = self.registry
        self.transport.open()
        registry.on_remove.append(self.transport.remove_worker)
        self.health.open()
        registry.on_add.append(self.selector.add_worker)
        self.kv_events.open()  # between the two: a worker has its place in the index while it is followed
        registry.on_remove.append(self.selector.remove_worker)
        registry.on_remove.append(self.prompts.remove_worker)
        self._metrics.before.append(self.poll_engines)

    async def stop(self) -> None:
        """Close the connections to workers."""
        self._metrics.before.remove(self.poll_engines)
        self.reservations.release_all()
        self.prompts.shutdown_threads()
        await self.calls.close()
        await self.surfaces.stop_reading()
        await self.health.stop_probing()
        await self.kv_events.stop_subscriptions()
        await self.transport.close()

    async def erase(self, subject: Subject) -> int:
        """Empty the caches of prompts for any `subject`; return how many entries there were."""
        names = (subject.session, subject.user)
        ended = sum(self.selector.end_session(name) for name in names if name is not None)
        return ended + self.selector.clear_texts() + self._tokens.clear_tokens()
