"""What `/metrics` tells of workers: read when it is asked for, never counted along."""

from __future__ import annotations

import time

from radixway.routing import BreakerState, KvEventsState, Registry, WorkerState
from radixway.routing.kv_events import KvEventCounts
from radixway.telemetry import Metrics

_OPENNESS = {BreakerState.CLOSED: 0.0, BreakerState.HALF_OPEN: 0.5, BreakerState.OPEN: 1.0}


def publish_loads(metrics: Metrics, workers: Registry) -> None:
    """How many workers there are, in which state, and what they have in hand."""
    gauge = metrics.gauge
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
    metrics.gauges(
        "radixway_breaker",
        "Circuit breakers: 0 closed, 0.5 half-open, 1 open",
        "worker",
        lambda: [(worker.name, _OPENNESS[worker.breaker.state(time.monotonic())]) for worker in workers],
    )


def publish_kv_events(metrics: Metrics, workers: Registry, counts: KvEventCounts) -> None:
    """What workers have told of their caches."""
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
    )
