"""Adding, draining, removing and listing workers, as the Slime router's users know it."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter, Depends, Request
from pydantic import ValidationError

from radixway.config import WorkerSettings, check_worker_url
from radixway.pipeline import BadRequest, WorkerNotFoundError
from radixway.routing import API, FleetMembership, HealthMonitor, Worker, WorkerRegistry, WorkerState
from radixway.surfaces.access import AdminAccess


def worker_routes(
    registry: WorkerRegistry, membership: FleetMembership, health: HealthMonitor, access: AdminAccess
) -> APIRouter:
    """`/add_worker`, `/remove_worker`, `/drain_worker` (query `url` or JSON body) and `/list_workers`."""
    router = APIRouter(tags=["workers"])
    guarded = [Depends(access)]

    @router.post("/add_worker", dependencies=guarded)
    async def add_worker(request: Request) -> dict[str, Any]:
        """Take a worker in, or update one. It serves as soon as it answers its first health check.

        If it is well it does so before this returns.
        """
        await health.wait_first_probe(
            membership.join_worker(API, parse_worker(await read_worker_fields(request)))
        )
        return _worker_loads(registry)

    @router.post("/remove_worker", dependencies=guarded)
    async def remove_worker(request: Request) -> dict[str, Any]:
        """Forget a worker. Requests it is answering go on to their end."""
        registry.remove_worker(find_worker(registry, await read_worker_fields(request)).url)
        return _worker_loads(registry)

    @router.post("/drain_worker", dependencies=guarded)
    async def drain_worker(request: Request) -> dict[str, Any]:
        """Send a worker nothing new; it stays listed. `/add_worker` brings it back."""
        registry.set_state(find_worker(registry, await read_worker_fields(request)), WorkerState.DRAINING)
        return _worker_loads(registry)

    @router.get("/list_workers")
    async def list_workers() -> dict[str, Any]:
        """Every worker's URL, and beside it what is known of each."""
        return {
            "urls": [worker.url for worker in registry],
            "workers": [worker.describe() for worker in registry],
        }

    return router


def _worker_loads(registry: WorkerRegistry) -> dict[str, Any]:
    return {
        "status": "success",
        "worker_urls": {worker.url: worker.load.requests for worker in registry},
    }


async def read_worker_fields(request: Request) -> dict[str, Any]:
    """The query's and the JSON body's fields together; `worker_url` is another name of `url`."""
    fields: dict[str, Any] = dict(request.query_params)
    raw = await request.body()
    if raw:
        try:
            body = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadRequest(f"the body is not valid JSON: {error}") from None
        if not isinstance(body, dict):
            raise BadRequest("the body must be a JSON object")
        fields |= body
    if "worker_url" in fields:
        fields["url"] = fields.pop("worker_url")
    if not isinstance(fields.get("url"), str) or not fields["url"]:
        raise BadRequest("url is needed: the worker's http(s) address", param="url")
    return fields


def parse_worker(fields: dict[str, Any]) -> WorkerSettings:
    """What the fields say of a worker; others are ignored. Raises BadRequest."""
    for several in ("models", "pools"):
        if isinstance(fields.get(several), str):  # a query can only carry text
            fields[several] = [name for name in fields[several].split(",") if name]
    _apply_worker_type(fields)
    known = {name: value for name, value in fields.items() if name in WorkerSettings.model_fields}
    try:
        return WorkerSettings.model_validate(known)
    except ValidationError as error:
        mistake = error.errors()[0]
        field = ".".join(str(part) for part in mistake["loc"])
        raise BadRequest(f"{field}: {mistake['msg'].removeprefix('Value error, ')}", param=field) from None


def _apply_worker_type(fields: dict[str, Any]) -> None:
    """Slime's `worker_type` and `bootstrap_port` are our `role` and `disaggregation`."""
    kind = fields.get("worker_type") or "regular"
    if kind not in ("regular", "prefill", "decode"):
        raise BadRequest("worker_type is regular, prefill or decode", param="worker_type")
    if kind != "regular":
        port = {"bootstrap_port": fields["bootstrap_port"]} if fields.get("bootstrap_port") else {}
        fields.setdefault("role", kind)
        fields.setdefault("disaggregation", {"dialect": "sglang"} | port)


def find_worker(registry: WorkerRegistry, fields: dict[str, Any]) -> Worker:
    """The one that `url` names. Raises WorkerNotFoundError."""
    try:
        worker = registry.get_worker(check_worker_url(fields["url"]))
    except ValueError:
        worker = None
    if worker is None:
        raise WorkerNotFoundError("there is no worker of that URL; /list_workers names them all")
    return worker
