"""`/v1/chats`: chats with branches, search, sharing and more."""

from fastapi import APIRouter

from radixway.api.chats.auth_dependencies import ChatAuthenticator
from radixway.api.chats.v1.chats import chat_routes, export_import_routes, search_routes, share_routes
from radixway.api.chats.v1.messages import message_routes
from radixway.api.chats.v1.webhooks import webhook_routes
from radixway.chat.service import ChatService

_BUILDERS = (search_routes, export_import_routes, share_routes, chat_routes, message_routes, webhook_routes)
"""Routes with fixed names come before `{chat_id}`."""


def v1_routes(service: ChatService, auth: ChatAuthenticator) -> list[APIRouter]:
    """Build the routers of `service`, for the users that `auth` authenticates."""
    return [build(service, auth) for build in _BUILDERS]
