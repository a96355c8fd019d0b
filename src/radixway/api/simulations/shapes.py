"""Replies of `/simulate`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel

from radixway.routing.simulator import SimulationJob


class SimulationStatus(BaseModel):
    """A simulation, as far as it has come."""

    id: str
    name: str
    asked_at: float
    """Seconds since the epoch."""
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    policies: list[str]
    setting: dict[str, Any]
    sent: int
    """Requests that have been sent, of all policies together."""
    total: int | None
    """Requests to be sent; null until the trace is read."""
    took_s: float | None
    error: str | None
    result: dict[str, Any] | None
    """`trace` and, by policy, `figures` (docs/routing.md) and `curves`; null in lists, and until it ends."""


class SimulationList(BaseModel):
    """All that are remembered, and what there is to choose from."""

    simulations: list[SimulationStatus]
    """Newest first."""
    samples: list[str]
    """Traces that are made up on the spot."""
    policies: list[str]
    limits: dict[str, float]


def describe_job(job: SimulationJob, *, whole: bool = True) -> SimulationStatus:
    """Describe `job`; `whole`: with its result."""
    task = job.task
    return SimulationStatus(
        id=job.id,
        name=job.name,
        asked_at=job.asked_at,
        state=job.state,
        policies=[name.strip() for name in task.policies.split(",")],
        setting={
            "workers": task.workers,
            "kv_tokens": task.kv_tokens,
            "speedup": task.speedup,
            "events": task.events,
            "event_delay_ms": task.event_delay_s * 1e3,
            "engine": task.engine,
            "limit": task.limit,
        },
        sent=job.sent,
        total=job.total,
        took_s=job.took_s,
        error=job.error,
        result=job.result if whole else None,
    )
