"""`/v1/chats/export` and `/v1/chats/import`: chats as JSON lines."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from starlette.responses import StreamingResponse

from radixway.chat.portable import encode_chat, to_portable_chat
from radixway.chat.records import Chat
from radixway.chat.room import ChatService
from radixway.surfaces.chats.v1.chats import Id
from radixway.surfaces.chats.v1.shapes import ImportedChats
from radixway.surfaces.chats.who import ChatAuthenticator

_LINES = "application/x-ndjson"
_TEXT: dict[str, Any] = {"content": {_LINES: {"schema": {"type": "string"}}}}
_RESPONSES: dict[int | str, dict[str, Any]] = {200: _TEXT}
_CHATS_PER_PAGE = 100


def export_import_routes(room: ChatService, who: ChatAuthenticator) -> APIRouter:
    """Out of here, and in."""
    router = APIRouter(prefix="/v1/chats", tags=["v1 moving"])
    User = Annotated[str, Depends(who.user)]

    async def lines(user: str, chats: list[Chat]) -> bytes:
        tags = await room.tags.tags_of_chats([chat.id for chat in chats])
        parts = [
            encode_chat(
                to_portable_chat(chat, tags[chat.id], await room.messages.list_messages(user, chat.id))
            )
            for chat in chats
        ]
        return b"".join(parts)

    async def everything(user: str) -> AsyncIterator[bytes]:
        after: str | None = None
        while True:
            page = await room.chats.list_chats(user, limit=_CHATS_PER_PAGE, after=after, hidden=True)
            yield await lines(user, page.chats)
            if page.next is None:
                return
            after = page.next

    @router.get("/export", responses=_RESPONSES, response_class=Response)
    async def export(user: User) -> Response:
        """All chats of the user, hidden and archived ones too."""
        return StreamingResponse(everything(user), media_type=_LINES)

    @router.post("/import", status_code=201, openapi_extra={"requestBody": _TEXT | {"required": True}})
    async def take_in(user: User, request: Request) -> ImportedChats:
        """The chats of a file, all of them or none, under new ids."""
        await room.accounts.find_user(user)
        return ImportedChats(chats=await room.importer.import_chats(user, await request.body()))

    @router.get("/{chat_id}/export", responses=_RESPONSES, response_class=Response)
    async def export_one(chat_id: Id, user: User) -> Response:
        """One chat, with all its branches."""
        chat = await room.chats.find_chat(user, chat_id)
        return Response(await lines(user, [chat]), media_type=_LINES)

    return router
