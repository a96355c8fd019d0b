"""Calls about what one worker keeps, passed on to it."""

from fastapi import Request, Response

from radixway.api.request_headers import request_target
from radixway.api.worker_files.locations import WorkerFiles
from radixway.core.pipeline import GatewayError, TenantPolicy
from radixway.core.pipeline.endpoints import BATCHES


async def forward_to_holder(
    files: WorkerFiles, request: Request, root: str, file_id: str, param: str, tenancy: TenantPolicy | None
) -> Response:
    """Return the reply to `request` of the worker that has `file_id` beneath `root`.

    Raises FileNotFoundAtWorkersError, which names `param`, and GatewayError (503) if it does not answer.
    """
    worker = await files.find_worker(root, file_id, tenancy, param)
    reply = await files.call_worker(
        worker, request.method, request_target(request), await request.body(), request.headers.get("via")
    )
    if reply is None:
        raise GatewayError(
            f"worker {worker.name}, which has it, does not answer",
            status=503,
            code="worker_away",
            retry_after_s=1,
        )
    status, kind, body = reply
    if status == 200 and kind == "application/json" and root == BATCHES.path:
        files.note_files(body, worker, tenancy)  # what came of a batch are files of its tenant
    return Response(body, status, media_type=kind)
