"""The metrics of workers and of the server at `/metrics`: read at each scrape, never counted along."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from radixway._version import __version__
from radixway.core.http import ServerCounts
from radixway.core.telemetry import JournalStore, MetricsRegistry
from radixway.core.telemetry.metrics.primitives import MergeMode
from radixway.routing import BreakerState, EngineMetrics, KvEventsState, Worker, WorkerRegistry, WorkerState
from radixway.routing.kv_events import KvEventCounts

_OPENNESS = {BreakerState.CLOSED: 0.0, BreakerState.HALF_OPEN: 0.5, BreakerState.OPEN: 1.0}


def publish_gateway(
    metrics: MetricsRegistry,
    workers: WorkerRegistry,
    journals: JournalStore,
    kv_event_counts: KvEventCounts,
    server_counts: ServerCounts,
) -> None:
    """Publish how a gateway is: its server, its journals, and the `workers` as it sees them.

    Several gateways know the same workers (`max`), and each has requests of its own in flight (`sum`).
    """
    gauge, counters = metrics.gauge, metrics.counters
    gauge(
        "radixway_journal_bytes",
        "Bytes of the journals of the latest requests",
        lambda: journals.size_bytes,
    )
    gauge(
        "radixway_event_loop_tasks",
        "Tasks of the event loop that have not ended",
        lambda: len(asyncio.all_tasks()),
    )
    counters(
        "radixway_server_limit_hits",
        "Times that clients met a limit of the server's",
        "limit",
        lambda: [(name, float(getattr(server_counts, name))) for name in ServerCounts.__slots__],
    )
    gauge("radixway_workers_ready", "Workers that can answer", lambda: len(workers.candidates(None)), "max")
    gauge("radixway_workers", "Workers known", lambda: len(workers), "max")
    gauge(
        "radixway_workers_stale",
        "Workers that wait for weights",
        lambda: sum(worker.state is WorkerState.STALE for worker in workers),
        "max",
    )
    gauge(
        "radixway_in_flight",
        "Requests at workers now",
        lambda: sum(worker.load.requests for worker in workers),
    )
    for name, text, read_one, together in _BY_WORKER:
        metrics.gauges(name, text, "worker", partial(_by_worker, workers, read_one), together)
    for name, text, label, read_several in _BY_WORKER_AND_LABEL:
        read = partial(_by_worker_and_label, workers, read_several)
        metrics.gauges_by(name, text, ("worker", label), read, "max")
    counters("radixway_kv_events", "KV events heard from workers", "kind", kv_event_counts.events)
    counters(
        "radixway_kv_event_incidents",
        "What befell the streams of KV events",
        "kind",
        kv_event_counts.incidents,
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
    metrics.gauges_by(
        "radixway_build_info", "What runs here", ("version",), lambda: [((__version__,), 1.0)], "max"
    )


def _by_worker(
    workers: WorkerRegistry, read: Callable[[Worker], float | None]
) -> Iterable[tuple[str, float]]:
    return [(worker.name, value) for worker in workers if (value := read(worker)) is not None]


def _by_worker_and_label(
    workers: WorkerRegistry, read: Callable[[Worker], Iterable[tuple[str, float]]]
) -> Iterable[tuple[tuple[str, str], float]]:
    return [((worker.name, label), value) for worker in workers for label, value in read(worker)]


def _reported(read: Callable[[EngineMetrics], float | None]) -> Callable[[Worker], float | None]:
    """Read what a worker reported when last polled; None where it has not."""
    return lambda worker: None if worker.report is None else read(worker.report)


def _reported_by(
    read: Callable[[EngineMetrics], Mapping[str, float]],
) -> Callable[[Worker], Iterable[tuple[str, float]]]:
    return lambda worker: () if worker.report is None else read(worker.report).items()


_BY_WORKER: tuple[tuple[str, str, Callable[[Worker], float | None], MergeMode], ...] = (
    (
        "radixway_breaker",
        "Circuit breakers: 0 closed, 0.5 half-open, 1 open",
        lambda worker: _OPENNESS[worker.breaker.state(time.monotonic())],
        "max",
    ),
    (
        "radixway_worker_in_flight",
        "Requests at each worker now",
        lambda worker: worker.load.requests,
        "sum",
    ),
    (
        "radixway_worker_prefill_tokens",
        "Tokens that the requests in flight have still to prefill there, as the gateway estimates",
        lambda worker: worker.load.prefill_tokens,
        "sum",
    ),
    (
        "radixway_worker_kv_tokens",
        "Tokens that a worker's KV cache holds, where known",
        lambda worker: worker.kv_tokens,
        "max",
    ),
    (
        "radixway_worker_kv_usage_ratio",
        "Share of its KV cache that a worker's running requests hold, as it says",
        _reported(lambda report: report.kv_usage),
        "max",
    ),
    (
        "radixway_worker_running",
        "Requests in a worker's batch, as it says",
        _reported(lambda report: report.running),
        "max",
    ),
    (
        "radixway_worker_waiting",
        "Requests in a worker's own queue, as it says",
        _reported(lambda report: report.waiting),
        "max",
    ),
)
_BY_WORKER_AND_LABEL: tuple[tuple[str, str, str, Callable[[Worker], Iterable[tuple[str, float]]]], ...] = (
    (
        "radixway_worker_state",
        "1 for the state that each worker is in",
        "state",
        lambda worker: [(worker.state.value, 1.0)],
    ),
    (
        "radixway_worker_tier_tokens",
        "Tokens that a tier of a worker's cache holds at most, as it says",
        "tier",
        _reported_by(lambda report: report.tier_tokens),
    ),
    (
        "radixway_worker_tier_cached_tokens",
        "Tokens in a tier of a worker's cache, as it says",
        "tier",
        _reported_by(lambda report: report.tier_cached_tokens),
    ),
    (
        "radixway_worker_gpu_utilisation_ratio",
        "How busy a worker's GPU is, as it says",
        "gpu",
        _reported_by(lambda report: report.gpu_utilisation),
    ),
)
