"""Who may make administrative calls."""

from __future__ import annotations

import hmac
from collections.abc import Collection
from ipaddress import ip_address

from fastapi import Request

from radixway.config import GatewaySection
from radixway.pipeline import Forbidden, Unauthorized
from radixway.surfaces.callers import Callers
from radixway.surfaces.networks import is_within
from radixway.web.host_names import may_be_foreign, name_in

BY = "radixway.admin"
"""Where a scope says who makes an administrator's call; `NOBODY` where it was refused."""
NOBODY = "nobody"
_LONGEST_NAME = 253


class AdminAccess:
    """A FastAPI dependency: lets a call pass that carries the key, or comes from a network that needs none.

    The key is the gateway's admin key, or one of a tenant with one of `scopes`. Where neither the gateway nor
    any tenant has keys, calls from this machine pass too, but not under a name that another site may have: a
    page of that site's could have it led here (DNS rebinding).
    """

    def __init__(
        self,
        config: GatewaySection,
        callers: Callers | None = None,
        scopes: Collection[str] = ("admin",),
    ) -> None:
        self._key = config.admin_key.get_secret_value() if config.admin_key else None
        self._networks = config.admin_networks
        self._callers = callers if callers is not None and callers.needs_keys else None
        self._scopes = frozenset(scopes)

    @property
    def needs_key(self) -> bool:
        """There are keys with which a call passes."""
        return self._key is not None or self._callers is not None

    def __call__(self, request: Request) -> None:
        """Raises Unauthorized; Forbidden for a tenant's key that is not for this."""
        if self.passes(request):
            request.scope[BY] = self._who(request)
            return
        request.scope[BY] = NOBODY
        if self._callers is not None:
            if self._callers.key_of(request.scope) is not None:
                raise Forbidden(f"this call needs a key of the scope {' or '.join(sorted(self._scopes))}")
        elif self._key is None:
            if self._is_from_here(request):
                name = name_in(request.headers["host"])[:_LONGEST_NAME]
                raise Unauthorized(
                    f"another site may have the name {name!r}, under which this call came: ask at localhost "
                    "or an address, or set gateway.admin_key or gateway.admin_networks"
                )
            raise Unauthorized(
                "set gateway.admin_key or gateway.admin_networks to allow this call from another machine"
            )
        raise Unauthorized("this call needs `Authorization: Bearer` with the gateway's admin key")

    def passes(self, request: Request) -> bool:
        """Whether it does."""
        host = request.client.host if request.client is not None else None
        if host is not None and is_within(host, self._networks):
            return True
        if not self.needs_key:
            return self._is_from_here(request) and not may_be_foreign(request.headers.get("host", ""))
        return self.has_key(request)

    def _is_from_here(self, request: Request) -> bool:
        return request.client is not None and ip_address(request.client.host).is_loopback

    def _who(self, request: Request) -> str:
        """Who calls, as the audit log knows them: users are not named there."""
        key = None if self._callers is None else self._callers.key_of(request.scope)
        if key is not None:
            return f"tenant:{key.tenant}"
        return "admin_key" if self.has_key(request) else "network"

    def has_key(self, request: Request) -> bool:
        """Whether it brings a key with which it passes from anywhere."""
        if self._callers is not None:
            key = self._callers.key_of(request.scope)
            if key is not None and not self._scopes.isdisjoint(key.scopes):
                return True
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        return (
            self._key is not None
            and scheme.lower() == "bearer"
            and hmac.compare_digest(given.encode("latin-1"), self._key.encode())
        )
