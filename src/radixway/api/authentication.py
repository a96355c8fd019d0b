"""Authentication: a key's tenant and user, or those that a trusted proxy names."""

import hmac
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from time import time
from typing import Any

from radixway.core.config import DEFAULT_TENANT, GatewayConfig
from radixway.core.http import AttemptLimiter, Scope
from radixway.core.pipeline import (
    BadRequest,
    Caller,
    ForbiddenError,
    Request,
    TenantPolicy,
    UnauthorizedError,
)
from radixway.core.tenants import KeyRing, KnownKey, request_keys


def is_in_networks(host: str, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    """Return whether `host` is in one of `networks`; an IPv4 address written as IPv6 counts as IPv4."""
    address = ip_address(host)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in networks)


_MODEL = (b"x-vsr-selected-model", b"x-vsr-model")
_WORKER = (b"x-radixway-worker", b"x-worker-instance-id")
_PRIORITY = b"x-radixway-priority"
_MAX_HEADER_CHARS = 256
"""These headers are kept in journals."""


def _bearer_key(value: bytes) -> bytes:
    scheme, _, key = value.partition(b" ")
    return key.strip() if scheme.lower() == b"bearer" else b""


def _first_header(headers: dict[bytes, bytes], names: tuple[bytes, ...]) -> str | None:
    for name in names:
        value = headers.get(name, b"").strip()
        if value:
            if len(value) > _MAX_HEADER_CHARS:
                raise BadRequest(f"at most {_MAX_HEADER_CHARS} characters", param=name.decode("ascii"))
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise BadRequest("this must be UTF-8 text", param=name.decode("ascii")) from None
    return None


_TENANT = b"x-tenant-id"
_ABOUT_ITSELF = frozenset({"/key/info", "/whoami"})
"""What a key may ask whatever its endpoints are."""
_MAX_TENANT_CHARS = 64


class UnknownTenantError(ForbiddenError):
    """A trusted caller names a tenant that is not configured."""

    code = "unknown_tenant"
    param = "x-tenant-id"


