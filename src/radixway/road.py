"""From a request that knows its model to the worker that answers it: all that stands between the two."""

from __future__ import annotations

from radixway.component import Component, Subject
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


class Road(Component):
    """Follows the workers that come and go, from `start` on, inside one event loop.

    It keeps texts and tokens of prompts to choose workers by. Nobody noted whose those are, and they are a
    cache: erasing anybody empties it, which costs time alone.
    """

    name = "routing"
    erasable_by = frozenset({"tenant", "user", "session", "request"})

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
        self._registry = registry
        self._tokens = tokenizers.cache
        self.transport = transport = HttpTransport(via, limits)
        probe = HttpProbe(transport, config.health.timeout_s)
        self.weights = WeightVersions(registry, config.weights)
        self.health = HealthMonitor(registry, probe, config.health, self.weights)
        self.health.on_silence.append(transport.break_stuck)
        self.kv_events = KvEvents(registry, selector.index, config.block_size, kv_event_counts)
        self.prompts = PromptReader(
            config,
            tokenizers,
            HttpTokenize(transport, config.tokenize.ask_timeout_s),
            clock=selector.ledger.clock,
            on_fallback=metrics.prompt_as_text,
        )
        dispatch = Dispatch(
            registry, selector, self.prompts, transport, self.health, metrics, config, self.weights
        )
        self.end: Next = Tap(dispatch, registry, self.prompts, traffic)
        """Where every pipeline ends: at workers, under the eyes of whoever watches the traffic."""
        self.calls = WorkerCalls(registry, transport, tokenizers)
        self._metrics, self._look = metrics, WorkerReports(registry, transport).look
        self.fan_out = FanOut(registry, transport, config.weights.update_timeout_s)
        self.reservations = Reservations(
            config.reservation_ttl_s, config.most_reservations, selector.ledger.clock
        )

    async def start(self) -> None:
        """Watch the workers."""
        registry = self._registry
        self.transport.open()
        registry.on_remove.append(self.transport.forget)
        self.health.open()
        registry.on_add.append(self.selector.enroll)
        self.kv_events.open()  # between the two: a worker has its place in the index while it is followed
        registry.on_remove.append(self.selector.forget)
        registry.on_remove.append(self.prompts.forget)
        self._metrics.before.append(self._look)

    async def stop(self) -> None:
        """Let go of the workers."""
        self._metrics.before.remove(self._look)
        self.reservations.close()
        self.prompts.close()
        await self.calls.close()
        await self.health.close()
        await self.kv_events.close()
        await self.transport.close()

    async def erase(self, subject: Subject) -> int:
        """See `Component`: how many prompts and stretches of them, whosever they were."""
        bonds = (subject.session, subject.user)
        ended = sum(self.selector.finish_session(name) for name in bonds if name is not None)
        return ended + self.selector.forget_texts() + self._tokens.clear()
