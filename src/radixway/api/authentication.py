"""Authentication: a key's tenant and user, or those that a trusted proxy names."""

from __future__ import annotations

from collections.abc import Mapping

from radixway.api.trusted_proxies import TrustedProxies
from radixway.core.config import DEFAULT_TENANT
from radixway.core.http import AttemptLimiter, Scope
from radixway.core.pipeline import Caller, ForbiddenError, Request, TenantPolicy, UnauthorizedError
from radixway.core.tenants import KeyRing, KnownKey, request_keys

_TENANT = b"x-tenant-id"
_MAX_TENANT_CHARS = 64
"""Characters of a tenant's name."""


class UnknownTenantError(ForbiddenError):
    """A trusted caller names a tenant that is not configured."""

    code = "unknown_tenant"
    param = "x-tenant-id"


class CallerAuthenticator:
    """Tells tenants apart, where there are any.

    With keys configured every request needs one, or a trusted hop that names its tenant; without, all are
    the tenant `default`'s, unless a trusted hop says otherwise.
    """

    def __init__(
        self, hops: TrustedProxies, ring: KeyRing | None, tenancies: Mapping[str, TenantPolicy]
    ) -> None:
        """`tenancies`: empty where no tenants are configured; a trusted hop may then name any."""
        self._hops = hops
        self._ring = ring
        self._tenancies = tenancies
        self.needs_keys = ring is not None and len(ring) > 0
        self.any = bool(hops.any or tenancies)
        """There is something to find out about a request."""
        self._attempts = AttemptLimiter()

    def authenticate(self, request: Request, scope: Scope) -> bool:
        """Set the tenant and user of `request` from `scope`; return whether its routing headers are trusted.

        Raises:
            UnauthorizedError: a key is needed, and there is none or not one that is known.
            ForbiddenError: its key does not allow this, or it names a tenant that there is not.
            TooManyWrongKeys: it is one more of many that are not known.
        """
        try:
            trusted, name, user = self._identify(scope)
        except UnauthorizedError:
            self.count_wrong_key(scope)
            raise
        policy = None
        if self._tenancies:
            policy = self._tenancies[name]
            request.journal.add("tenant", policy)
        request.caller = Caller(name, user, policy)
        return trusted

    def apply_overrides(self, request: Request, scope: Scope) -> None:
        """Apply the headers of a trusted caller in `scope` to `request`. Raises BadRequest naming the one
        that makes no sense.
        """
        self._hops.apply_overrides(request, scope)

    def tenant_policy_of(self, scope: Scope) -> TenantPolicy | None:
        """Return the policy of the tenant whose request has this `scope`; None where no tenants are
        configured. Raises as `authenticate`.
        """
        return self._tenancies[self._identify(scope)[1]] if self._tenancies else None

    def known_key_of(self, scope: Scope) -> KnownKey | None:
        """Return the known key in the headers of `scope`, if there is one."""
        return None if self._ring is None else self._ring.find_key(scope["headers"])

    def count_wrong_key(self, scope: Scope) -> None:
        """Count the unknown key of a request, if its `scope` has one.

        Raises TooManyWrongKeys.
        """
        if request_keys(scope["headers"]):
            self._attempts.count_wrong_key(scope)

    def _identify(self, scope: Scope) -> tuple[bool, str, str | None]:
        """Whether its word is believed, its tenant, its user."""
        key = self.known_key_of(scope) if self.needs_keys else None
        by_hop = self._hops.any and self._hops.is_trusted(scope)
        trusted = by_hop or (key is not None and "trusted" in key.scopes)
        named = self._named_tenant(scope) if trusted else None
        if named is not None:
            return True, named, None
        if key is not None:
            if not key.may_use_models:
                raise ForbiddenError(f"this key is for {' and '.join(sorted(key.scopes))} calls alone")
            return trusted, key.tenant, key.user
        if self.needs_keys and not (by_hop and self._hops.has_trusted_key(scope)):
            raise UnauthorizedError(
                "this gateway needs a key of its own: `Authorization: Bearer KEY` or `x-api-key: KEY`",
                code="invalid_api_key",
            )
        return trusted, DEFAULT_TENANT, None

    def _named_tenant(self, scope: Scope) -> str | None:
        """The tenant that a trusted caller names. Raises UnknownTenantError."""
        for header, value in scope["headers"]:
            name: str = value.decode("latin-1").strip() if header == _TENANT else ""
            if name:
                if name in self._tenancies or (not self._tenancies and len(name) <= _MAX_TENANT_CHARS):
                    return name
                raise UnknownTenantError(f"there is no tenant {name[:_MAX_TENANT_CHARS]!r}")
        return None