class CallerAuthenticator:
    """Identifies the tenant and user of requests.

    With keys configured every request needs one, or a trusted hop that names its tenant; without, requests
    belong to the tenant `default`, unless a trusted hop names another.
    """

    def __init__(
        self, config: GatewayConfig, ring: KeyRing | None, tenancies: Mapping[str, TenantPolicy]
    ) -> None:
        """`ring` and `tenancies` may change later. `tenancies`: empty where there are no tenants; a trusted
        hop may then name any.
        """
        self._hop_networks = config.trusted_hops
        self._hop_keys = [key.get_secret_value().encode() for key in config.trusted_keys]
        self._has_hops = bool(self._hop_networks or self._hop_keys)
        self._ring = ring
        self._tenancies = tenancies
        self._attempts = AttemptLimiter()

    @property
    def needs_keys(self) -> bool:
        """Whether calls need a key."""
        return self._ring is not None and self._ring.needs_keys

    @property
    def any(self) -> bool:
        """Whether requests may carry facts about their caller."""
        return bool(self._tenancies or self._has_hops)

    def authenticate(self, request: Request, scope: Scope) -> bool:
        """Set the tenant and user of `request` from `scope`; return whether its routing headers are trusted.

        Raises:
            UnauthorizedError: a required key is missing or unknown.
            ForbiddenError: its key does not allow this, or it names an unknown tenant.
            TooManyWrongKeys: too many unknown keys came from there.
        """
        try:
            trusted, name, known = self._identify(scope)
        except UnauthorizedError:
            self.count_wrong_key(scope)
            raise
        policy = None
        if self._tenancies:
            policy = self._tenancies[name].narrowed_to(None if known is None else known.models)
            request.journal.add("tenant", policy)
        if known is None:
            request.caller = Caller(name, None, policy)
        else:
            if known.access is not None:
                known.access.check_call(scope["path"], time())
            request.caller = Caller(name, known.user, policy, known.access)
        return trusted

    def apply_overrides(self, request: Request, scope: Scope) -> None:
        """Apply a trusted caller's headers to `request`: another model, one certain worker, a priority.

        Raises BadRequest naming the header that makes no sense.
        """
        headers = dict(scope["headers"])
        overrides: dict[str, Any] = {}
        if (model := _first_header(headers, _MODEL)) is not None and model != request.model:
            request.edit(model=model)
            request.model = overrides["model"] = model
        if (worker := _first_header(headers, _WORKER)) is not None:
            request.pinned = overrides["worker"] = worker.rstrip("/")
        if (priority := _first_header(headers, (_PRIORITY,))) is not None:
            try:
                request.priority = overrides["priority"] = int(priority)
            except ValueError:
                message = f"x-radixway-priority must be a whole number, not {priority!r}"
                raise BadRequest(message, param=_PRIORITY.decode("ascii")) from None
        if overrides:
            request.journal.add("hop", **overrides)

    def tenant_policy_of(self, scope: Scope) -> TenantPolicy | None:
        """Return the policy of the tenant of `scope`; None without tenants. Raises as `authenticate`."""
        if not self._tenancies:
            return None
        _, name, known = self._identify(scope)
        if known is not None and known.access is not None:
            known.access.check_valid(time())
        return self._tenancies[name].narrowed_to(None if known is None else known.models)

    def check_call(self, scope: Scope) -> None:
        """Check that the caller may make the call in `scope`. Raises as `authenticate`."""
        known = self._identify(scope)[2]
        if known is not None and known.access is not None:
            if scope["path"] in _ABOUT_ITSELF:
                known.access.check_valid(time())
            else:
                known.access.check_call(scope["path"], time())

    def known_key_of(self, scope: Scope) -> KnownKey | None:
        """Return the known key in the headers of `scope`, if there is one; none that has expired or is
        blocked."""
        known = None if self._ring is None else self._ring.find_key(scope["headers"])
        return None if known is None or not known.is_usable(time()) else known

    def count_wrong_key(self, scope: Scope) -> None:
        """Count the unknown key in `scope`, if there is one. Raises HttpError (429) after too many."""
        if request_keys(scope["headers"]):
            self._attempts.count_wrong_key(scope)

    def _identify(self, scope: Scope) -> tuple[bool, str, KnownKey | None]:
        """Return whether the caller is trusted, its tenant, and the key that it is known by."""
        key = self._ring.find_key(scope["headers"]) if self.needs_keys and self._ring is not None else None
        by_hop = self._has_hops and self._is_hop(scope)
        trusted = by_hop or (key is not None and "trusted" in key.scopes)
        named = self._named_tenant(scope) if trusted else None
        if named is not None:
            if key is not None and self._ring is not None:
                return True, named, self._ring.name_tenant(key, named)
            return True, named, None if self._ring is None else self._ring.teams.get(named)
        if key is not None:
            if not key.may_use_models:
                raise ForbiddenError(f"this key is for {' and '.join(sorted(key.scopes))} calls alone")
            return trusted, key.tenant, key
        if self.needs_keys and not (by_hop and self._has_hop_key(scope)):
            raise UnauthorizedError(
                "this gateway needs a key of its own: `Authorization: Bearer KEY` or `x-api-key: KEY`",
                code="invalid_api_key",
            )
        return trusted, DEFAULT_TENANT, None

    def _is_hop(self, scope: Scope) -> bool:
        """Whether `scope` comes straight from a trusted network, or has a trusted key."""
        client = scope.get("client")
        if self._hop_networks and client is not None and is_in_networks(client[0], self._hop_networks):
            return True
        return self._has_hop_key(scope)

    def _has_hop_key(self, scope: Scope) -> bool:
        return bool(self._hop_keys) and any(
            hmac.compare_digest(_bearer_key(value), key)
            for name, value in scope["headers"]
            if name == b"authorization"
            for key in self._hop_keys
        )

    def _named_tenant(self, scope: Scope) -> str | None:
        for header, value in scope["headers"]:
            name: str = value.decode("latin-1").strip() if header == _TENANT else ""
            if name:
                if name in self._tenancies or (not self._tenancies and len(name) <= _MAX_TENANT_CHARS):
                    return name
                raise UnknownTenantError(f"there is no tenant {name[:_MAX_TENANT_CHARS]!r}")
        return None
