"""`/v1/chats`: chats with branches, search, sharing and more, over the same rooms as the published paths."""

from fastapi import APIRouter

from radixway.chat.room import ChatService
from radixway.surfaces.chats.v1.chats import chat_routes
from radixway.surfaces.chats.v1.finding import search_routes
from radixway.surfaces.chats.v1.messages import message_routes
from radixway.surfaces.chats.v1.moving import export_import_routes
from radixway.surfaces.chats.v1.sharing import share_routes
from radixway.surfaces.chats.v1.webhooks import webhook_routes
from radixway.surfaces.chats.who import ChatAuthenticator
from radixway.web import include_routes


def v1_routes(room: ChatService, who: ChatAuthenticator) -> APIRouter:
    """All of them; those with names of their own before those in whose place a chat's id stands."""
    router = APIRouter()
    include_routes(
        router,
        search_routes(room, who),
        export_import_routes(room, who),
        share_routes(room, who),
        chat_routes(room, who),
        message_routes(room, who),
        webhook_routes(room, who),
    )
    return router
