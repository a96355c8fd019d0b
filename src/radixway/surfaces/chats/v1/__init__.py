"""`/v1/chats`: chats with branches, search, sharing and more, over the same rooms as the published paths."""

from fastapi import APIRouter

from radixway.chat.room import ChatRoom
from radixway.surfaces.chats.v1.chats import chat_routes
from radixway.surfaces.chats.v1.finding import finding_routes
from radixway.surfaces.chats.v1.messages import message_routes
from radixway.surfaces.chats.v1.moving import moving_routes
from radixway.surfaces.chats.v1.sharing import sharing_routes
from radixway.surfaces.chats.v1.webhooks import webhook_routes
from radixway.surfaces.chats.who import Who
from radixway.web import join


def v1_routes(room: ChatRoom, who: Who) -> APIRouter:
    """All of them; those with names of their own before those in whose place a chat's id stands."""
    router = APIRouter()
    join(
        router,
        finding_routes(room, who),
        moving_routes(room, who),
        sharing_routes(room, who),
        chat_routes(room, who),
        message_routes(room, who),
        webhook_routes(room, who),
    )
    return router
