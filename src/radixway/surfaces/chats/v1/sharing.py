"""`/v1/chats/{chat}/shares`, and `/v1/chats/shared/{token}` for whoever has a link."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Response

from radixway.chat.room import ChatRoom
from radixway.surfaces.chats.v1.bodies import NewShare
from radixway.surfaces.chats.v1.chats import Id
from radixway.surfaces.chats.v1.shapes import MadeShare, Share, SharedThread
from radixway.surfaces.chats.who import Who

_PRIVATE = {"cache-control": "no-store", "referrer-policy": "no-referrer", "x-robots-tag": "noindex"}


def sharing_routes(room: ChatRoom, who: Who) -> APIRouter:
    """Links, and what they open."""
    router = APIRouter(prefix="/v1/chats", tags=["v1 shares"])
    User = Annotated[str, Depends(who.user)]

    @router.get("/shared/{token}")
    async def shared(token: Annotated[str, Path(max_length=64)], response: Response) -> SharedThread:
        """A thread as it was shared. Needs no login."""
        response.headers.update(_PRIVATE)
        return SharedThread.of(*await room.shares.open(token))

    @router.post("/{chat_id}/shares", status_code=201)
    async def share(chat_id: Id, user: User, body: NewShare) -> MadeShare:
        """A link to a thread; its token is told now and never again."""
        made, token = await room.shares.share(user, chat_id, body.message_id, body.expires_in_s)
        return MadeShare.made(made, token)

    @router.get("/{chat_id}/shares")
    async def shares(chat_id: Id, user: User) -> list[Share]:
        """Links of a chat that still open something."""
        return [Share.of(each) for each in await room.shares.of_chat(user, chat_id)]

    @router.delete("/{chat_id}/shares/{share_id}", status_code=204)
    async def revoke(chat_id: Id, share_id: Id, user: User) -> Response:
        """The link opens nothing any more."""
        await room.shares.revoke(user, chat_id, share_id)
        return Response(status_code=204)

    return router
