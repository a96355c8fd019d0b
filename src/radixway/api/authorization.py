"""Authorization: the paths that each caller may use. `/whoami` returns what the caller's key allows."""

import logging
from collections.abc import Collection
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.requests import HTTPConnection

from radixway.api.admin_access import AdminAccess
from radixway.api.authentication import CallerAuthenticator, is_in_networks
from radixway.core.config import GatewayConfig
from radixway.core.http import LazyRouter, OriginCheck, Scope, is_loopback_host
from radixway.core.http.request_origin import ForeignHostError
from radixway.core.pipeline import GatewayError, TenantPolicy, UnauthorizedError
from radixway.core.tenants import TenantService

log = logging.getLogger(__name__)

_OPEN = frozenset({"/health", "/ready", "/metrics", "/metrics/prometheus"})
"""Open to probes, which have no keys; how much they show depends on the caller (`shows_details`,
`authorize_scrape`)."""
_PAGE_HEADERS = (b"origin", b"sec-fetch-site")
"""Headers that browsers send with what a page asks for."""
_MAX_OWN_HOSTS = 64
_ANY_HOST = frozenset({"/health", "/ready"})
"""Served under any Host: probes use all kinds of names, and they reveal nothing."""
_CONSOLE = "/console"
"""Its own process checks the Host of page visits."""
_FOR_WORKERS = frozenset(
    {
        *("/workers", "/add_worker", "/remove_worker", "/drain_worker"),
        *("/resume_worker", "/list_workers"),
        *("/v1/loads", "/loads", "/get_loads", "/get_load"),
    }
)
_ONE_WORKER = "/workers/"


