"""`/v1/chats/{chat}/shares`, and `/v1/chats/shared/{token}` for whoever has a link."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Response

from radixway.chat.room import ChatService
from radixway.surfaces.chats.v1.bodies import NewShareLink
from radixway.surfaces.chats.v1.chats import Id
from radixway.surfaces.chats.v1.shapes import SharedThread, ShareRead, ShareWithToken
from radixway.surfaces.chats.who import ChatAuthenticator

_PRIVATE = {"cache-control": "no-store", "referrer-policy": "no-referrer", "x-robots-tag": "noindex"}


def share_routes(room: ChatService, who: ChatAuthenticator) -> APIRouter:
    """Links, and what they open."""
    router = APIRouter(prefix="/v1/chats", tags=["v1 shares"])
    User = Annotated[str, Depends(who.user)]

    @router.get("/shared/{token}")
    async def shared(token: Annotated[str, Path(max_length=64)], response: Response) -> SharedThread:
        """A thread as it was shared. Needs no login."""
        response.headers.update(_PRIVATE)
        return SharedThread.from_records(*await room.share_links.open_link(token))

    @router.post("/{chat_id}/shares", status_code=201)
    async def share(chat_id: Id, user: User, body: NewShareLink) -> ShareWithToken:
        """A link to a thread; its token is told now and never again."""
        made, token = await room.share_links.create_link(user, chat_id, body.message_id, body.expires_in_s)
        return ShareWithToken.from_record_with_token(made, token)

    @router.get("/{chat_id}/shares")
    async def shares(chat_id: Id, user: User) -> list[ShareRead]:
        """Links of a chat that still open something."""
        return [ShareRead.from_record(each) for each in await room.share_links.list_links(user, chat_id)]

    @router.delete("/{chat_id}/shares/{share_id}", status_code=204)
    async def revoke(chat_id: Id, share_id: Id, user: User) -> Response:
        """The link opens nothing any more."""
        await room.share_links.revoke_link(user, chat_id, share_id)
        return Response(status_code=204)

    return router
