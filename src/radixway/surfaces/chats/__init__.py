"""Chats over HTTP: the published service's protocol, on its own paths; OpenAI's responses beside it."""

from radixway.surfaces.chats.opening import Chats, is_for_chats
from radixway.surfaces.chats.responses.paths import closed_routes
from radixway.surfaces.chats.screening import Screening

__all__ = ["Chats", "Screening", "closed_routes", "is_for_chats"]
