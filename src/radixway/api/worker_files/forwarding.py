"""Calls about what one worker keeps, passed on to it."""

from fastapi import Request, Response

from radixway.api.request_headers import request_target
from radixway.api.worker_files.locations import WorkerFiles
from radixway.core.pipeline import GatewayError, TenantPolicy
from radixway.core.pipeline.endpoints import BATCHES
from radixway.routing import Worker


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
        await files.note_files(root, body, worker, tenancy)  # what came of a batch are files of its tenant
    if request.scope["path"].endswith(f"{root}/{file_id}") and _is_gone(request.method, status, worker, root):
        await files.forget_file(root, file_id, tenancy)
    return Response(body, status, media_type=kind)


def _is_gone(method: str, status: int, worker: Worker, root: str) -> bool:
    """Return whether `worker` has no more what it was asked for by `method` at its own path beneath `root`.

    404 says so if it has the path: one that shows no response may go on from it all the same.
    """
    if method == "DELETE" and 200 <= status < 300:
        return True
    paths = worker.surfaces
    has_path = paths is None or any(
        path.startswith(root + "/{") and path.endswith("}") and path.count("/") == root.count("/") + 1
        for path in paths
    )
    return status == 404 and has_path
