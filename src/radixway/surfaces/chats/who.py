"""Who is asking: a user by their token."""

from __future__ import annotations

import secrets

from fastapi import HTTPException, Request

from radixway.chat.room import ChatRoom


class Who:
    """Finds users, and the administrator, by what their requests bring."""

    def __init__(self, room: ChatRoom) -> None:
        self._room = room

    async def user(self, request: Request) -> str:
        """A FastAPI dependency: the user's id. Raises HTTPException, BadToken."""
        return self._room.credentials.user_of(_bearer(request, 403, "Not authenticated"))

    async def root(self, request: Request) -> None:
        """A FastAPI dependency: the administrator alone passes. Raises HTTPException."""
        token = _bearer(request, 401, "Missing token")
        if not secrets.compare_digest(token.encode(), self._room.secrets.root_token.encode()):
            raise HTTPException(401, "Invalid token")


def _bearer(request: Request, status: int, missing: str) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not token:
        raise HTTPException(status, missing)
    return token.strip()
