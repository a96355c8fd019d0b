"""From a request that knows its model to the worker that answers it: all that stands between the two."""

from __future__ import annotations

from radixway.config import RoutingSection, WorkerLimitsSection
from radixway.pipeline import Next
from radixway.routing import (
    HealthMonitor,
    PromptReader,
    Registry,
    Reservations,
    Selector,
    Tokenizers,
    WeightVersions,
)
from radixway.routing.kv_events import KvEventCounts, KvEvents
from radixway.telemetry import Metrics
from radixway.transports import (
    Dispatch,
    FanOut,
    HttpProbe,
    HttpTokenize,
    HttpTransport,
    Tap,
    Traffic,
    WorkerCalls,
    WorkerReports,
)
from radixway.web import Via


class Road:
    """Follows the workers that come and go. Belongs to one event loop, and is to be closed."""

    def __init__(
        self,
        config: RoutingSection,
        registry: Registry,
        selector: Selector,
        tokenizers: Tokenizers,
        metrics: Metrics,
        kv_event_counts: KvEventCounts,
        traffic: Traffic,
        via: Via,
        limits: WorkerLimitsSection,
    ) -> None:
        self.selector = selector
        self.transport = transport = HttpTransport(via, limits)
        registry.on_remove.append(transport.forget)
        probe = HttpProbe(transport.session, config.health.timeout_s)
        self.weights = WeightVersions(registry, config.weights)
        self.health = HealthMonitor(registry, probe, config.health, self.weights)
        self.health.on_silence.append(transport.break_stuck)
        registry.on_add.append(selector.enroll)
        self.kv_events = KvEvents(registry, selector.index, config.block_size, kv_event_counts)
        registry.on_remove.append(selector.forget)
        self.prompts = PromptReader(
            config,
            tokenizers,
            HttpTokenize(transport.kept_session, config.tokenize.ask_timeout_s),
            clock=selector.ledger.clock,
            on_fallback=metrics.prompt_as_text,
        )
        registry.on_remove.append(self.prompts.forget)
        dispatch = Dispatch(
            registry, selector, self.prompts, transport, self.health, metrics, config, self.weights
        )
        self.end: Next = Tap(dispatch, registry, self.prompts, traffic)
        """Where every pipeline ends: at workers, under the eyes of whoever watches the traffic."""
        self.calls = WorkerCalls(registry, transport, tokenizers)
        self._metrics, self._look = metrics, WorkerReports(registry, transport.session).look
        metrics.before.append(self._look)
        self.fan_out = FanOut(transport, config.weights.update_timeout_s)
        self.reservations = Reservations(
            config.reservation_ttl_s, config.most_reservations, selector.ledger.clock
        )

    async def aclose(self) -> None:
        """Let go of the workers."""
        self._metrics.before.remove(self._look)
        self.reservations.close()
        self.prompts.close()
        await self.calls.close()
        await self.health.close()
        await self.kv_events.close()
        await self.transport.close()
