"""Chats over HTTP: the published Open-Assistant protocol, `/v1/chats`, and OpenAI's responses.

Start in `lifespan.py`, which opens them, and `app.py`, which lists their routes.
"""

from radixway.api.chats.lifespan import ChatsApplication
from radixway.api.chats.paths import disabled_routes, is_chat_path, is_response_path
from radixway.api.chats.safety_screen import ChatSafetyScreening

__all__ = ["ChatSafetyScreening", "ChatsApplication", "disabled_routes", "is_chat_path", "is_response_path"]
