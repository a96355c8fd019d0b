"""`/account` and `/admin`: users as themselves and as the administrator sees them."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response
from fastapi.responses import RedirectResponse

from radixway.chat.room import ChatRoom
from radixway.surfaces.chats.who import Who


def account_routes(room: ChatRoom, who: Who) -> APIRouter:
    """Users going, by their own wish or the administrator's."""
    router = APIRouter(tags=["accounts"])

    @router.delete("/account/")
    async def leave(user: Annotated[str, Depends(who.user)]) -> Response:
        """The user is nobody any more."""
        await room.accounts.delete(user)
        return Response()

    @router.delete("/account", include_in_schema=False)
    async def leave_by_way() -> RedirectResponse:
        """To the path with its slash, as published."""
        return RedirectResponse("/account/", 307)

    admin = APIRouter(prefix="/admin", dependencies=[Depends(who.root)])

    @admin.delete("/refresh_tokens/{user_id}")
    async def revoke(user_id: str) -> Response:
        """No refresh token of theirs serves any more."""
        await room.credentials.revoke(user_id)
        return Response()

    @admin.delete("/users/{user_id}")
    async def remove(user_id: str) -> Response:
        """They are nobody any more."""
        await room.accounts.delete(user_id)
        return Response()

    router.include_router(admin)
    return router
