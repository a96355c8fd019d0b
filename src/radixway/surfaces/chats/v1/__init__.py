"""`/v1/chats`: chats with branches, search, sharing and more, over the same rooms as the published paths."""

from fastapi import APIRouter

from radixway.chat.room import ChatRoom
from radixway.surfaces.chats.v1.chats import chat_routes
from radixway.surfaces.chats.v1.messages import message_routes
from radixway.surfaces.chats.who import Who


def v1_routes(room: ChatRoom, who: Who) -> APIRouter:
    """All of them."""
    router = APIRouter()
    router.include_router(chat_routes(room, who))
    router.include_router(message_routes(room, who))
    return router
