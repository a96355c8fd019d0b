"""Trusted proxies: networks and keys whose headers decide about a request.

Whose word counts on where a request goes: proxies and semantic routers that stand before the gateway.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any

from radixway.core.config import GatewayConfig
from radixway.core.http import Scope
from radixway.core.pipeline import BadRequest, Request


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
"""Characters: what these headers say is kept in journals."""


class TrustedProxies:
    """Believes the headers of configured networks and keys; everybody else's have been stripped."""

    def __init__(self, config: GatewayConfig) -> None:
        self._networks = config.trusted_hops
        self._keys = [key.get_secret_value().encode() for key in config.trusted_keys]
        self.any = bool(self._networks or self._keys)
        """Somebody is trusted."""

    def is_trusted(self, scope: Scope) -> bool:
        """Return whether `scope` comes straight from a trusted network, or has a trusted key."""
        client = scope.get("client")
        if self._networks and client is not None and is_in_networks(client[0], self._networks):
            return True
        return self.has_trusted_key(scope)

    def has_trusted_key(self, scope: Scope) -> bool:
        """Return whether `scope` has a trusted key."""
        return bool(self._keys) and any(
            hmac.compare_digest(_bearer_key(value), key)
            for name, value in scope["headers"]
            if name == b"authorization"
            for key in self._keys
        )

    def apply_overrides(self, request: Request, scope: Scope) -> None:
        """Apply a trusted proxy's headers to `request`: another model, one certain worker, another priority.

        Raises BadRequest naming the header that makes no sense.
        """
        headers = dict(scope["headers"])
        told: dict[str, Any] = {}
        if (model := _first_header(headers, _MODEL)) is not None and model != request.model:
            request.edit(model=model)
            request.model = told["model"] = model
        if (worker := _first_header(headers, _WORKER)) is not None:
            request.pinned = told["worker"] = worker.rstrip("/")
        if (priority := _first_header(headers, (_PRIORITY,))) is not None:
            request.priority = told["priority"] = _parse_priority(priority)
        if told:
            request.journal.add("hop", **told)


def _bearer_key(value: bytes) -> bytes:
    scheme, _, key = value.partition(b" ")
    return key.strip() if scheme.lower() == b"bearer" else b""


def _first_header(headers: dict[bytes, bytes], names: tuple[bytes, ...]) -> str | None:
    """The first of these headers that is there."""
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


def _parse_priority(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        message = f"x-radixway-priority must be a whole number, not {text!r}"
        raise BadRequest(message, param=_PRIORITY.decode("ascii")) from None
