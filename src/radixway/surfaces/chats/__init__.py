"""Chats over HTTP: the published service's protocol, on its own paths; OpenAI's responses beside it."""

from radixway.surfaces.chats.opening import ChatsApplication, is_chat_path
from radixway.surfaces.chats.responses.paths import disabled_routes
from radixway.surfaces.chats.screening import ChatSafetyScreening

__all__ = ["ChatSafetyScreening", "ChatsApplication", "disabled_routes", "is_chat_path"]
