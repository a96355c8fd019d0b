"""Authentication of chats: a user by their token or key, or the server they came through by its own."""

import base64
import secrets
import uuid
from collections.abc import Iterable
from contextlib import suppress
from time import time
from typing import Annotated

import msgspec
from fastapi import HTTPException, Request
from fastapi.routing import APIRoute
from msgspec import Meta
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from radixway.api.admin_access import BY, NOBODY
from radixway.chat.accounts import HOUSE
from radixway.chat.api_keys import PREFIX, ApiKey, KeyScope
from radixway.chat.asking_key import asking_key
from radixway.chat.errors import ChatNotFoundError
from radixway.chat.records import OF_TENANTS, PullWorkerRecord, User, UserRole
from radixway.chat.service import ChatService
from radixway.chat.user_tokens import InvalidTokenError
from radixway.core.config import DEFAULT_TENANT
from radixway.core.tenants import KeyRing, KnownKey

_MAX_HEADER_BYTES = 8192
_USER = "radixway.user"
"""Scope key of the resolved user."""
OPERATOR = "operator"
"""Provider of the one user as whom the gateway's operator chats."""
_RESERVED = frozenset({"debug", "discord", "github", "google", "local", HOUSE, OF_TENANTS, OPERATOR})
"""Provider names that a trusted server may not use; those of OpenID Connect are URLs."""
_Name = Annotated[str, Meta(min_length=1, max_length=256, pattern="^[^\x00]*$")]


class TrustedClient(msgspec.Struct, frozen=True):
    """The content of the header `TrustedClient`: base64 of this, as JSON."""

    api_key: str
    client: _Name
    """The server, which is its users' provider."""
    user_id: _Name
    """User id for a new user."""
    provider_account_id: _Name
    username: _Name


