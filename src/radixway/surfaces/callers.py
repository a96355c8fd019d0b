"""Who is asking: a key's tenant and user, or what a trusted hop says of them."""

from __future__ import annotations

from collections.abc import Mapping

from radixway.config import DEFAULT_TENANT
from radixway.pipeline import Forbidden, Request, Tenancy, Unauthorized
from radixway.surfaces.hop import TrustedHops
from radixway.tenants import KeyRing, KnownKey, keys_in
from radixway.web import AttemptLimiter, Scope

_TENANT = b"x-tenant-id"
_LONGEST = 64
"""Characters of a tenant's name."""


class UnknownTenant(Forbidden):
    """A trusted caller names a tenant that is not configured."""

    code = "unknown_tenant"
    param = "x-tenant-id"


class Callers:
    """Tells tenants apart, where there are any.

    With keys configured every request needs one, or a trusted hop that names its tenant; without, all are
    the tenant `default`'s, unless a trusted hop says otherwise.
    """

    def __init__(self, hops: TrustedHops, ring: KeyRing | None, tenancies: Mapping[str, Tenancy]) -> None:
        """`tenancies`: empty where no tenants are configured; a trusted hop may then name any."""
        self._hops = hops
        self._ring = ring
        self._tenancies = tenancies
        self.needs_keys = ring is not None and len(ring) > 0
        self.any = bool(hops.any or tenancies)
        """There is something to find out about a request."""
        self._attempts = AttemptLimiter()

    def introduce(self, request: Request, scope: Scope) -> bool:
        """Note on the request whose it is; whether what it says of its way is to be believed (`obey`).

        Raises:
            Unauthorized: a key is needed, and there is none or not one that is known.
            Forbidden: its key does not allow this, or it names a tenant that there is not.
            TooManyWrongKeys: it is one more of many that are not known.
        """
        try:
            trusted, name, user = self._who(scope)
        except Unauthorized:
            self.check_wrong_key(scope)
            raise
        if self._tenancies:
            request.tenancy = tenancy = self._tenancies[name]
            request.journal.add("tenant", tenancy)
        request.tenant, request.user = name, user
        return trusted

    def obey(self, request: Request, scope: Scope) -> None:
        """Do what a trusted caller's headers say. Raises BadRequest naming the one that makes no sense."""
        self._hops.obey(request, scope)

    def tenancy_of(self, scope: Scope) -> Tenancy | None:
        """Whose request it is; None where no tenants are configured. Raises as `introduce`."""
        return self._tenancies[self._who(scope)[1]] if self._tenancies else None

    def key_of(self, scope: Scope) -> KnownKey | None:
        """The known key that a request brings."""
        return None if self._ring is None else self._ring.find(scope["headers"])

    def check_wrong_key(self, scope: Scope) -> None:
        """Count the key of a request for which nobody knows it, if it brings one.

        Raises TooManyWrongKeys.
        """
        if keys_in(scope["headers"]):
            self._attempts.check_wrong_key(scope)

    def _who(self, scope: Scope) -> tuple[bool, str, str | None]:
        """Whether its word is believed, its tenant, its user."""
        key = self.key_of(scope) if self.needs_keys else None
        by_hop = self._hops.any and self._hops.vouch_for(scope)
        trusted = by_hop or (key is not None and "trusted" in key.scopes)
        named = self._named(scope) if trusted else None
        if named is not None:
            return True, named, None
        if key is not None:
            if not key.may_ask:
                raise Forbidden(f"this key is for {' and '.join(sorted(key.scopes))} calls alone")
            return trusted, key.tenant, key.user
        if self.needs_keys and not (by_hop and self._hops.has_key(scope)):
            raise Unauthorized(
                "this gateway needs a key of its own: `Authorization: Bearer KEY` or `x-api-key: KEY`",
                code="invalid_api_key",
            )
        return trusted, DEFAULT_TENANT, None

    def _named(self, scope: Scope) -> str | None:
        """The tenant that a trusted caller names. Raises UnknownTenant."""
        for header, value in scope["headers"]:
            name: str = value.decode("latin-1").strip() if header == _TENANT else ""
            if name:
                if name in self._tenancies or (not self._tenancies and len(name) <= _LONGEST):
                    return name
                raise UnknownTenant(f"there is no tenant {name[:_LONGEST]!r}")
        return None
