"""Health, readiness and metrics of the gateway."""

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from radixway._version import __version__
from radixway.api.authorization import PathAuthorization
from radixway.core.http import LazyRouter
from radixway.core.pipeline import BadRequest, NoWorkersError
from radixway.core.telemetry import MetricsRegistry
from radixway.routing import WorkerRegistry, WorkerState


def health_routes(
    registry: WorkerRegistry,
    metrics: MetricsRegistry,
    reports: Mapping[str, Callable[[], Any]],
    cache: Callable[[], Mapping[str, Any] | None],
    gate: PathAuthorization,
) -> APIRouter:
    """Build `/health`, `/ready`, `/metrics`, `/metrics/prometheus`.

    `reports`: what components have to say in `/health`, by name; `{}`: nothing. `cache`: the figures of the
    store of trajectories under the Slime router's names, None while there is no store. `gate`: knows who may
    see names, addresses and paths.
    """
    router = LazyRouter(tags=["gateway"])

    def ready_workers() -> int:
        return sum(worker.state is WorkerState.READY for worker in registry)

    @router.get("/health")
    async def health(request: Request) -> dict[str, Any]:
        """The gateway is alive; `degraded` names the parts of which something does not work. Administrators,
        and keys of the scope `metrics`, see how each part is; all others whether it works."""
        parts = {name: part for name, report in reports.items() if (part := report()) != {}}
        degraded = [name for name, part in parts.items() if _reports_problem(part)]
        summary: dict[str, Any] = {
            "status": "degraded" if degraded else "ok",
            "degraded": degraded,
            "version": __version__,
            "workers": {"ready": ready_workers(), "total": len(registry)},
        }
        if not gate.shows_details(request):
            return summary | {"components": {name: "down" if name in degraded else "up" for name in parts}}
        summary["breakers"] = {
            worker.name: state
            for worker in registry
            if (state := worker.breaker.state(monotonic()).value) != "closed"
        }
        summary["kv_events"] = {worker.name: worker.kv_events.state.value for worker in registry}
        return summary | parts

    @router.get("/ready")
    async def ready() -> dict[str, Any]:
        """Answer 200 if at least one worker can answer, else 503."""
        if not registry.candidates(None):
            raise NoWorkersError(f"none of {len(registry)} workers can answer")
        return {"status": "ready", "workers": ready_workers()}

    @router.get("/metrics")
    async def metrics_json_or_text(request: Request) -> Response:
        """Loads and cache as JSON, as the Slime router gives them; Prometheus text when Accept asks for text.

        `?format=json` and `?format=prometheus` say it whatever Accept says.
        """
        if _wants_prometheus(request):
            return await prometheus(request)
        gate.authorize_scrape(request)
        loads = {worker.url: worker.load.requests for worker in registry}
        reply: dict[str, Any] = {
            "router": {
                "active_workers": ready_workers(),
                "worker_loads": loads,
                "total_in_flight": sum(loads.values()),
            }
        }
        if (figures := cache()) is not None:
            reply["cache"] = figures
        return JSONResponse(reply)

    @router.get("/metrics/prometheus")
    async def prometheus(request: Request) -> Response:
        """Prometheus text; OpenMetrics, with exemplars, when Accept asks for it."""
        gate.authorize_scrape(request)
        scraped = await metrics.scrape(request.headers.get("accept", ""))
        return Response(scraped.body, media_type=scraped.content_type)

    return router


def _reports_problem(part: Any) -> bool:
    """Return whether a part's report says, at any depth, that something does not work."""
    if isinstance(part, list):
        return any(map(_reports_problem, part))
    if not isinstance(part, Mapping):
        return False
    return (
        any(part.get(name) for name in ("problem", "error", "failure", "skipped"))
        or part.get("status") == "degraded"
        or part.get("state") in ("down", "failing")
        or part.get("store", "ok") != "ok"
        or any(map(_reports_problem, part.values()))
    )


def _wants_prometheus(request: Request) -> bool:
    requested = request.query_params.get("format")
    if requested is not None:
        if requested not in ("json", "prometheus"):
            raise BadRequest("format is json or prometheus", param="format")
        return requested == "prometheus"
    accept = request.headers.get("accept", "")
    return ("text/plain" in accept or "openmetrics" in accept) and "application/json" not in accept
