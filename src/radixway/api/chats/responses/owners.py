"""Owners of responses."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from fastapi import HTTPException, Request

from radixway.api.chats.auth_dependencies import ChatAuthenticator
from radixway.chat.api_keys import PREFIX
from radixway.chat.errors import ChatNotFoundError
from radixway.chat.records import OF_TENANTS
from radixway.chat.service import ChatService
from radixway.chat.user_tokens import InvalidTokenError
from radixway.core.config import DEFAULT_TENANT
from radixway.core.pipeline import UnauthorizedError

_LOCAL = "local"
"""The provider of the one user of a gateway without keys."""
_PROGRAMS = frozenset({_LOCAL, OF_TENANTS})
"""Providers of users who are no single persons: limits of persons are none of theirs."""


@dataclass(frozen=True, slots=True)
class ResponseOwner:
    """The user who has a response."""

    user_id: str
    is_person: bool


class ResponseOwners:
    """Finds them by what their requests bring."""

    def __init__(self, room: ChatService, who: ChatAuthenticator, *, keys_are_needed: bool) -> None:
        """`keys_are_needed`: tenants have keys. Otherwise any key will do, as for chat completions, and
        whoever brings none of chats' own is one and the same local user.
        """
        self._room = room
        self._who = who
        self._keys_are_needed = keys_are_needed

    async def owner_of_request(self, request: Request) -> ResponseOwner:
        """Return the owner by the credentials of `request`. Raises UnauthorizedError."""
        if not self._keys_are_needed and not _brings_chat_credentials(request):
            return ResponseOwner(await self._local_user(), is_person=False)
        try:
            user = await self._room.accounts.find_user(await self._who.require_user(request))
        except (HTTPException, InvalidTokenError, ChatNotFoundError) as error:
            told = str(error.detail if isinstance(error, HTTPException) else error)
            raise UnauthorizedError(told, code="invalid_api_key") from None
        return ResponseOwner(user.id, user.provider not in _PROGRAMS)

    async def _local_user(self) -> str:
        accounts = self._room.accounts
        known = await accounts.find_provider_user(DEFAULT_TENANT, _LOCAL, _LOCAL)
        if known is None:
            known = await accounts.enroll_user(
                DEFAULT_TENANT, _LOCAL, _LOCAL, _LOCAL, new_id=str(uuid.uuid4())
            )
        return known.id


def _brings_chat_credentials(request: Request) -> bool:
    """Whether it brings what chats gave out, right or wrong: a key, or a token, which has four dots."""
    if "trustedclient" in request.headers:
        return True
    given = request.headers.get("authorization", "").partition(" ")[2] or request.headers.get("x-api-key", "")
    return given.count(".") == 4 or given.startswith(PREFIX)
