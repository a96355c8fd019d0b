"""`/v1/account`: everything that is known of a user, and that nothing is any more."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path
from fastapi.responses import JSONResponse
from starlette.responses import StreamingResponse

from radixway.chat.room import ChatRoom
from radixway.component import CannotErase, Subject
from radixway.erasure import Erasure
from radixway.surfaces.chats.who import Who

_LINES = "application/x-ndjson"
_RESPONSES: dict[int | str, dict[str, Any]] = {200: {"content": {_LINES: {"schema": {"type": "string"}}}}}
_HEADERS = {"cache-control": "no-store", "content-disposition": 'attachment; filename="account.jsonl"'}
_UserId = Annotated[str, Path(max_length=256, pattern=r"^[^\x00]*$")]


def privacy_routes(room: ChatRoom, who: Who, erasure: Erasure | None) -> APIRouter:
    """What users may know and wish of what is kept of them; `erasure`: None: this room is all there is."""
    router = APIRouter(tags=["privacy"])
    User = Annotated[str, Depends(who.user)]

    @router.get("/v1/account/export", responses=_RESPONSES, response_class=StreamingResponse)
    async def export(user: User) -> StreamingResponse:
        """Every row that is the user's, as JSON lines."""
        return _attached(await room.export.of(user))

    @router.get(
        "/admin/users/{user_id}/export",
        responses=_RESPONSES,
        response_class=StreamingResponse,
        dependencies=[Depends(who.root)],
    )
    async def export_of(user_id: _UserId) -> StreamingResponse:
        """Every row that is this user's, one that left included."""
        return _attached(await room.export.of(user_id))

    @router.delete("/v1/account", responses={202: {"description": "The rest is asked again till it is done"}})
    async def erase(user: User) -> JSONResponse:
        """Forget the user with all their chats, in every room of the gateway."""
        known = await room.accounts.find(user)
        if erasure is not None:
            erased = await erasure.erase_everywhere(Subject(known.tenant, known.known_as))
            return JSONResponse(erased.told(), 200 if erased.complete else 202)
        try:
            await room.forgetting.forget(known.tenant, known.id)
        except CannotErase:
            return JSONResponse({"complete": False}, 202)
        return JSONResponse({"complete": True})

    return router


def _attached(lines: AsyncIterator[bytes]) -> StreamingResponse:
    return StreamingResponse(lines, media_type=_LINES, headers=_HEADERS)
