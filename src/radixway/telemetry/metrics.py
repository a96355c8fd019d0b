"""The gateway's Prometheus metrics. Label values are bounded: our surfaces, served models."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """One set of metrics in a registry of its own, so that two gateways in a process do not collide."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.before: list[Callable[[], Awaitable[None]]] = []
        """Awaited before each scrape: what is to be asked of a database is asked then."""
        requests = Counter(
            "radixway_requests", "Answered requests", ["surface", "model", "status"], registry=self.registry
        )
        latency = Histogram(
            "radixway_request_seconds",
            "Seconds from the request's arrival to its last byte",
            ["surface", "model"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        first_byte = Histogram(
            "radixway_first_byte_seconds",
            "Seconds from the request's arrival to the first byte of its answer",
            ["surface", "model"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        retries = Counter(
            "radixway_retries", "Requests tried again on another worker", ["reason"], registry=self.registry
        )
        self.disconnects = Counter(
            "radixway_client_disconnects",
            "Requests whose client left before the end",
            registry=self.registry,
        )
        self.broken_streams = Counter(
            "radixway_broken_streams",
            "Streams cut by a worker after their first byte",
            registry=self.registry,
        )
        refusals = Counter(
            "radixway_refused",
            "Requests refused because workers are busy",
            ["reason"],
            registry=self.registry,
        )
        hedges = Counter(
            "radixway_hedges",
            "Second copies of requests, by what became of them",
            ["outcome"],
            registry=self.registry,
        )
        fallbacks = Counter(
            "radixway_fallbacks",
            "Requests answered by another model than asked for",
            ["model", "fallback"],
            registry=self.registry,
        )
        self.queue_time = Histogram(
            "radixway_queue_seconds",
            "Seconds that requests waited for a worker with room",
            buckets=_SECONDS,
            registry=self.registry,
        )
        split = Counter(
            "radixway_prefills",
            "Prompts that a pair of workers might have shared, by who prefilled them and why",
            ["where", "reason"],
            registry=self.registry,
        )
        as_text = Counter(
            "radixway_prompts_as_text",
            "Prompts known by their text because they could not be tokenized",
            ["reason"],
            registry=self.registry,
        )
        # A child costs a tuple, a lock and two lookups to find: find each once.
        self._requests = cache(requests.labels)
        self._latency = cache(latency.labels)
        self._first_byte = cache(first_byte.labels)
        self._retries = cache(retries.labels)
        self._refusals = cache(refusals.labels)
        self._hedges = cache(hedges.labels)
        self._fallbacks = cache(fallbacks.labels)
        self._split = cache(split.labels)
        self._as_text = cache(as_text.labels)

    def answered(
        self, surface: str, model: str, status: int, first_byte_s: float | None, total_s: float
    ) -> None:
        """Count one finished exchange; `first_byte_s` is None when nothing was sent."""
        self._requests(surface, model, str(status)).inc()
        self._latency(surface, model).observe(total_s)
        if first_byte_s is not None:
            self._first_byte(surface, model).observe(first_byte_s)

    def retried(self, reason: str) -> None:
        """Count one attempt that failed before its first byte and was made again."""
        self._retries(reason).inc()

    def refused(self, reason: str) -> None:
        """Count one request that was not given to any worker, because they are busy."""
        self._refusals(reason).inc()

    def prefilled(self, *, elsewhere: bool, reason: str) -> None:
        """Count one prompt for whose prefill there were two places; `reason` as in the journal."""
        self._split("elsewhere" if elsewhere else "alone", reason).inc()

    def hedged(self, outcome: str) -> None:
        """Count one second copy of a request: it `won`, `lost` or `failed`."""
        self._hedges(outcome).inc()

    def fell_back(self, model: str, fallback: str) -> None:
        """Count one request given to another model; both names are of the configuration."""
        self._fallbacks(model, fallback).inc()

    def gauges(
        self, name: str, text: str, label: str, values: Callable[[], Iterable[tuple[str, float]]]
    ) -> None:
        """Publish numbers by a label whose values come and go; read when somebody scrapes."""
        self.gauges_by(name, text, (label,), lambda: [((one,), value) for one, value in values()])

    def gauges_by(
        self,
        name: str,
        text: str,
        labels: tuple[str, ...],
        values: Callable[[], Iterable[tuple[tuple[str, ...], float]]],
    ) -> None:
        """The same by several labels."""
        self.registry.register(_Read(GaugeMetricFamily, name, text, labels, values))

    def counters(
        self, name: str, text: str, label: str, values: Callable[[], Iterable[tuple[str, float]]]
    ) -> None:
        """Publish numbers that only grow, by a label; read when somebody scrapes."""
        self.registry.register(
            _Read(
                CounterMetricFamily,
                name,
                text,
                (label,),
                lambda: [((one,), value) for one, value in values()],
            )
        )

    def counter(self, name: str, text: str) -> Counter:
        """A counter of a room's own."""
        return Counter(name, text, registry=self.registry)

    def prompt_as_text(self, reason: str) -> None:
        """Count one prompt that was to be tokenized and could not be."""
        self._as_text(reason).inc()

    def gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Publish a number that is read when somebody scrapes."""
        Gauge(name, text, registry=self.registry).set_function(value)

    async def scrape(self) -> bytes:
        """`render`, after what is to be done before it."""
        for each in self.before:
            await each()
        return self.render()

    def render(self) -> bytes:
        """The Prometheus text exposition."""
        return generate_latest(self.registry)


@dataclass(frozen=True, slots=True)
class _Read(Collector):
    """A gauge or counter whose children are made for each scrape."""

    kind: type[GaugeMetricFamily | CounterMetricFamily]
    name: str
    text: str
    labels: tuple[str, ...]
    values: Callable[[], Iterable[tuple[tuple[str, ...], float]]]

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        family = self.kind(self.name, self.text, labels=self.labels)
        for labels, value in self.values():
            family.add_metric(labels, value)
        yield family
