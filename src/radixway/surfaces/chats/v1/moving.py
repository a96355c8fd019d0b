"""`/v1/chats/export` and `/v1/chats/import`: chats as JSON lines."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from starlette.responses import StreamingResponse

from radixway.chat.portable import portable, written
from radixway.chat.records import Chat
from radixway.chat.room import ChatRoom
from radixway.surfaces.chats.v1.chats import Id
from radixway.surfaces.chats.v1.shapes import Imported
from radixway.surfaces.chats.who import Who

_LINES = "application/x-ndjson"
_TEXT: dict[str, Any] = {"content": {_LINES: {"schema": {"type": "string"}}}}
_RESPONSES: dict[int | str, dict[str, Any]] = {200: _TEXT}
_PAGE = 100


def moving_routes(room: ChatRoom, who: Who) -> APIRouter:
    """Out of here, and in."""
    router = APIRouter(prefix="/v1/chats", tags=["v1 moving"])
    User = Annotated[str, Depends(who.user)]

    async def lines(user: str, chats: list[Chat]) -> bytes:
        tags = await room.tags.of([chat.id for chat in chats])
        parts = [
            written(portable(chat, tags[chat.id], await room.messages.of_chat(user, chat.id)))
            for chat in chats
        ]
        return b"".join(parts)

    async def everything(user: str) -> AsyncIterator[bytes]:
        after: str | None = None
        while True:
            page = await room.chats.page(user, limit=_PAGE, after=after, hidden=True)
            yield await lines(user, page.chats)
            if page.next is None:
                return
            after = page.next

    @router.get("/export", responses=_RESPONSES, response_class=Response)
    async def export(user: User) -> Response:
        """All chats of the user, hidden and archived ones too."""
        return StreamingResponse(everything(user), media_type=_LINES)

    @router.post("/import", status_code=201, openapi_extra={"requestBody": _TEXT | {"required": True}})
    async def take_in(user: User, request: Request) -> Imported:
        """The chats of a file, all of them or none, under new ids."""
        await room.accounts.find(user)
        return Imported(chats=await room.imports.put(user, await request.body()))

    @router.get("/{chat_id}/export", responses=_RESPONSES, response_class=Response)
    async def export_one(chat_id: Id, user: User) -> Response:
        """One chat, with all its branches."""
        chat = await room.chats.find(user, chat_id)
        return Response(await lines(user, [chat]), media_type=_LINES)

    return router
