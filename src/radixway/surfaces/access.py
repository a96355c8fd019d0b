"""Who may make administrative calls."""

from __future__ import annotations

import hmac

from fastapi import Request

from radixway.config import GatewaySection
from radixway.pipeline import Unauthorized


class AdminAccess:
    """A FastAPI dependency: lets a call pass when no key is configured, or when it carries the key."""

    def __init__(self, config: GatewaySection) -> None:
        self._key = config.admin_key.get_secret_value() if config.admin_key else None

    def __call__(self, request: Request) -> None:
        """Raises Unauthorized."""
        if self._key is None:
            return
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(key.encode(), self._key.encode()):
            raise Unauthorized("this call needs `Authorization: Bearer` with the gateway's admin key")
