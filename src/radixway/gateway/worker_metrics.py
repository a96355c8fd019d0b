"""The metrics of workers and of the server at `/metrics`: read at each scrape, never counted along."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from radixway._version import __version__
from radixway.core.http import ServerCounts
from radixway.core.telemetry import JournalStore, MetricsRegistry
from radixway.routing import BreakerState, EngineMetrics, KvEventsState, Worker, WorkerRegistry, WorkerState
from radixway.routing.kv_events import KvEventCounts

_OPENNESS = {BreakerState.CLOSED: 0.0, BreakerState.HALF_OPEN: 0.5, BreakerState.OPEN: 1.0}

_By = Iterable[tuple[tuple[str, ...], float]]


def publish_gateway(
    metrics: MetricsRegistry,
    workers: WorkerRegistry,
    journals: JournalStore,
    kv_event_counts: KvEventCounts,
    server_counts: ServerCounts,
) -> None:
    """Publish how a gateway is: its server, its journals, and the workers as it sees them."""
    metrics.gauge(
        "radixway_journal_bytes",
        "Bytes of the journals of the latest requests",
        lambda: journals.size_bytes,
    )
    register_server_metrics(metrics, server_counts)
    register_worker_metrics(metrics, workers)
    register_report_metrics(metrics, workers)
    register_kv_event_metrics(metrics, workers, kv_event_counts)


def register_worker_metrics(metrics: MetricsRegistry, workers: WorkerRegistry) -> None:
    """Publish the number of workers, and each one's state, breaker and load.

    Several gateways know the same workers (`max`), and each has requests of its own in flight (`sum`).
    """

    def by_worker(value: Callable[[Worker], float | None]) -> Callable[[], Iterable[tuple[str, float]]]:
        return lambda: [
            (worker.name, reading) for worker in workers if (reading := value(worker)) is not None
        ]

    gauge, gauges = metrics.gauge, metrics.gauges
    gauge("radixway_workers_ready", "Workers that can answer", lambda: len(workers.candidates(None)), "max")
    gauge("radixway_workers", "Workers known", lambda: len(workers), "max")
    gauge(
        "radixway_workers_stale",
        "Workers that wait for weights",
        lambda: sum(worker.state is WorkerState.STALE for worker in workers),
        "max",
    )
    metrics.gauges_by(
        "radixway_worker_state",
        "1 for the state that each worker is in",
        ("worker", "state"),
        lambda: [((worker.name, worker.state.value), 1.0) for worker in workers],
        "max",
    )
    gauges(
        "radixway_breaker",
        "Circuit breakers: 0 closed, 0.5 half-open, 1 open",
        "worker",
        by_worker(lambda worker: _OPENNESS[worker.breaker.state(time.monotonic())]),
        "max",
    )
    gauge(
        "radixway_in_flight",
        "Requests at workers now",
        lambda: sum(worker.load.requests for worker in workers),
    )
    gauges(
        "radixway_worker_in_flight",
        "Requests at each worker now",
        "worker",
        by_worker(lambda worker: worker.load.requests),
    )
    gauges(
        "radixway_worker_prefill_tokens",
        "Tokens that the requests in hand have still to prefill there, as the gateway reckons",
        "worker",
        by_worker(lambda worker: worker.load.prefill_tokens),
    )
    gauges(
        "radixway_worker_kv_tokens",
        "Tokens that a worker's KV cache holds, where known",
        "worker",
        by_worker(lambda worker: worker.kv_tokens),
        "max",
    )
    metrics.gauges_by(
        "radixway_build_info", "What runs here", ("version",), lambda: [((__version__,), 1.0)], "max"
    )


def register_server_metrics(metrics: MetricsRegistry, counts: ServerCounts) -> None:
    """Publish how often clients met a limit of the server (`limits.server`)."""
    metrics.counters(
        "radixway_server_limit_hits",
        "Times that clients met a limit of the server's",
        "limit",
        lambda: [(name, float(getattr(counts, name))) for name in ServerCounts.__slots__],
    )


def register_report_metrics(metrics: MetricsRegistry, workers: WorkerRegistry) -> None:
    """Publish what `workers` reported when last polled."""

    def reported() -> Iterator[tuple[str, EngineMetrics]]:
        return ((worker.name, worker.report) for worker in workers if worker.report is not None)

    def of(value: Callable[[EngineMetrics], float | None]) -> Callable[[], Iterable[tuple[str, float]]]:
        return lambda: [(name, reading) for name, each in reported() if (reading := value(each)) is not None]

    gauges = metrics.gauges
    gauges(
        "radixway_worker_kv_usage_ratio",
        "Share of its KV cache that a worker's running requests hold, as it says",
        "worker",
        of(lambda report: report.kv_usage),
        "max",
    )
    gauges(
        "radixway_worker_running",
        "Requests in a worker's batch, as it says",
        "worker",
        of(lambda report: report.running),
        "max",
    )
    gauges(
        "radixway_worker_waiting",
        "Requests in a worker's own queue, as it says",
        "worker",
        of(lambda report: report.waiting),
        "max",
    )

    def by(part: Callable[[EngineMetrics], Iterable[tuple[str, float]]]) -> Callable[[], _By]:
        return lambda: [((name, label), value) for name, each in reported() for label, value in part(each)]

    metrics.gauges_by(
        "radixway_worker_tier_tokens",
        "Tokens that a tier of a worker's cache holds at most, as it says",
        ("worker", "tier"),
        by(lambda report: report.tier_tokens.items()),
        "max",
    )
    metrics.gauges_by(
        "radixway_worker_tier_cached_tokens",
        "Tokens in a tier of a worker's cache, as it says",
        ("worker", "tier"),
        by(lambda report: report.tier_cached_tokens.items()),
        "max",
    )
    metrics.gauges_by(
        "radixway_worker_gpu_utilisation_ratio",
        "How busy a worker's GPU is, as it says",
        ("worker", "gpu"),
        by(lambda report: report.gpu_utilisation.items()),
        "max",
    )


def register_kv_event_metrics(
    metrics: MetricsRegistry, workers: WorkerRegistry, counts: KvEventCounts
) -> None:
    """Publish `counts` of KV events, and the state of their streams."""
    metrics.counters("radixway_kv_events", "KV events heard from workers", "kind", counts.events)
    metrics.counters(
        "radixway_kv_event_incidents", "What befell the streams of KV events", "kind", counts.incidents
    )
    metrics.gauges(
        "radixway_kv_event_workers",
        "Workers by the state of their KV events",
        "state",
        lambda: [
            (state.value, sum(worker.kv_events.state is state for worker in workers))
            for state in KvEventsState
        ],
        "max",
    )
