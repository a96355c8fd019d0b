"""Chats over HTTP: the published service's protocol, on its own paths; OpenAI's responses beside it."""

from radixway.api.chats.lifespan import ChatsApplication, is_chat_path
from radixway.api.chats.paths import disabled_routes
from radixway.api.chats.safety_screen import ChatSafetyScreening

__all__ = ["ChatSafetyScreening", "ChatsApplication", "disabled_routes", "is_chat_path"]
