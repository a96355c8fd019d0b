"""SGLang's questions, so that its clients can point at the gateway as they would at one engine."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from radixway.pipeline import GatewayError, NoWorkersError
from radixway.routing import WorkerRegistry
from radixway.surfaces.headers import request_target
from radixway.transports import HttpTransport


def sglang_routes(registry: WorkerRegistry, transport: HttpTransport) -> APIRouter:
    """Questions go to one ready worker; what goes to all of them is in `fleet.py`."""
    router = APIRouter(tags=["sglang"])

    async def ask_one(request: Request) -> Response:
        """What one ready worker answers."""
        for worker in registry.candidates(None):
            try:
                status, kind, body = await transport.call_worker(
                    worker,
                    request.method,
                    request_target(request),
                    await request.body(),
                    via=request.headers.get("via"),
                )
            except GatewayError:
                continue
            return Response(body, status, media_type=kind)
        raise NoWorkersError("no worker can answer now")

    for path in ("/get_model_info", "/model_info", "/server_info", "/get_server_info"):
        router.add_api_route(path, ask_one, methods=["GET"])
    for path in ("/tokenize", "/detokenize", "/concate_and_append_request"):
        router.add_api_route(path, ask_one, methods=["POST"])

    return router
