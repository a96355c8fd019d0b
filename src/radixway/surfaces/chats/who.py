"""Who is asking: a user by their token or key, or the server they came through by its own.

Whatever is shown is looked up with every call: who was deleted, and what was revoked, counts for nothing at
once and in every process.
"""

from __future__ import annotations

import base64
import secrets
import uuid
from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated

import msgspec
from fastapi import HTTPException, Request
from fastapi.routing import APIRoute
from msgspec import Meta
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from radixway.chat.accounts import HOUSE
from radixway.chat.credentials import BadToken
from radixway.chat.errors import NotFound
from radixway.chat.keys import PREFIX, KeyScope
from radixway.chat.records import OF_TENANTS, User, UserRole, Worker
from radixway.chat.room import ChatRoom
from radixway.config import DEFAULT_TENANT
from radixway.surfaces.access import BY, NOBODY
from radixway.tenants import KeyRing, KnownKey

_MOST_BYTES = 8192
"""Of the header `TrustedClient`."""
_USER = "radixway.user"
"""Where a scope says whose request it is, once that was looked up."""
OPERATOR = "operator"
"""The provider of the one user as whom whoever runs the gateway chats."""
_RESERVED = frozenset({"debug", "discord", "github", "google", "local", HOUSE, OF_TENANTS, OPERATOR})
"""Providers that no trusted server is; those of OpenID Connect are URLs."""
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

    def __init__(self, room: ChatRoom, ring: KeyRing | None = None) -> None:
        """`ring`: keys of the section `tenants`."""
        self._room = room
        self._ring = ring
        self._trusted = [key.get_secret_value().encode() for key in room.config.trusted_client_keys]

    async def user(self, request: Request) -> str:
        """A FastAPI dependency: the user's id. Raises HTTPException, BadToken, NotFound."""
        found: str | None = request.scope.get(_USER)
        if found is None:
            found = request.scope[_USER] = await self._find_user(request)
        return found

    async def _find_user(self, request: Request) -> str:
        if "trustedclient" in request.headers:
            client, tenant = await self.trusted(request)
            known = await self._room.accounts.find_by(tenant, client.client, client.provider_account_id)
            if known is None:
                raise NotFound("User not found")
            return known.id
        token = _token(request, 403, "Not authenticated")
        if (named := self._of_tenants(token)) is not None:
            return (await self._user_of(named)).id
        user, _ = await self._known(token)
        if user is None:
            raise HTTPException(403, "This key is not for calls of users")
        return user.id

    async def root(self, request: Request) -> None:
        """A FastAPI dependency: administrators alone pass. Raises HTTPException, BadToken."""
        request.scope[BY] = NOBODY
        token = _token(request, 401, "Invalid token")
        if secrets.compare_digest(token.encode(), self._room.secrets.root_token.encode()):
            request.scope[BY] = "root_token"
            return
        named = self._of_tenants(token)
        is_admin = (await self._known(token))[1] if named is None else "admin" in named.scopes
        if not is_admin:
            raise HTTPException(403, "Only administrators may do this")
        request.scope[BY] = "chats" if named is None else f"tenant:{named.tenant}"

    def ask_before_bodies(self, routes: Iterable[BaseRoute]) -> None:
        """Find out who asks before a body is read; FastAPI reads it before it asks its dependencies."""
        for route in routes:
            if isinstance(route, APIRoute) and route.body_field is not None:
                for dependency in route.dependant.dependencies:
                    if dependency.call in (self.user, self.root):
                        route.app = _asked_first(route.app, dependency.call)

    async def worker(self, key: str | None) -> Worker | None:
        """Whose key it is, among those that may fetch jobs."""
        if not key:
            return None
        if not key.startswith(PREFIX):
            named = self._of_tenants(key)
            if named is not None and "worker" in named.scopes:
                return Worker(f"tenant:{named.tenant}", named.tenant, trusted=False, created_at=0.0)
            return await self._room.workers.find_by_key(key)
        try:
            found = await self._room.keys.find(key)
        except BadToken:
            return None
        if found is None or found[0].scope is not KeyScope.WORKER:
            return None
        return Worker(found[0].id, found[0].name, trusted=False, created_at=found[0].created_at)

    async def trusted(self, request: Request) -> tuple[TrustedClient, str]:
        """Whom a trusted server speaks for, and the tenant of its users. Raises HTTPException, 401."""
        given = request.headers.get("trustedclient")
        if given is None:
            raise HTTPException(401, "Missing token")
        try:
            client = msgspec.json.decode(_unpacked(given), type=TrustedClient)
        except ValueError:
            raise HTTPException(401, "Invalid token") from None
        tenant = await self._tenant_of(client)
        if tenant is None or client.client in _RESERVED or "://" in client.client:
            raise HTTPException(401, "Unauthorized client")
        return client, tenant

    async def enrolled(self, request: Request) -> User:
        """The user whom a trusted server speaks for, somebody new where there is none.

        Raises HTTPException; NotFound: the id is somebody else's.
        """
        client, tenant = await self.trusted(request)
        # A server chooses ids of the tenant that all share by default; another tenant's would bump into them.
        new_id = client.user_id if tenant == DEFAULT_TENANT else str(uuid.uuid4())
        return await self._room.accounts.enroll(
            tenant, client.client, client.provider_account_id, client.username, new_id=new_id
        )

    async def _tenant_of(self, client: TrustedClient) -> str | None:
        """Of a trusted server's users; None: it is none."""
        given = client.api_key.encode()
        if any(secrets.compare_digest(given, key) for key in self._trusted):
            return DEFAULT_TENANT
        if client.api_key.startswith(PREFIX):
            try:
                found = await self._room.keys.find(client.api_key)
            except BadToken:
                return None
            key = None if found is None else found[0]
            may = key is not None and key.scope is KeyScope.TRUSTED and key.client in (None, client.client)
            return key.tenant if key is not None and may else None
        named = self._of_tenants(client.api_key)
        return named.tenant if named is not None and "trusted" in named.scopes else None

    async def _known(self, token: str) -> tuple[User | None, bool]:
        """Whose token or key it is, and whether it is an administrator's. Raises BadToken."""
        if token.startswith(PREFIX):
            found = await self._room.keys.find(token)
            if found is None:
                raise BadToken("Invalid token")
            key, user = found
            return user, key.scope is KeyScope.ADMIN
        try:
            user = await self._room.accounts.find(self._room.credentials.user_of(token))
        except NotFound:
            raise BadToken("Invalid token") from None
        return user, user.role == UserRole.ADMIN

    def _of_tenants(self, token: str) -> KnownKey | None:
        return None if self._ring is None else self._ring.find([(b"x-api-key", token.encode())])

    async def _user_of(self, named: KnownKey) -> User:
        """Somebody new with the first call. A key that names nobody is the tenant's, as one user."""
        if not named.may_ask:
            raise HTTPException(403, "This key is not for calls of users")
        account = named.user or ""
        known = await self._room.accounts.find_by(named.tenant, OF_TENANTS, account)
        if known is not None:
            return known
        return await self._room.accounts.enroll(
            named.tenant, OF_TENANTS, account, named.user or named.tenant, new_id=str(uuid.uuid4())
        )


def _asked_first(app: ASGIApp, ask: Callable[[Request], Awaitable[object]]) -> ASGIApp:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await ask(Request(scope))
        await app(scope, receive, send)

    return answer


def _unpacked(given: str) -> bytes:
    """Raises ValueError."""
    if len(given) > _MOST_BYTES:
        raise ValueError("too long")
    return base64.b64decode(given, validate=True)


def _token(request: Request, status: int, missing: str) -> str:
    """From `Authorization: Bearer`, or, where there is no such header, from `X-API-Key`."""
    given = request.headers.get("authorization")
    if given is None:
        kind, token = "bearer", request.headers.get("x-api-key", "")
    else:
        kind, _, token = given.partition(" ")
    if kind.lower() != "bearer" or not token.strip():
        raise HTTPException(status, missing)
    return token.strip()
