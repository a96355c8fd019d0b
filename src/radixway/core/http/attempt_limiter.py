"""Counts wrong keys by client address.

Right keys always work: guesses from an address do not lock out others behind it. So this only reduces noise
and load, and reports attempts; only a long key protects against guessing.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from math import ceil
from time import monotonic

from radixway.core.http.asgi import Scope
from radixway.core.http.errors import HttpError

_COUNTED = "radixway.wrong_key"
"""Scope key that marks a wrong key as counted: one request is checked in several places."""
_WINDOW_S = 60.0
"""How long a window is, from its first failure."""
_IPV6_SITE_BITS = 64
"""Prefix length that a site gets; the rest is its own choice."""


@dataclass(slots=True)
class _FailureWindow:
    began_at: float
    failures: int


class AttemptLimiter:
    """Failures of the current window, from each address and from all of them."""

    def __init__(
        self,
        max_failures: int = 20,
        clock: Callable[[], float] = monotonic,
        *,
        max_total: int | None = None,
        max_addresses: int = 10_000,
    ) -> None:
        """
        Args:
            max_failures: wrong keys in a window from one address before `retry_after_s` says when to go on.
            clock: in seconds.
            max_total: the same from all addresses together; None: without limit.
            max_addresses: that are remembered; beyond it the one whose window began first is forgotten.
        """
        self._max_failures = max_failures
        self._max_total = max_total
        self._clock = clock
        self._max_addresses = max_addresses
        self._all = _FailureWindow(0.0, 0)
        self._by_address: OrderedDict[str, _FailureWindow] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_address)

    def retry_after_s(self, address: str) -> int:
        """Return the seconds until a key from `address` is accepted again; 0: now."""
        now = self._clock()
        until = 0.0
        own = self._by_address.get(_address_block(address))
        if own is not None and own.failures >= self._max_failures:
            until = own.began_at + _WINDOW_S
        if self._max_total is not None and self._all.failures >= self._max_total:
            until = max(until, self._all.began_at + _WINDOW_S)
        return max(0, ceil(until - now))

    def record_failure(self, address: str) -> None:
        """Count a wrong key from `address`."""
        now, site = self._clock(), _address_block(address)
        own = self._by_address.get(site)
        if own is None or own.began_at + _WINDOW_S <= now:
            self._by_address[site] = own = _FailureWindow(now, 0)
            self._by_address.move_to_end(site)
            if len(self._by_address) > self._max_addresses:
                self._by_address.popitem(last=False)
        if self._all.began_at + _WINDOW_S <= now:
            self._all = _FailureWindow(now, 0)
        own.failures += 1
        self._all.failures += 1

    def count_wrong_key(self, scope: Scope) -> None:
        """Count a request's key as wrong. Raises HttpError (429) where too many came before it."""
        client = scope.get("client")
        address = client[0] if client else ""
        wait_s = scope.get(_COUNTED)
        if wait_s is None:
            scope[_COUNTED] = wait_s = self.retry_after_s(address)
            self.record_failure(address)
        if wait_s:
            message = "too many wrong keys came from this address"
            raise HttpError(message, status=429, code="too_many_wrong_keys", retry_after_s=wait_s)


def _address_block(address: str) -> str:
    """Return the block that one party controls: an IPv4 address, or a /64 of IPv6."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{int(parsed) >> (128 - _IPV6_SITE_BITS):x}::/{_IPV6_SITE_BITS}"
