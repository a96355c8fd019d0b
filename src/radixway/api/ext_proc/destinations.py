"""Addresses to which Envoy is sent: those of workers that the gateway knows, and no others."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from ipaddress import ip_address
from time import monotonic
from typing import NamedTuple

from pydantic import IPvAnyNetwork
from yarl import URL

from radixway.api.trusted_proxies import is_in_networks
from radixway.core.pipeline import NoWorkersError
from radixway.routing import Worker

_KNOWN_FOR_S = 30.0
"""How long what a name resolved to is believed."""
_MAX_CACHED = 4096


class _CachedDestination(NamedTuple):
    endpoint: str
    base_path: str
    until: float
    """Then it is found out anew."""


class DestinationResolver:
    """Turns workers into `ip:port`. Names are resolved here: Envoy's cluster takes addresses alone."""

    def __init__(self, allowed: tuple[IPvAnyNetwork, ...]) -> None:
        """`allowed`: networks that addresses must lie in; empty: wherever a worker is."""
        self._allowed = allowed
        self._known: dict[str, _CachedDestination] = {}

    async def resolve_worker(self, worker: Worker) -> tuple[str, str]:
        """Return the `ip:port` of `worker` and the path before its paths.

        Raises NoWorkersError: Envoy cannot reach it, or may not.
        """
        known = self._known.get(worker.url)
        if known is not None and monotonic() < known.until:
            return known.endpoint, known.base_path
        url = URL(worker.url)
        if url.scheme != "http":
            raise NoWorkersError(f"worker {worker.name} speaks {url.scheme}, which Envoy is not told to")
        address = await self._resolve_host(worker, url.host or "", url.port or 80)
        if self._allowed and not is_in_networks(address, self._allowed):
            raise NoWorkersError(f"worker {worker.name} is at {address}, outside ext_proc.destinations")
        shown = f"[{address}]" if ":" in address else address
        if len(self._known) >= _MAX_CACHED:
            self._known.clear()
        found = _CachedDestination(
            f"{shown}:{url.port or 80}", url.raw_path.rstrip("/"), monotonic() + _KNOWN_FOR_S
        )
        self._known[worker.url] = found
        return found.endpoint, found.base_path

    async def _resolve_host(self, worker: Worker, host: str, port: int) -> str:
        with suppress(ValueError):
            return str(ip_address(host))
        try:
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise NoWorkersError(f"worker {worker.name} cannot be resolved: {error}") from None
        found.sort(key=lambda each: each[0] is not socket.AF_INET)  # what listens on one kind listens on this
        return str(found[0][4][0])
