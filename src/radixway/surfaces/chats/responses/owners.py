"""Whose responses they are."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from fastapi import HTTPException, Request

from radixway.chat.credentials import BadToken
from radixway.chat.errors import NotFound
from radixway.chat.keys import PREFIX
from radixway.chat.records import OF_TENANTS
from radixway.chat.room import ChatRoom
from radixway.config import DEFAULT_TENANT
from radixway.pipeline import Unauthorized
from radixway.surfaces.chats.who import Who

_LOCAL = "local"
"""The provider of the one user of a gateway without keys."""
_PROGRAMS = frozenset({_LOCAL, OF_TENANTS})
"""Providers of users who are no single persons: limits of persons are none of theirs."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Somebody who has responses."""

    user_id: str
    is_person: bool


class Owners:
    """Finds them by what their requests bring."""

    def __init__(self, room: ChatRoom, who: Who, *, keys_are_needed: bool) -> None:
        """`keys_are_needed`: tenants have keys. Otherwise any key will do, as for chat completions, and
        whoever brings none of chats' own is one and the same local user.
        """
        self._room = room
        self._who = who
        self._keys_are_needed = keys_are_needed

    async def of(self, request: Request) -> Owner:
        """Raises Unauthorized."""
        if not self._keys_are_needed and not _is_ours(request):
            return Owner(await self._local(), is_person=False)
        try:
            user = await self._room.accounts.find(await self._who.user(request))
        except (HTTPException, BadToken, NotFound) as error:
            told = str(error.detail if isinstance(error, HTTPException) else error)
            raise Unauthorized(told, code="invalid_api_key") from None
        return Owner(user.id, user.provider not in _PROGRAMS)

    async def _local(self) -> str:
        accounts = self._room.accounts
        known = await accounts.find_by(DEFAULT_TENANT, _LOCAL, _LOCAL)
        if known is None:
            known = await accounts.enroll(DEFAULT_TENANT, _LOCAL, _LOCAL, _LOCAL, new_id=str(uuid.uuid4()))
        return known.id


def _is_ours(request: Request) -> bool:
    """Whether it brings what chats gave out, right or wrong: a key, or a token, which has four dots."""
    if "trustedclient" in request.headers:
        return True
    given = request.headers.get("authorization", "").partition(" ")[2] or request.headers.get("x-api-key", "")
    return given.count(".") == 4 or given.startswith(PREFIX)
