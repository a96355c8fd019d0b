"""Who may make administrative calls."""

from __future__ import annotations

import hmac
from ipaddress import ip_address

from fastapi import Request

from radixway.config import GatewaySection
from radixway.pipeline import Unauthorized


class AdminAccess:
    """A FastAPI dependency: lets a call pass that carries the key.

    Without a configured key, calls from this machine pass and no others.
    """

    def __init__(self, config: GatewaySection) -> None:
        self._key = config.admin_key.get_secret_value() if config.admin_key else None

    def __call__(self, request: Request) -> None:
        """Raises Unauthorized."""
        if self._key is None:
            if request.client is not None and ip_address(request.client.host).is_loopback:
                return
            raise Unauthorized("set gateway.admin_key to allow this call from another machine")
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(key.encode("latin-1"), self._key.encode()):
            raise Unauthorized("this call needs `Authorization: Bearer` with the gateway's admin key")
