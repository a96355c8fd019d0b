"""The gateway's metrics: counted where things happen, collected at each scrape."""

import asyncio
import gc
import os
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from radixway.core.component import Component
from radixway.core.config import ConfigError
from radixway.core.telemetry.metrics.attempt_metrics import AttemptMetrics
from radixway.core.telemetry.metrics.multiprocess import DIRECTORY, MultiprocessMetrics
from radixway.core.telemetry.metrics.primitives import (
    CallbackCollector,
    LabeledHistogram,
    MergeMode,
    MetricsExposition,
    render_exposition,
)
from radixway.core.telemetry.metrics.request_metrics import RequestMetrics, StepMetrics

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class GarbagePauses(LabeledHistogram):
    """Collections by generation. While one lasts no thread runs."""

    def __init__(self) -> None:
        super().__init__(
            "radixway_gc_pause_seconds",
            "Seconds for which garbage collection stopped the process",
            ("generation",),
            _BOUNDS,
        )
        self._pauses = [self.with_labels(str(generation)) for generation in range(3)]
        self._began_s = 0.0

    def on_collection(self, phase: str, info: dict[str, int]) -> None:
        """Count a pause; one of `gc.callbacks`."""
        if phase == "start":
            self._began_s = perf_counter()
        else:
            self._pauses[info["generation"]].observe_value(perf_counter() - self._began_s)


_WRITE_EVERY_S = 1.0

FamilyT = TypeVar("FamilyT", Counter, Histogram)


