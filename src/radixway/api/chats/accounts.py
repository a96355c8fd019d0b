"""`/account` and `/admin`: users as themselves and as the administrator sees them.

`/v1/account`: everything that is known of a user, and that nothing is any more.
"""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Response
from fastapi.responses import JSONResponse, RedirectResponse
from pydantic import Field
from starlette.responses import StreamingResponse

from radixway.api.chats.auth_dependencies import ChatAuthenticator
from radixway.api.chats.request_body import LenientRequestBody
from radixway.chat.records import PullWorkerRecord
from radixway.chat.service import ChatService
from radixway.core.component import CannotErase, Subject
from radixway.core.erasure import ErasureService
from radixway.core.http import include_routes

_HIDDEN = "********"
"""In place of a key, of which nobody knows more than a hash."""


class NewPullWorker(LenientRequestBody):
    """A pull worker to be registered."""

    name: str = Field(min_length=1, max_length=256)
    trusted: bool = False


def account_routes(room: ChatService, who: ChatAuthenticator) -> APIRouter:
    """Build the routes by which users, or the administrator, delete accounts, tokens and pull workers in
    `room`.
    """
    router = APIRouter(tags=["accounts"])

    @router.delete("/account/")
    async def leave(user: Annotated[str, Depends(who.require_user)]) -> Response:
        """Delete the user."""
        await room.accounts.delete_user(user)
        await room.user_erasure.end_answers([user])
        return Response()

    @router.delete("/account", include_in_schema=False)
    async def leave_by_way() -> RedirectResponse:
        """Redirect to the path with its slash, as published."""
        return RedirectResponse("/account/", 307)

    admin = APIRouter(prefix="/admin", dependencies=[Depends(who.require_admin)])

    @admin.delete("/refresh_tokens/{user_id}")
    async def revoke(user_id: str) -> Response:
        """Revoke the refresh tokens of `user_id`."""
        await room.token_issuer.revoke_user(user_id)
        return Response()

    @admin.delete("/users/{user_id}")
    async def remove(user_id: str) -> Response:
        """Delete the user `user_id`."""
        await room.accounts.delete_user(user_id)
        await room.user_erasure.end_answers([user_id])
        return Response()

    @admin.put("/workers")
    async def let_in(body: NewPullWorker) -> dict[str, Any]:
        """Register a pull worker; its key is shown once."""
        worker, key = await room.workers.create_worker(body.name, trusted=body.trusted)
        return _worker_object(worker, key)

    @admin.get("/workers")
    async def workers() -> list[dict[str, Any]]:
        """List the registered pull workers."""
        return [_worker_object(worker, _HIDDEN) for worker in await room.workers.list_workers()]

    @admin.delete("/workers/{worker_id}")
    async def shut_out(worker_id: str) -> Response:
        """Revoke the key of the pull worker `worker_id`."""
        await room.workers.delete_worker(worker_id)
        return Response()

    include_routes(router, admin)
    return router


def _worker_object(worker: PullWorkerRecord, key: str) -> dict[str, Any]:
    return {"id": worker.id, "name": worker.name, "api_key": key, "trusted": worker.trusted}


_LINES = "application/x-ndjson"
_RESPONSES: dict[int | str, dict[str, Any]] = {200: {"content": {_LINES: {"schema": {"type": "string"}}}}}
_HEADERS = {"cache-control": "no-store", "content-disposition": 'attachment; filename="account.jsonl"'}
_UserId = Annotated[str, Path(max_length=256, pattern=r"^[^\x00]*$")]


def privacy_routes(room: ChatService, who: ChatAuthenticator, erasure: ErasureService | None) -> APIRouter:
    """Build export and erasure of a user's data; without `erasure` only chats are erased."""
    router = APIRouter(tags=["privacy"])
    User = Annotated[str, Depends(who.require_user)]

    @router.get("/v1/account/export", responses=_RESPONSES, response_class=StreamingResponse)
    async def export(user: User) -> StreamingResponse:
        """Export every row of the user, as JSON lines."""
        return _attachment_response(await room.account_export.export_user(user))

    @router.get(
        "/admin/users/{user_id}/export",
        responses=_RESPONSES,
        response_class=StreamingResponse,
        dependencies=[Depends(who.require_admin)],
    )
    async def export_of(user_id: _UserId) -> StreamingResponse:
        """Export every row of `user_id`, even after that user left."""
        return _attachment_response(await room.account_export.export_user(user_id))

    @router.delete("/v1/account", responses={202: {"description": "The rest is asked again till it is done"}})
    async def erase(user: User) -> JSONResponse:
        """Erase the user with all their chats, in every component of the gateway."""
        known = await room.accounts.find_user(user)
        if erasure is not None:
            erased = await erasure.erase_everywhere(Subject(known.tenant, known.gateway_user))
            return JSONResponse(erased.to_dict(), 200 if erased.is_complete else 202)
        try:
            await room.user_erasure.erase_users(known.tenant, known.id)
        except CannotErase:
            return JSONResponse({"complete": False}, 202)
        return JSONResponse({"complete": True})

    return router


def _attachment_response(lines: AsyncIterator[bytes]) -> StreamingResponse:
    return StreamingResponse(lines, media_type=_LINES, headers=_HEADERS)