class ChatAuthenticator:
    """Finds users, and the administrator, by the credentials of their requests."""

    def __init__(self, service: ChatService, ring: KeyRing | None = None) -> None:
        """`ring`: keys of the section `tenants`."""
        self._service = service
        self._ring = ring
        self._trusted = [key.get_secret_value().encode() for key in service.config.trusted_client_keys]

    async def require_user(self, request: Request) -> str:
        """Return the user of `request`. Raises HTTPException, InvalidTokenError, ChatNotFoundError."""
        found: str | None = request.scope.get(_USER)
        if found is None:
            found = request.scope[_USER] = await self._authenticate_user(request)
        return found

    async def _authenticate_user(self, request: Request) -> str:
        if "trustedclient" in request.headers:
            client, tenant = await self.require_trusted_client(request)
            known = await self._service.accounts.find_provider_user(
                tenant, client.client, client.provider_account_id
            )
            if known is None:
                raise ChatNotFoundError("User not found")
            return known.id
        asking_key.set(None)  # the context may be a whole connection's
        token = _bearer_token(request, 403, "Not authenticated")
        if (named := self._tenant_key(token)) is not None:
            if named.access is not None:
                named.access.check_call(request.scope["path"], time())
                asking_key.set(named.access.id)
            return (await self._user_of_key(named)).id
        user, _ = await self._user_of_token(token)
        if user is None:
            raise HTTPException(403, "This key is not for calls of users")
        return user.id

    async def require_admin(self, request: Request) -> None:
        """Refuse a `request` that is no administrator's. Raises HTTPException, InvalidTokenError."""
        request.scope[BY] = NOBODY
        token = _bearer_token(request, 401, "Invalid token")
        if secrets.compare_digest(token.encode(), self._service.secrets.root_token.encode()):
            request.scope[BY] = "root_token"
            return
        named = self._tenant_key(token)
        is_admin = (await self._user_of_token(token))[1] if named is None else "admin" in named.scopes
        if not is_admin:
            raise HTTPException(403, "Only administrators may do this")
        request.scope[BY] = "chats" if named is None else f"tenant:{named.tenant}"

    def authenticate_before_bodies(self, routes: Iterable[BaseRoute]) -> None:
        """Authenticate before FastAPI reads the bodies of `routes`, which it does before dependencies run."""
        for route in routes:
            if isinstance(route, APIRoute):
                route.app = self._authenticate_first(route, route.app)

    def _authenticate_first(self, route: APIRoute, app: ASGIApp) -> ASGIApp:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            if route.body_field is not None:
                for dependency in route.dependant.dependencies:
                    if dependency.call in (self.require_user, self.require_admin):
                        await dependency.call(Request(scope))
            await app(scope, receive, send)

        return answer

    async def find_worker(self, key: str | None) -> PullWorkerRecord | None:
        """Return the pull worker whose `key` it is, if there is one."""
        if not key:
            return None
        if not key.startswith(PREFIX):
            named = self._tenant_key(key)
            if named is not None and "worker" in named.scopes:
                return PullWorkerRecord(f"tenant:{named.tenant}", named.tenant, trusted=False, created_at=0.0)
            return await self._service.workers.find_by_key(key)
        found = await self._find_api_key(key)
        if found is None or found.scope is not KeyScope.WORKER:
            return None
        return PullWorkerRecord(found.id, found.name, trusted=False, created_at=found.created_at)

    async def require_trusted_client(self, request: Request) -> tuple[TrustedClient, str]:
        """Return whom a trusted server speaks for, and its users' tenant. Raises HTTPException (401)."""
        given = request.headers.get("trustedclient")
        if given is None:
            raise HTTPException(401, "Missing token")
        if len(given) > _MAX_HEADER_BYTES:
            raise HTTPException(401, "Invalid token")
        try:
            client = msgspec.json.decode(base64.b64decode(given, validate=True), type=TrustedClient)
        except ValueError:
            raise HTTPException(401, "Invalid token") from None
        tenant = await self._tenant_of_client(client)
        if tenant is None or client.client in _RESERVED or "://" in client.client:
            raise HTTPException(401, "Unauthorized client")
        return client, tenant

    async def enroll_user(self, request: Request) -> User:
        """Return a trusted server's user, created if need be. Raises HTTPException, ChatNotFoundError."""
        client, tenant = await self.require_trusted_client(request)
        # A server chooses ids of the tenant that all share by default; another tenant's would bump into them.
        new_id = client.user_id if tenant == DEFAULT_TENANT else str(uuid.uuid4())
        return await self._service.accounts.enroll_user(
            tenant, client.client, client.provider_account_id, client.username, new_id=new_id
        )

    async def _tenant_of_client(self, client: TrustedClient) -> str | None:
        """The tenant of a trusted server's users; None: it is no trusted server."""
        given = client.api_key.encode()
        if any(secrets.compare_digest(given, key) for key in self._trusted):
            return DEFAULT_TENANT
        if client.api_key.startswith(PREFIX):
            found = await self._find_api_key(client.api_key)
            if found is None or found.scope is not KeyScope.TRUSTED:
                return None
            return found.tenant if found.client in (None, client.client) else None
        named = self._tenant_key(client.api_key)
        return named.tenant if named is not None and "trusted" in named.scopes else None

    async def _user_of_token(self, token: str) -> tuple[User | None, bool]:
        """Return the user of a token or key, and whether it is an admin's. Raises InvalidTokenError."""
        if token.startswith(PREFIX):
            found = await self._service.api_keys.find_key(token)
            if found is None:
                raise InvalidTokenError("Invalid token")
            key, user = found
            return user, key.scope is KeyScope.ADMIN
        try:
            user = await self._service.accounts.find_user(self._service.token_issuer.find_user_id(token))
        except ChatNotFoundError:
            raise InvalidTokenError("Invalid token") from None
        return user, user.role == UserRole.ADMIN

    async def _find_api_key(self, key: str) -> ApiKey | None:
        with suppress(InvalidTokenError):
            if (found := await self._service.api_keys.find_key(key)) is not None:
                return found[0]
        return None

    def _tenant_key(self, token: str) -> KnownKey | None:
        known = None if self._ring is None else self._ring.find_key([(b"x-api-key", token.encode())])
        return None if known is None or not known.is_usable(time()) else known

    async def _user_of_key(self, named: KnownKey) -> User:
        """Return the user of a key, created on first use. Keys without a user share one per tenant where they
        are configured, and have one each where they were made at run time."""
        if not named.may_use_models:
            raise HTTPException(403, "This key is not for calls of users")
        account = named.user or (named.access.id if named.access else "")
        known = await self._service.accounts.find_provider_user(named.tenant, OF_TENANTS, account)
        if known is not None:
            return known
        return await self._service.accounts.enroll_user(
            named.tenant, OF_TENANTS, account, named.user or named.tenant, new_id=str(uuid.uuid4())
        )


def _bearer_token(request: Request, status: int, missing: str) -> str:
    """Return the token of `Authorization: Bearer`, or, without that header, of `X-API-Key`."""
    given = request.headers.get("authorization")
    if given is None:
        kind, token = "bearer", request.headers.get("x-api-key", "")
    else:
        kind, _, token = given.partition(" ")
    if kind.lower() != "bearer" or not token.strip():
        raise HTTPException(status, missing)
    return token.strip()