class MetricsRegistry(Component):
    """A set of metrics in a registry of its own, so that two gateways in a process do not collide."""

    name = "metrics"

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.before: list[Callable[[], Awaitable[None]]] = []
        """Awaited before each scrape, to query databases."""
        self._ours: list[tuple[Collector, MergeMode]] = []
        """Collectors that prometheus_client does not keep."""
        self.exchanges = RequestMetrics()
        self.attempts = AttemptMetrics()
        self.steps = StepMetrics()
        self._garbage_pauses = GarbagePauses()
        self.queue_time = LabeledHistogram(
            "radixway_queue_seconds", "Seconds that requests waited for a worker with room", ("model",)
        )
        for collector in (
            *self.exchanges.collectors(),
            *self.attempts.collectors(),
            *self.steps.collectors(),
            self.queue_time,
            self._garbage_pauses,
        ):
            self.register(collector)
        directory = os.environ.get(DIRECTORY)
        self._writing: asyncio.Task[None] | None = None
        self._sharing: MultiprocessMetrics | None = None
        """Shares metrics with the other processes of that directory."""
        if directory:
            try:
                self._sharing = MultiprocessMetrics(Path(directory), lambda: self._ours)
            except OSError as error:
                raise ConfigError(f"{DIRECTORY}: {directory}: {error.strerror}") from None
        else:
            ProcessCollector(registry=self.registry)
        self.retries = self.counter("radixway_retries", "Requests tried again on another worker", "reason")
        self.refusals = self.counter(
            "radixway_refused", "Requests refused because workers are busy", "reason"
        )
        self.hedges = self.counter(
            "radixway_hedges", "Second copies of requests, by what became of them", "outcome"
        )
        self.fallbacks = self.counter(
            "radixway_fallbacks", "Requests answered by another model than asked for", "model", "fallback"
        )
        self.prefills = self.counter(
            "radixway_prefills",
            "Prompts that a pair of workers might have shared, by who prefilled them and why",
            "where",
            "reason",
        )
        self.prompts_as_text = self.counter(
            "radixway_prompts_as_text",
            "Prompts known by their text because they could not be tokenized",
            "reason",
        )

    def register(self, collector: Collector, together: MergeMode = "sum") -> None:
        """Publish what a component counts itself. `together`: how gauges of several gateways are merged."""
        self.registry.register(collector)
        self._ours.append((collector, together))

    def gauge(self, name: str, text: str, value: Callable[[], float], together: MergeMode = "sum") -> None:
        """Publish the number that `value` returns, read at each scrape."""
        self.gauges_by(name, text, (), lambda: [((), value())], together)

    def gauges(
        self,
        name: str,
        text: str,
        label: str,
        values: Callable[[], Iterable[tuple[str, float]]],
        together: MergeMode = "sum",
    ) -> None:
        """Publish numbers by a label whose values come and go; read at each scrape."""
        self.gauges_by(name, text, (label,), lambda: [((one,), value) for one, value in values()], together)

    def gauges_by(
        self,
        name: str,
        text: str,
        labels: tuple[str, ...],
        values: Callable[[], Iterable[tuple[tuple[str, ...], float]]],
        together: MergeMode = "sum",
    ) -> None:
        """Publish gauges by several labels, or by none; read at each scrape."""
        self.register(CallbackCollector(GaugeMetricFamily, name, text, labels, values), together)

    def counters(
        self, name: str, text: str, label: str, values: Callable[[], Iterable[tuple[str, float]]]
    ) -> None:
        """Publish numbers that only grow, by a label; read at each scrape."""
        self.counters_by(name, text, (label,), lambda: [((one,), value) for one, value in values()])

    def counters_by(
        self,
        name: str,
        text: str,
        labels: tuple[str, ...],
        values: Callable[[], Iterable[tuple[tuple[str, ...], float]]],
    ) -> None:
        """Publish counters by several labels; read at each scrape."""
        self.register(CallbackCollector(CounterMetricFamily, name, text, labels, values))

    def counter(self, name: str, text: str, *labels: str) -> Callable[..., Counter]:
        """Publish the counter `name`; return what finds its child by the labels' values."""
        return _children(Counter(name, text, labels, registry=self.registry), labels)

    def histogram(
        self, name: str, text: str, buckets: tuple[float, ...], *labels: str
    ) -> Callable[..., Histogram]:
        """Publish the histogram `name`; return what finds its child by the values of `labels`."""
        return _children(Histogram(name, text, labels, buckets=buckets, registry=self.registry), labels)

    async def start(self) -> None:
        """Count garbage collections, and publish to the other processes of a shared directory."""
        if self._sharing is not None:
            self._writing = asyncio.create_task(_write_periodically(self._sharing))
        gc.callbacks.append(self._garbage_pauses.on_collection)

    async def stop(self) -> None:
        """Stop counting."""
        gc.callbacks.remove(self._garbage_pauses.on_collection)
        if self._writing is not None:
            self._writing.cancel()
            with suppress(asyncio.CancelledError):
                await self._writing
        if self._sharing is not None:
            self._sharing.save_and_close()

    async def scrape(self, accept: str = "") -> MetricsExposition:
        """Return all metrics in the form that the `Accept` header `accept` asks for."""
        for callback in self.before:
            await callback()
        families: list[Metric] = []
        for family in self.registry.collect():
            families.append(family)
            await asyncio.sleep(0)  # others have their turn: with many workers one takes milliseconds
        if self._sharing is not None:
            names = {family.name for family in families}
            own = await self._sharing.snapshot_families_async()
            families = await asyncio.to_thread(list, self._sharing.merge_processes(own, names))
        return await asyncio.to_thread(render_exposition, families, accept)

    def render_text(self) -> bytes:
        """The Prometheus text exposition, without reading workers first."""
        families = self.registry.collect()
        if self._sharing is not None:
            families = self._sharing.merge_processes(
                self._sharing.snapshot_families(), {family.name for family in families}
            )
        return render_exposition(families, "").body


def _children(family: FamilyT, labels: tuple[str, ...]) -> Callable[..., FamilyT]:
    """Return a finder of `family`'s children, each found once: that costs a tuple, a lock and two lookups."""
    return cache(family.labels) if labels else lambda: family


async def _write_periodically(sharing: MultiprocessMetrics) -> None:
    while True:
        await asyncio.to_thread(sharing.publish_snapshot, await sharing.snapshot_families_async())
        await asyncio.sleep(_WRITE_EVERY_S)
