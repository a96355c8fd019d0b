"""What the gateway says of itself: health, readiness, metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from radixway import __version__
from radixway.pipeline import BadRequest, NoWorkers, Tenancy
from radixway.routing import Registry, Worker, WorkerState
from radixway.telemetry import Journal, Metrics


def admin_routes(
    registry: Registry,
    metrics: Metrics,
    reports: Mapping[str, Callable[[], Any]] | None = None,
    cache: Callable[[], Mapping[str, Any] | None] = lambda: None,
) -> APIRouter:
    """`/health`, `/ready`, `/metrics`, `/metrics/prometheus`.

    `reports`: what rooms have to say in `/health`, by name. `cache`: the figures of the store of trajectories
    under the Slime router's names, None while there is no store.
    """
    router = APIRouter(tags=["gateway"])

    def ready_workers() -> int:
        return sum(worker.state is WorkerState.READY for worker in registry)

    @router.get("/health")
    async def health() -> dict[str, Any]:
        """The gateway is alive; `degraded` names the rooms of which a part does not work."""
        told = {name: report() for name, report in (reports or {}).items()}
        degraded = [name for name, each in told.items() if _is_degraded(each)]
        return {
            "status": "degraded" if degraded else "ok",
            "degraded": degraded,
            "version": __version__,
            "workers": {"ready": ready_workers(), "total": len(registry)},
            "breakers": {
                worker.name: state for worker in registry if (state := _breaker(worker)) != "closed"
            },
            "kv_events": {worker.name: worker.kv_events.state.value for worker in registry},
        } | told

    @router.get("/ready")
    async def ready() -> dict[str, Any]:
        """At least one worker can answer; 503 otherwise."""
        if not registry.candidates(None):
            raise NoWorkers(f"none of {len(registry)} workers can answer")
        return {"status": "ready", "workers": ready_workers()}

    @router.get("/metrics")
    async def metrics_json_or_text(request: Request) -> Response:
        """Loads and cache as JSON, as the Slime router gives them; Prometheus text when Accept asks for text.

        `?format=json` and `?format=prometheus` say it whatever Accept says.
        """
        if _wants_prometheus(request):
            return await prometheus(request)
        loads = {worker.url: worker.load.requests for worker in registry}
        told: dict[str, Any] = {
            "router": {
                "active_workers": ready_workers(),
                "worker_loads": loads,
                "total_in_flight": sum(loads.values()),
            }
        }
        if (figures := cache()) is not None:
            told["cache"] = figures
        return JSONResponse(told)

    @router.get("/metrics/prometheus")
    async def prometheus(request: Request) -> Response:
        """Prometheus text; OpenMetrics, with exemplars, when Accept asks for it."""
        told = await metrics.scrape(request.headers.get("accept", ""))
        return Response(told.body, media_type=told.content_type)

    return router


def _is_degraded(report: Any) -> bool:
    return isinstance(report, dict) and report.get("status") == "degraded"


def _breaker(worker: Worker) -> str:
    return worker.breaker.state(monotonic()).value


def tenant_of(journal: Journal) -> str | None:
    """Whose request it was; None where no tenants are configured."""
    for step, _, said in journal.entries:
        if step == "tenant" and isinstance(said, Tenancy):
            return said.name
    return None


def _wants_prometheus(request: Request) -> bool:
    """Raises BadRequest for a format that there is not."""
    asked = request.query_params.get("format")
    if asked is not None:
        if asked not in ("json", "prometheus"):
            raise BadRequest("format is json or prometheus", param="format")
        return asked == "prometheus"
    accept = request.headers.get("accept", "")
    return ("text/plain" in accept or "openmetrics" in accept) and "application/json" not in accept
