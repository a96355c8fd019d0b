"""SGLang's administrative calls, so that its clients can point at the gateway as they would at one engine."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse

from radixway.pipeline import GatewayError, NoWorkers
from radixway.routing import Registry, Worker, WorkerState
from radixway.surfaces.access import AdminAccess
from radixway.transports import HttpTransport


def sglang_routes(registry: Registry, transport: HttpTransport, access: AdminAccess) -> APIRouter:
    """Questions go to one ready worker; `/flush_cache` goes to all."""
    router = APIRouter(tags=["sglang"])

    async def ask_one(request: Request) -> Response:
        """What one ready worker answers."""
        for worker in registry.candidates(None):
            try:
                status, kind, body = await transport.call(
                    worker,
                    request.method,
                    request.url.path,
                    await request.body(),
                    via=request.headers.get("via"),
                )
            except GatewayError:
                continue
            return Response(body, status, media_type=kind)
        raise NoWorkers("no worker can answer now")

    for path in ("/get_model_info", "/model_info", "/server_info", "/get_server_info"):
        router.add_api_route(path, ask_one, methods=["GET"])
    for path in ("/tokenize", "/detokenize", "/concate_and_append_request"):
        router.add_api_route(path, ask_one, methods=["POST"])

    @router.api_route("/flush_cache", methods=["GET", "POST"], dependencies=[Depends(access)])
    async def flush_cache(request: Request) -> Response:
        """Empty every ready worker's prefix cache. 200 if all of them did, 502 otherwise."""
        workers = [worker for worker in registry if worker.state is WorkerState.READY]
        if not workers:
            raise NoWorkers("no worker can answer now")
        done = await asyncio.gather(
            *(_flush(transport, worker, request.headers.get("via")) for worker in workers)
        )
        outcome = {worker.url: flushed for worker, flushed in zip(workers, done, strict=True)}
        return JSONResponse({"success": all(done), "workers": outcome}, 200 if all(done) else 502)

    return router


async def _flush(transport: HttpTransport, worker: Worker, via: str | None) -> bool:
    try:
        status, _, _ = await transport.call(worker, "POST", "/flush_cache", via=via)
    except GatewayError:
        return False
    return status == 200
