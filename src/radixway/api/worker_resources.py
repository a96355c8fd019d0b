"""`/workers/{worker_id}`: one worker, shown, replaced, changed and removed as in SGLang's gateway (SMG)."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse

from radixway.api.admin_access import AdminAccess
from radixway.api.client_requests import decode_body
from radixway.api.workers import (
    WorkerRegistrar,
    check_worker_fields,
    describe_registration,
    find_worker_id,
    parse_worker,
)
from radixway.core.config import WorkerSettings, check_worker_url
from radixway.core.http import LazyRouter
from radixway.core.pipeline import BadRequest, WorkerNotFoundError
from radixway.routing import API, FleetMembership, HealthMonitor, Worker, WorkerRegistry


def worker_resource_routes(
    registry: WorkerRegistry,
    membership: FleetMembership,
    registrar: WorkerRegistrar,
    health: HealthMonitor,
    access: AdminAccess,
) -> APIRouter:
    """Build `GET`, `PUT`, `PATCH` and `DELETE /workers/{worker_id}`; a worker's name will do as its id."""
    router = LazyRouter(prefix="/workers", tags=["workers"])
    guarded = [Depends(access)]

    def find(worker_id: str) -> Worker:
        for worker in registry:
            if worker_id in (find_worker_id(worker.url), worker.name, worker.url):
                return worker
        raise WorkerNotFoundError(
            "there is no worker of that id; GET /workers lists them all", param="worker_id"
        )

    async def read_fields(request: Request, worker: Worker) -> dict[str, Any]:
        fields = await decode_body(request, dict[str, Any])
        if "url" in fields and not _is_url_of(worker, fields["url"]):
            reason = f"it is {worker.url}, and cannot be changed: remove the worker, and add another"
            raise BadRequest(f"url: {reason}", param="url")
        check_worker_fields(fields)
        fields.pop("ttl_s", None)
        return {**fields, "url": worker.url}

    async def apply(worker: Worker, section: WorkerSettings) -> JSONResponse:
        await health.wait_first_probe(membership.join_worker(API, section))
        return _accepted_response(worker, "Worker updated")

    @router.get("/{worker_id:path}")
    async def show(worker_id: str) -> dict[str, Any]:
        """Describe one worker."""
        worker = find(worker_id)
        return describe_registration(worker, registrar.lease_left_s(worker.url))

    @router.put("/{worker_id:path}", dependencies=guarded)
    async def replace(worker_id: str, request: Request) -> JSONResponse:
        """Replace what is configured of a worker; what the body leaves out is as by default."""
        worker = find(worker_id)
        section = parse_worker(await read_fields(request, worker))
        return await apply(worker, WorkerSettings.model_validate(section.model_dump()))

    @router.patch("/{worker_id:path}", dependencies=guarded)
    async def change(worker_id: str, request: Request) -> JSONResponse:
        """Change the fields of a worker that the body has."""
        worker = find(worker_id)
        known = worker.config.model_dump(exclude_unset=True)
        return await apply(worker, parse_worker({**known, **await read_fields(request, worker)}))

    @router.delete("/{worker_id:path}", dependencies=guarded)
    async def remove(worker_id: str) -> JSONResponse:
        """Forget a worker. Requests it is answering go on to their end."""
        worker = find(worker_id)
        registrar.forget_worker(worker.url)
        registry.remove_worker(worker.url)
        return _accepted_response(worker, "Worker removed")

    return router


def _is_url_of(worker: Worker, given: Any) -> bool:
    try:
        return check_worker_url(given) == worker.url
    except (ValueError, TypeError):
        return False


def _accepted_response(worker: Worker, message: str) -> JSONResponse:
    content: Mapping[str, Any] = {
        "status": "accepted",
        "worker_id": find_worker_id(worker.url),
        "url": worker.url,
        "state": "gone" if worker.removed else worker.state.value,
        "in_flight": worker.load.requests,
        "message": message,
    }
    return JSONResponse(content, 202)
