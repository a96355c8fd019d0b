"""`/v1/chats`: chats with branches, search, sharing and more."""

from fastapi import APIRouter

from radixway.api.chats.auth_dependencies import ChatAuthenticator
from radixway.api.chats.v1.chats import chat_routes, export_import_routes, search_routes, share_routes
from radixway.api.chats.v1.messages import message_routes
from radixway.api.chats.v1.webhooks import webhook_routes
from radixway.chat.service import ChatService

_BUILDERS = (search_routes, export_import_routes, share_routes, chat_routes, message_routes, webhook_routes)
"""Fixed names come before those in whose place a chat's id stands."""


def v1_routes(room: ChatService, who: ChatAuthenticator) -> list[APIRouter]:
    """Build the routers of `room`, for the users that `who` authenticates."""
    return [build(room, who) for build in _BUILDERS]
