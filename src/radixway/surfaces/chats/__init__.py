"""Chats over HTTP: the published service's protocol, on its own paths."""

from radixway.surfaces.chats.erasing import ErasableChats
from radixway.surfaces.chats.opening import Chats, is_for_chats

__all__ = ["Chats", "ErasableChats", "is_for_chats"]
