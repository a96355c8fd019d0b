"""`/v1/chats`: chats with branches, search, sharing and more."""

from fastapi import APIRouter

from radixway.api.chats.auth_dependencies import ChatAuthenticator
from radixway.api.chats.v1.chats import chat_routes, export_import_routes, search_routes, share_routes
from radixway.api.chats.v1.messages import message_routes
from radixway.api.chats.v1.webhooks import webhook_routes
from radixway.chat.service import ChatService
from radixway.core.http import include_routes


def v1_routes(room: ChatService, who: ChatAuthenticator) -> APIRouter:
    """Collect the routes of `room`; fixed names come before those in whose place a chat's id stands."""
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
