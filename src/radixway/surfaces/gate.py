"""Who may use which of the gateway's paths. Without tenants: administrative calls need the admin's key."""

from __future__ import annotations

import logging
from ipaddress import ip_address

from fastapi import Request

from radixway.config import GatewaySection
from radixway.pipeline import GatewayError, Tenancy
from radixway.surfaces.access import AdminAccess
from radixway.surfaces.callers import Callers
from radixway.surfaces.hop import TrustedHops
from radixway.tenants import TenantsRoom

log = logging.getLogger(__name__)

_OPEN = frozenset({"/health", "/ready", "/metrics", "/metrics/prometheus"})
"""For probes and scrapers, which have no keys."""
_FOR_WORKERS = frozenset({"/workers", "/add_worker", "/remove_worker", "/drain_worker", "/list_workers"})


class Gate:
    """Asked for every path that FastAPI serves; it has nothing to do unless tenants have keys."""

    def __init__(self, config: GatewaySection, room: TenantsRoom | None) -> None:
        ring = None if room is None else room.ring
        self.callers = Callers(TrustedHops(config), ring, {} if room is None else room.tenancies)
        self.access = AdminAccess(config, self.callers)
        self.workers_access = AdminAccess(config, self.callers, scopes=("admin", "worker"))
        """Also for keys with which workers add themselves."""
        if not self.callers.needs_keys:
            _warn_if_open(config.host)

    def __call__(self, request: Request) -> None:
        """Raises Unauthorized, Forbidden."""
        path = request.url.path
        if not self.callers.needs_keys or path in _OPEN:
            return
        if path in _FOR_WORKERS:
            self.workers_access(request)
        elif not self.access.passes(request):
            self.callers.tenancy_of(request.scope)

    def tenancy_of(self, request: Request) -> Tenancy | None:
        """Whose call it is, where tenants are configured and it is one's."""
        try:
            return self.callers.tenancy_of(request.scope)
        except GatewayError:
            return None  # an administrator's

    def confined_to(self, request: Request) -> str | None:
        """The tenant whose affairs alone the call may see; None: everybody's. Raises as `tenancy_of`."""
        if self.access.passes(request):
            return None
        tenancy = self.callers.tenancy_of(request.scope)
        return None if tenancy is None else tenancy.name

    def shown_to(self, request: Request) -> str | None:
        """As `confined_to`, where only tenants and administrators see anything. Raises as `access` too."""
        if not self.callers.needs_keys:
            self.access(request)
            return None
        return self.confined_to(request)


def _warn_if_open(host: str) -> None:
    """Say so where anybody on the network may ask."""
    try:
        closed = ip_address(host).is_loopback
    except ValueError:
        closed = host == "localhost"
    if not closed:
        log.warning(
            "whoever reaches %s may ask: give tenants keys (tenants.NAME.keys), or listen on 127.0.0.1", host
        )
