"""Who may make administrative calls."""

from __future__ import annotations

import hmac
from ipaddress import ip_address

from fastapi import Request

from radixway.config import GatewaySection
from radixway.pipeline import Unauthorized
from radixway.surfaces.networks import is_within


class AdminAccess:
    """A FastAPI dependency: lets a call pass that carries the key, or comes from a network that needs none.

    Without a configured key, calls from this machine pass too.
    """

    def __init__(self, config: GatewaySection) -> None:
        self._key = config.admin_key.get_secret_value() if config.admin_key else None
        self._networks = config.admin_networks

    def __call__(self, request: Request) -> None:
        """Raises Unauthorized."""
        host = request.client.host if request.client is not None else None
        if host is not None and is_within(host, self._networks):
            return
        if self._key is None:
            if host is not None and ip_address(host).is_loopback:
                return
            raise Unauthorized(
                "set gateway.admin_key or gateway.admin_networks to allow this call from another machine"
            )
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(key.encode("latin-1"), self._key.encode()):
            raise Unauthorized("this call needs `Authorization: Bearer` with the gateway's admin key")
