"""Access to administrative calls."""

from __future__ import annotations

import hmac
from collections.abc import Collection

from fastapi import Request
from starlette.requests import HTTPConnection

from radixway.api.authentication import CallerAuthenticator, is_in_networks
from radixway.core.config import GatewayConfig
from radixway.core.http import OriginCheck, Scope
from radixway.core.http.request_origin import is_loopback, proxy_header, quoted_host
from radixway.core.pipeline import ForbiddenError, UnauthorizedError

BY = "radixway.admin"
"""Where a scope says who makes an administrator's call; `NOBODY` where it was refused."""
NOBODY = "nobody"


class AdminAccess:
    """A FastAPI dependency: lets a call pass that carries the key, or comes from a network that needs none.

    The key is the gateway's admin key, or one of a tenant with one of `scopes`. Where neither the gateway nor
    any tenant has keys, calls from this machine pass too, but none that came through a proxy, and none under
    a name that another site may have. What passes without a key never comes from another site's page.
    """

    def __init__(
        self,
        config: GatewayConfig,
        callers: CallerAuthenticator | None = None,
        scopes: Collection[str] = ("admin",),
        origins: OriginCheck | None = None,
    ) -> None:
        """`origins`: the gateway's own names; by default those configured."""
        self._key = config.admin_key.get_secret_value() if config.admin_key else None
        self._networks = config.admin_networks
        self._callers = callers if callers is not None and callers.needs_keys else None
        self._check_wrong_key = None if callers is None else callers.count_wrong_key
        self._scopes = frozenset(scopes)
        self._origins = origins or OriginCheck(hosts=config.hosts)

    @property
    def needs_key(self) -> bool:
        """There are keys with which a call passes."""
        return self._key is not None or self._callers is not None

    def __call__(self, request: Request) -> None:
        """Let `request` pass. Raises UnauthorizedError, ForbiddenError (no such scope), TooManyWrongKeys."""
        if self.is_allowed(request):
            request.scope[BY] = self._caller_name(request)
            return
        request.scope[BY] = NOBODY
        if self._callers is not None:
            if self._callers.known_key_of(request.scope) is not None:
                raise ForbiddenError(
                    f"this call needs a key of the scope {' or '.join(sorted(self._scopes))}"
                )
        elif self._key is None:
            raise UnauthorizedError(self._why_not_local(request.scope))
        if self._check_wrong_key is not None:
            self._check_wrong_key(request.scope)
        raise UnauthorizedError("this call needs `Authorization: Bearer` with the gateway's admin key")

    def is_allowed(self, request: HTTPConnection) -> bool:
        """Return whether `request` may make an administrative call."""
        return (self.needs_key and self.has_admin_key(request)) or self._passes_keyless(request.scope)

    def _passes_keyless(self, scope: Scope) -> bool:
        """Whether its address is enough, because no page of another site is behind it."""
        origins, client = self._origins, scope.get("client")
        if not client:
            return False
        if is_in_networks(client[0], self._networks):  # these may be whole offices, browsers and all
            is_browser = any(name == b"origin" for name, _ in scope["headers"])
            return not origins.is_cross_site(scope) and not (is_browser and origins.has_foreign_host(scope))
        return (
            not self.needs_key
            and is_loopback(scope)
            and proxy_header(scope) is None
            and not origins.has_foreign_host(scope)
            and not origins.is_cross_site(scope)
        )

    def _why_not_local(self, scope: Scope) -> str:
        if not is_loopback(scope):
            return "set gateway.admin_key or gateway.admin_networks to allow this call from another machine"
        if (header := proxy_header(scope)) is not None:
            return (
                f"this call came through a proxy ({header}), so that its address says nothing: set "
                "gateway.admin_key, or gateway.admin_networks if all who reach the proxy may make it"
            )
        if self._origins.has_foreign_host(scope):
            return (
                f"another site may have the name {quoted_host(scope)!r}, under which this call came: ask at "
                "localhost or an address, name it in gateway.hosts, or set gateway.admin_key or "
                "gateway.admin_networks"
            )
        return "a page of another site asked for this: set gateway.admin_key, and send it"

    def _caller_name(self, request: Request) -> str:
        """Who calls, as the audit log knows them: users are not named there."""
        key = None if self._callers is None else self._callers.known_key_of(request.scope)
        if key is not None:
            return f"tenant:{key.tenant}"
        return "admin_key" if self.has_admin_key(request) else "network"

    def has_admin_key(self, request: HTTPConnection) -> bool:
        """Return whether `request` brings a key with which it passes from anywhere."""
        if self._callers is not None:
            key = self._callers.known_key_of(request.scope)
            if key is not None and not self._scopes.isdisjoint(key.scopes):
                return True
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        return (
            self._key is not None
            and scheme.lower() == "bearer"
            and hmac.compare_digest(given.encode("latin-1"), self._key.encode())
        )
