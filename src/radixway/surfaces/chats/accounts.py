"""`/account` and `/admin`: users as themselves and as the administrator sees them."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response
from fastapi.responses import RedirectResponse
from pydantic import Field

from radixway.chat.records import PullWorkerRecord
from radixway.chat.room import ChatService
from radixway.surfaces.chats.bodies import LenientRequestBody
from radixway.surfaces.chats.who import ChatAuthenticator
from radixway.web import include_routes

_HIDDEN = "********"
"""In place of a key, of which nobody knows more than a hash."""


class NewPullWorker(LenientRequestBody):
    """Who may fetch jobs."""

    name: str = Field(min_length=1, max_length=256)
    trusted: bool = False


def account_routes(room: ChatService, who: ChatAuthenticator) -> APIRouter:
    """Users going, by their own wish or the administrator's."""
    router = APIRouter(tags=["accounts"])

    @router.delete("/account/")
    async def leave(user: Annotated[str, Depends(who.user)]) -> Response:
        """The user is nobody any more."""
        await room.accounts.delete_user(user)
        await room.user_erasure.end_answers([user])
        return Response()

    @router.delete("/account", include_in_schema=False)
    async def leave_by_way() -> RedirectResponse:
        """To the path with its slash, as published."""
        return RedirectResponse("/account/", 307)

    admin = APIRouter(prefix="/admin", dependencies=[Depends(who.require_admin)])

    @admin.delete("/refresh_tokens/{user_id}")
    async def revoke(user_id: str) -> Response:
        """No refresh token of theirs serves any more."""
        await room.token_issuer.revoke_user(user_id)
        return Response()

    @admin.delete("/users/{user_id}")
    async def remove(user_id: str) -> Response:
        """They are nobody any more."""
        await room.accounts.delete_user(user_id)
        await room.user_erasure.end_answers([user_id])
        return Response()

    @admin.put("/workers")
    async def let_in(body: NewPullWorker) -> dict[str, Any]:
        """A worker that may fetch jobs; its key is told here and never again."""
        worker, key = await room.workers.create_worker(body.name, trusted=body.trusted)
        return _worker_object(worker, key)

    @admin.get("/workers")
    async def workers() -> list[dict[str, Any]]:
        """Those that were let in."""
        return [_worker_object(worker, _HIDDEN) for worker in await room.workers.list_workers()]

    @admin.delete("/workers/{worker_id}")
    async def shut_out(worker_id: str) -> Response:
        """Its key opens nothing any more."""
        await room.workers.delete_worker(worker_id)
        return Response()

    include_routes(router, admin)
    return router


def _worker_object(worker: PullWorkerRecord, key: str) -> dict[str, Any]:
    return {"id": worker.id, "name": worker.name, "api_key": key, "trusted": worker.trusted}
