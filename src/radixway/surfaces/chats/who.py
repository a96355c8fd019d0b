"""Who is asking: a user by their token, or the server they came through by its own."""

from __future__ import annotations

import base64
import secrets
from typing import Annotated

import msgspec
from fastapi import HTTPException, Request
from msgspec import Meta

from radixway.chat.credentials import BadToken
from radixway.chat.errors import NotFound
from radixway.chat.records import User
from radixway.chat.room import ChatRoom
from radixway.config import DEFAULT_TENANT

_MOST_BYTES = 8192
"""Of the header `TrustedClient`."""
_Name = Annotated[str, Meta(min_length=1, max_length=256, pattern="^[^\x00]*$")]


class TrustedClient(msgspec.Struct, frozen=True):
    """What the header `TrustedClient` holds: base64 of this, as JSON."""

    api_key: str
    client: _Name
    """The server, which is its users' provider."""
    user_id: _Name
    """For somebody new."""
    provider_account_id: _Name
    username: _Name


class Who:
    """Finds users, and the administrator, by what their requests bring."""

    def __init__(self, room: ChatRoom) -> None:
        self._room = room
        self._keys = [key.get_secret_value().encode() for key in room.config.trusted_client_keys]

    async def user(self, request: Request) -> str:
        """A FastAPI dependency: the user's id. Raises HTTPException, BadToken, NotFound."""
        accounts = self._room.accounts
        if "trustedclient" in request.headers:
            client = self.trusted(request)
            known = await accounts.find_by(DEFAULT_TENANT, client.client, client.provider_account_id)
            if known is None:
                raise NotFound("User not found")
            return known.id
        user_id = self._room.credentials.user_of(_bearer(request, 403, "Not authenticated"))
        try:
            return (await accounts.find(user_id)).id
        except NotFound:
            raise BadToken("Invalid token") from None

    def trusted(self, request: Request) -> TrustedClient:
        """Whom a trusted server speaks for. Raises HTTPException, 401."""
        given = request.headers.get("trustedclient")
        if given is None:
            raise HTTPException(401, "Missing token")
        try:
            client = msgspec.json.decode(_unpacked(given), type=TrustedClient)
        except ValueError:
            raise HTTPException(401, "Invalid token") from None
        if not any(secrets.compare_digest(client.api_key.encode(), key) for key in self._keys):
            raise HTTPException(401, "Unauthorized client")
        return client

    async def enrolled(self, client: TrustedClient) -> User:
        """That user, somebody new where there is none. Raises NotFound: the id is somebody else's."""
        return await self._room.accounts.enroll(
            DEFAULT_TENANT,
            client.client,
            client.provider_account_id,
            client.username,
            new_id=client.user_id,
        )

    async def root(self, request: Request) -> None:
        """A FastAPI dependency: the administrator alone passes. Raises HTTPException."""
        token = _bearer(request, 401, "Invalid token")
        if not secrets.compare_digest(token.encode(), self._room.secrets.root_token.encode()):
            raise HTTPException(401, "Invalid token")


def _unpacked(given: str) -> bytes:
    """Raises ValueError."""
    if len(given) > _MOST_BYTES:
        raise ValueError("too long")
    return base64.b64decode(given, validate=True)


def _bearer(request: Request, status: int, missing: str) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not token:
        raise HTTPException(status, missing)
    return token.strip()
