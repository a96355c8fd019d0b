"""Workers that say themselves that they are there: `/workers`."""

from __future__ import annotations

from typing import Any, Protocol

from fastapi import APIRouter, Depends, Request

from radixway.config import WorkerSettings
from radixway.pipeline import BadRequest, WorkerNotFoundError
from radixway.routing import HealthMonitor, Worker, WorkerRegistry
from radixway.surfaces.access import AdminAccess
from radixway.surfaces.workers import find_worker, parse_worker, read_worker_fields

_HEARTBEATS_PER_LEASE = 3
"""In the time that a worker's word holds: one that is lost does no harm."""
_OTHER_NAMES = {"worker_url", "worker_type", "bootstrap_port", "model", "ttl_s"}


class WorkerRegistrar(Protocol):
    """Who keeps the leases of workers."""

    most_ttl_s: float

    def register_worker(self, section: WorkerSettings, ttl_s: float | None) -> float:
        """A worker is there, for that time; returns how long."""
        ...

    def deregister_worker(self, worker: Worker) -> None:
        """It is to get nothing new, and to be forgotten when it has nothing in hand."""
        ...

    def forget_worker(self, url: str) -> None:
        """Whatever stood there leaves, of which nothing but its word is left, if that."""
        ...

    def lease_left_s(self, url: str) -> float | None:
        """How long the worker's word holds still, if it has given one."""
        ...


def registration_routes(
    registry: WorkerRegistry, registrar: WorkerRegistrar, health: HealthMonitor, access: AdminAccess
) -> APIRouter:
    """`POST`, `DELETE` and `GET /workers`."""
    router = APIRouter(tags=["workers"])
    guarded = [Depends(access)]

    @router.post("/workers", dependencies=guarded)
    async def register(request: Request) -> dict[str, Any]:
        """A worker is there, for `ttl_s` seconds; the same call again is its heartbeat."""
        fields = await read_worker_fields(request)
        _refuse_unknown(fields)
        ttl_s = _read_ttl(fields.pop("ttl_s", None), registrar.most_ttl_s)
        if "model" in fields:
            fields.setdefault("models", [_read_model(fields.pop("model"))])
        section = parse_worker(fields)
        ttl_s = registrar.register_worker(section, ttl_s)
        worker = registry.get_worker(section.url)
        if worker is not None:
            await health.wait_first_probe(worker)
        return _registration_state(section.url, worker) | {
            "ttl_s": ttl_s,
            "heartbeat_s": round(ttl_s / _HEARTBEATS_PER_LEASE, 3),
        }

    @router.delete("/workers", dependencies=guarded)
    async def deregister(request: Request) -> dict[str, Any]:
        """A worker leaves: it gets nothing new, and is forgotten when it has nothing in hand."""
        fields = await read_worker_fields(request)
        try:
            worker = find_worker(registry, fields)
        except WorkerNotFoundError:
            registrar.forget_worker(fields["url"])
            raise
        registrar.deregister_worker(worker)
        return _registration_state(worker.url, registry.get_worker(worker.url))

    @router.get("/workers")
    async def workers() -> dict[str, Any]:
        """All of them as in `/list_workers`, and how long the word of each holds that registered."""
        return {
            "workers": [
                worker.describe() | {"lease_left_s": _rounded(registrar.lease_left_s(worker.url))}
                for worker in registry
            ]
        }

    return router


def _registration_state(url: str, worker: Worker | None) -> dict[str, Any]:
    if worker is None:
        return {"url": url, "state": "gone", "in_flight": 0}
    return {"url": url, "state": worker.state.value, "in_flight": worker.load.requests}


def _refuse_unknown(fields: dict[str, Any]) -> None:
    """Whoever registers is told of a field that would have no effect."""
    for name in fields:
        if name not in WorkerSettings.model_fields and name not in _OTHER_NAMES:
            raise BadRequest(f"{name}: there is no such field of a worker", param=name)


def _read_model(given: Any) -> str:
    if not isinstance(given, str) or not given:
        raise BadRequest("model must be a model's name", param="model")
    return given


def _read_ttl(given: Any, most_s: float) -> float | None:
    if given is None:
        return None
    try:
        ttl_s = float(given)  # a query can only carry text
    except (TypeError, ValueError):
        ttl_s = 0.0
    if isinstance(given, bool) or not 0 < ttl_s <= most_s:
        raise BadRequest(
            f"ttl_s must be a number of seconds, more than 0 and at most {most_s:g}", param="ttl_s"
        )
    return ttl_s


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
