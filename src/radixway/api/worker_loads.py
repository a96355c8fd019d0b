"""What workers have in hand, in the shapes that SGLang's clients and its gateway's (SMG) read."""

import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from statistics import fmean
from typing import Any

from fastapi import APIRouter

from radixway._version import __version__
from radixway.core.http import LazyRouter
from radixway.routing import Worker, WorkerRegistry, WorkerState

_ANSWERING = frozenset({WorkerState.READY, WorkerState.STALE, WorkerState.DRAINING})
_NOT_KNOWN = -1
"""The load of a worker that does not answer, as SMG gives it."""


def load_routes(registry: WorkerRegistry, poll_workers: Callable[[], Awaitable[None]]) -> APIRouter:
    """Build `/v1/loads`, `/loads`, `/get_loads` and `/get_load`.

    `poll_workers` reads workers' own figures, if they are not recent.
    """
    router = LazyRouter(tags=["workers"])

    @router.get("/v1/loads")
    @router.get("/loads")
    @router.get("/get_loads")
    async def loads() -> dict[str, Any]:
        """Return each worker's load as SMG does (`worker`, `load`), with SGLang's figures and their sums."""
        await poll_workers()
        found = [_describe_load(rank, worker) for rank, worker in enumerate(registry)]
        failed = sum(load["load"] == _NOT_KNOWN for load in found)
        return {
            "timestamp": datetime.now(UTC).isoformat(),
            "version": __version__,
            "dp_rank_count": len(found),
            "loads": found,
            "aggregate": sum_loads(found),
            "total_workers": len(found),
            "successful": len(found) - failed,
            "failed": failed,
        }

    @router.get("/get_load")
    async def load() -> list[dict[str, Any]]:
        """Return each worker's load under the names of SGLang's older call, a worker in place of a rank."""
        await poll_workers()
        found = [_describe_load(rank, worker) for rank, worker in enumerate(registry)]
        return [
            {
                "dp_rank": load["dp_rank"],
                "num_reqs": load["num_total_reqs"],
                "num_waiting_reqs": load["num_waiting_reqs"],
                "num_tokens": load["num_used_tokens"],
            }
            for load in found
        ]

    return router


def _describe_load(rank: int, worker: Worker) -> dict[str, Any]:
    """Describe `worker` by its own word, which may be seconds old, and what this gateway has sent it."""
    report, in_flight = worker.report, worker.load.all_requests
    waiting = 0 if report is None or report.waiting is None else int(report.waiting)
    running = 0 if report is None or report.running is None else int(report.running)
    running = max(running, in_flight - waiting)
    usage = 0.0 if report is None or report.kv_usage is None else report.kv_usage
    capacity = worker.kv_tokens or 0
    return {
        "worker": worker.url,
        "worker_type": "regular" if worker.role == "any" else worker.role,
        "load": in_flight if worker.state in _ANSWERING else _NOT_KNOWN,
        "dp_rank": rank,
        "timestamp": time.time(),
        "num_running_reqs": running,
        "num_waiting_reqs": waiting,
        "num_total_reqs": running + waiting,
        "num_used_tokens": round(usage * capacity),
        "max_total_num_tokens": capacity,
        "max_running_requests": worker.max_batch_size or 0,
        "token_usage": usage,
    }


def sum_loads(loads: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return SGLang's `aggregate` of `loads`."""
    return {
        "total_running_reqs": sum(load["num_running_reqs"] for load in loads),
        "total_waiting_reqs": sum(load["num_waiting_reqs"] for load in loads),
        "total_reqs": sum(load["num_total_reqs"] for load in loads),
        "avg_token_usage": fmean(load["token_usage"] for load in loads) if loads else 0.0,
    }
