"""Chats over HTTP: the published service's protocol, on its own paths."""

from radixway.surfaces.chats.erasing import ErasableChats
from radixway.surfaces.chats.opening import Chats, is_for_chats
from radixway.surfaces.chats.screening import Screening

__all__ = ["Chats", "ErasableChats", "Screening", "is_for_chats"]