class PathAuthorization:
    """Checks every path that FastAPI serves, if tenants have keys."""

    def __init__(
        self, config: GatewayConfig, tenants: TenantService | None, hosts: Collection[str] = ()
    ) -> None:
        """`hosts`: under which browsers reach the gateway, beside its addresses."""
        ring = None if tenants is None else tenants.ring
        self.callers = CallerAuthenticator(config, ring, {} if tenants is None else tenants.tenancies)
        self.origins = OriginCheck(
            hosts=hosts,
            origins=config.cors_origins,
            site_help="send a key with it, or name the site in gateway.cors_origins",
            host_help="name it in gateway.hosts, or give tenants keys",
        )
        self.access = AdminAccess(config, self.callers, origins=self.origins)
        self.workers_access = AdminAccess(
            config, self.callers, scopes=("admin", "worker"), origins=self.origins
        )
        """Access for workers that add themselves, which have keys of their own."""
        self._metrics_access = AdminAccess(
            config, self.callers, scopes=("admin", "metrics"), origins=self.origins
        )
        self._own_hosts: set[bytes | None] = set()
        """Values of `Host` that no other site can have, as far as they have come."""
        self._names_tenants = self.access.needs_key or tenants is not None
        self._known_networks = (*config.admin_networks, *config.trusted_hops)
        if not self.callers.needs_keys and not is_loopback_host(config.host):
            advice = "give tenants keys (tenants.NAME.keys), or listen on 127.0.0.1"
            log.warning("%s accepts requests without a key: %s", config.host, advice)

    def check_origin(self, scope: Scope) -> None:
        """Raise HttpError (403) where a page of another site may have sent `scope`.

        Checked for every request and WebSocket before anything else.
        """
        host: bytes | None = None
        from_page = False
        for name, value in scope["headers"]:
            if name == b"host":
                host = value if host is None else host
            elif name in _PAGE_HEADERS:
                from_page = True
        if not from_page and host in self._own_hosts:
            return
        self.origins.check_site(scope)
        path: str = scope["path"]
        if not self.callers.needs_keys and path not in _ANY_HOST and not path.startswith(_CONSOLE):
            try:
                self.origins.check_host(scope)
            except ForeignHostError:
                client = scope["client"][0]
                if is_in_networks(client, self._known_networks) or self.access.has_admin_key(
                    HTTPConnection(scope)
                ):
                    return
                raise
        if len(self._own_hosts) < _MAX_OWN_HOSTS and not self.origins.has_foreign_host(scope):
            self._own_hosts.add(host)

    def __call__(self, request: Request) -> None:
        """Check the key of `request`. Raises UnauthorizedError, ForbiddenError, HttpError (429)."""
        path = request.url.path
        if not self.callers.needs_keys or path in _OPEN:
            return
        if path in _FOR_WORKERS or path.startswith(_ONE_WORKER):
            self.workers_access(request)
        elif not self.access.is_allowed(request):
            try:
                self.callers.check_call(request.scope)
            except UnauthorizedError:
                self.callers.count_wrong_key(request.scope)
                raise

    def shows_details(self, request: Request) -> bool:
        """Return whether `request` may see names, addresses and paths of components."""
        return self._metrics_access.is_allowed(request)

    def authorize_scrape(self, request: Request) -> None:
        """Raise UnauthorizedError or ForbiddenError where `request` may not see the names in metrics."""
        if not self._names_tenants:
            return
        try:
            self._metrics_access(request)
        except UnauthorizedError:
            raise UnauthorizedError(
                "metrics name tenants and workers: scrape with `Authorization: Bearer KEY` (in Prometheus, "
                "`authorization` of scrape_configs), with gateway.admin_key or a key of the scope metrics or "
                "admin (tenants.NAME.keys), or from a network in gateway.admin_networks"
            ) from None

    def has_valid_key(self, scope: Scope) -> bool:
        """Return whether `scope` has the key that it needs, if any; without one its body is not read."""
        if not self.callers.needs_keys or self.access.is_allowed(Request(scope)):
            return True
        try:
            self.callers.tenant_policy_of(scope)
        except GatewayError:
            return False
        return True

    def tenant_policy_of(self, request: Request) -> TenantPolicy | None:
        """Return the policy of the tenant of `request`; None for administrators and without tenants."""
        try:
            return self.callers.tenant_policy_of(request.scope)
        except GatewayError:
            return None  # an administrator's

    def visible_tenant(self, request: Request) -> str | None:
        """Return the one tenant whose data `request` may see; None: all. Raises as `tenant_policy_of`."""
        if self.access.is_allowed(request):
            return None
        tenancy = self.callers.tenant_policy_of(request.scope)
        return None if tenancy is None else tenancy.name

    def visible_tenant_or_admin(self, request: Request) -> str | None:
        """Return `visible_tenant`, for tenants and administrators alone. Raises as `access` too."""
        if not self.callers.needs_keys:
            self.access(request)
            return None
        return self.visible_tenant(request)


class CallerInfo(BaseModel):
    """The caller's rights."""

    admin: bool
    """The key allows administrative calls."""
    by_key: bool
    """Its key alone allows them, wherever it comes from."""
    needs_key: bool
    """Keys exist; without any, administrative calls are for this machine alone."""
    tenant: str | None
    """The key's tenant, where tenants are configured."""


def whoami_routes(gate: PathAuthorization) -> APIRouter:
    """Build `/whoami`, which needs no key; wrong keys are counted by `gate`, and too many are refused."""
    router = LazyRouter(tags=["gateway"])

    @router.get("/whoami", response_model=CallerInfo)
    async def whoami(request: Request) -> Any:
        """Say whether this call is an administrator's, and which tenant it belongs to."""
        tenancy, admin = gate.tenant_policy_of(request), gate.access.is_allowed(request)
        if tenancy is None and not admin and gate.access.needs_key:
            gate.callers.count_wrong_key(request.scope)
        return CallerInfo(
            admin=admin,
            by_key=gate.access.has_admin_key(request),
            needs_key=gate.access.needs_key,
            tenant=None if tenancy is None else tenancy.name,
        )

    return router
