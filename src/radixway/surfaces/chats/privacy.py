"""`/v1/account`: everything that is known of a user, and that nothing is any more."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path
from fastapi.responses import JSONResponse
from starlette.responses import StreamingResponse

from radixway.chat.room import ChatService
from radixway.component import CannotErase, Subject
from radixway.erasure import ErasureService
from radixway.surfaces.chats.who import ChatAuthenticator

_LINES = "application/x-ndjson"
_RESPONSES: dict[int | str, dict[str, Any]] = {200: {"content": {_LINES: {"schema": {"type": "string"}}}}}
_HEADERS = {"cache-control": "no-store", "content-disposition": 'attachment; filename="account.jsonl"'}
_UserId = Annotated[str, Path(max_length=256, pattern=r"^[^\x00]*$")]


def privacy_routes(room: ChatService, who: ChatAuthenticator, erasure: ErasureService | None) -> APIRouter:
    """What users may know and wish of what is kept of them; `erasure`: None: this room is all there is."""
    router = APIRouter(tags=["privacy"])
    User = Annotated[str, Depends(who.user)]

    @router.get("/v1/account/export", responses=_RESPONSES, response_class=StreamingResponse)
    async def export(user: User) -> StreamingResponse:
        """Every row that is the user's, as JSON lines."""
        return _attachment_response(await room.account_export.export_user(user))

    @router.get(
        "/admin/users/{user_id}/export",
        responses=_RESPONSES,
        response_class=StreamingResponse,
        dependencies=[Depends(who.require_admin)],
    )
    async def export_of(user_id: _UserId) -> StreamingResponse:
        """Every row that is this user's, one that left included."""
        return _attachment_response(await room.account_export.export_user(user_id))

    @router.delete("/v1/account", responses={202: {"description": "The rest is asked again till it is done"}})
    async def erase(user: User) -> JSONResponse:
        """Forget the user with all their chats, in every room of the gateway."""
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
